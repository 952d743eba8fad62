<?php

declare(strict_types=1);

namespace Hailer\Pelican;

/** Reads answers of `hailer query --json` (schema/answer-v2.json). */
final class Status
{
    /**
     * Returns what the plugin shows, or null if the server did not reply or reports no number of
     * players: an unknown number is not 0.
     *
     * @return ?array{hostname: string, map: string, current_players: int, max_players: int, players: ?array<array{id: string, name: string}>}
     */
    public static function read(?string $line): ?array
    {
        $answer = $line === null ? null : json_decode($line, true);
        $status = is_array($answer) ? ($answer['status'] ?? null) : null;
        if (!is_array($status)) {
            return null;
        }
        $players = $status['players'] ?? [];
        $list = $players['list'] ?? [];
        $online = $players['online'] ?? (($players['roster'] ?? '') === 'whole' ? count($list) : null);
        if (!is_int($online) || $online < 0) {
            return null;
        }
        $named = [];
        foreach ($list as $number => $player) {
            $name = trim((string) ($player['name']['plain'] ?? ''));
            if ($name !== '') {
                $named[] = ['id' => (string) ($player['uuid'] ?? $number + 1), 'name' => $name];
            }
        }

        return [
            'hostname' => (string) ($answer['title'] ?? ''),
            'map' => (string) ($status['map'] ?? ''),
            'current_players' => $online,
            'max_players' => max(0, (int) ($players['max'] ?? 0)),
            // Some servers report no names.
            'players' => $named === [] && $online > 0 ? null : $named,
        ];
    }
}
