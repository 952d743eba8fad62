<?php

declare(strict_types=1);

namespace Hailer\Pelican;

/** Targets of `hailer query`. */
final class Target
{
    /** Returns `game://host:port`, or null if a part is invalid. Without a game: `host:port`. */
    public static function of(?string $game, string $host, int $port): ?string
    {
        $is_address = filter_var($host, FILTER_VALIDATE_IP) !== false;
        $is_name = filter_var($host, FILTER_VALIDATE_DOMAIN, FILTER_FLAG_HOSTNAME) !== false;
        $is_game = $game === null || preg_match('/^[a-z0-9-]+$/D', $game) === 1;
        if (!($is_address || $is_name) || !$is_game || $port < 1 || $port > 65535) {
            return null;
        }
        $host = str_contains($host, ':') ? "[{$host}]" : $host;

        return ($game === null ? '' : "{$game}://") . "{$host}:{$port}";
    }
}
