<?php

declare(strict_types=1);

namespace Hailer\Pelican;

/**
 * Sends the target to a Unix socket, behind which systemd starts `hailer query - --json`: see
 * `systemd/`. For panels whose PHP may not start programs.
 */
final class SocketClient implements Client
{
    public function __construct(
        private readonly string $path = '/run/hailer/query.sock',
        private readonly float $seconds = 6.0,
    ) {
    }

    public function query(string $target): ?string
    {
        $socket = @stream_socket_client("unix://{$this->path}", $code, $message, $this->seconds);
        if ($socket === false) {
            return null;
        }
        stream_set_timeout($socket, (int) ceil($this->seconds));
        fwrite($socket, "{$target}\n");
        stream_socket_shutdown($socket, STREAM_SHUT_WR);
        $line = stream_get_line($socket, 1 << 22, "\n");
        fclose($socket);

        return $line === false || $line === '' ? null : $line;
    }
}
