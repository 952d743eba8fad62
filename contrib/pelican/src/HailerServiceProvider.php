<?php

declare(strict_types=1);

namespace Hailer\Pelican;

use Boy132\PlayerCounter\Extensions\Query\QueryTypeService;
use Illuminate\Support\ServiceProvider;

/** Registers the query types with the plugin Player Counter. */
final class HailerServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving(QueryTypeService::class, function (QueryTypeService $service): void {
            foreach (self::types(self::client()) as $type) {
                $service->register($type);
            }
        });
    }

    /** Returns the client of the environment: `HAILER_SOCKET`, or else the program `HAILER_PROGRAM`. */
    public static function client(): Client
    {
        $socket = (string) getenv('HAILER_SOCKET');
        $program = (string) getenv('HAILER_PROGRAM');

        return $socket !== '' ? new SocketClient($socket) : new CommandClient($program !== '' ? $program : 'hailer');
    }

    /**
     * Returns a type for the game of each server's egg, and one for each game.
     *
     * @return list<HailerQueryType>
     */
    public static function types(Client $client): array
    {
        $types = [new HailerQueryType($client)];
        foreach (array_unique(Eggs::GAMES) as $game) {
            $types[] = new HailerQueryType($client, $game, "Hailer: {$game}");
        }

        return $types;
    }
}
