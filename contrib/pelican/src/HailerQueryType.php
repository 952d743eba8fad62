<?php

declare(strict_types=1);

namespace Hailer\Pelican;

use Boy132\PlayerCounter\Extensions\Query\QueryTypeSchemaInterface;

/**
 * A query type of the plugin Player Counter: one game of Hailer, or any.
 *
 * Without a game, the egg of the server decides, or else Hailer tries the common protocols.
 */
final class HailerQueryType implements QueryTypeSchemaInterface
{
    public function __construct(
        private readonly Client $client,
        private readonly ?string $game = null,
        private readonly ?string $name = null,
    ) {
    }

    public function getId(): string
    {
        return $this->game === null ? 'hailer' : "hailer-{$this->game}";
    }

    public function getName(): string
    {
        return $this->name ?? 'Hailer (by egg)';
    }

    /**
     * Called as `process($ip, $port)` or `process($server, $ip, $port)`, as versions of the plugin do.
     *
     * @return ?array{hostname: string, map: string, current_players: int, max_players: int, players: ?array<array{id: string, name: string}>}
     */
    public function process(mixed ...$arguments): ?array
    {
        $server = is_object($arguments[0] ?? null) ? array_shift($arguments) : null;
        [$ip, $port] = [(string) ($arguments[0] ?? ''), (int) ($arguments[1] ?? 0)];
        $game = $this->game ?? ($server === null ? null : Eggs::game($server->egg ?? null));
        $target = Target::of($game, self::host($ip, $server), $port);

        return $target === null ? null : Status::read($this->client->query($target));
    }

    /**
     * For versions of the plugin that pass the server to another function.
     *
     * @return ?array{hostname: string, map: string, current_players: int, max_players: int, players: ?array<array{id: string, name: string}>}
     */
    public function processWithServer(mixed ...$arguments): ?array
    {
        return $this->process(...$arguments);
    }

    /** Returns the host to query: an allocation at all addresses is reached at its node. */
    private static function host(string $ip, ?object $server): string
    {
        $ip = trim($ip, '[]');
        if ($ip !== '0.0.0.0' && $ip !== '::') {
            return $ip;
        }

        return (string) ($server->node->fqdn ?? ($ip === '::' ? '::1' : '127.0.0.1'));
    }
}
