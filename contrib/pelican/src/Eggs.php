<?php

declare(strict_types=1);

namespace Hailer\Pelican;

/** The games of eggs. */
final class Eggs
{
    /** Parts of the names of eggs, in lower case, and the games that Hailer knows. The first counts. */
    public const GAMES = [
        'bedrock' => 'minecraft-bedrock',
        'nukkit' => 'minecraft-bedrock',
        'powernukkitx' => 'minecraft-bedrock',
        'pocketmine' => 'minecraft-bedrock',
        'paper' => 'minecraft',
        'purpur' => 'minecraft',
        'spigot' => 'minecraft',
        'sponge' => 'minecraft',
        'spongevanilla' => 'minecraft',
        'forge' => 'minecraft',
        'neoforge' => 'minecraft',
        'fabric' => 'minecraft',
        'quilt' => 'minecraft',
        'folia' => 'minecraft',
        'bungeecord' => 'minecraft',
        'waterfall' => 'minecraft',
        'velocity' => 'minecraft',
        'curseforge' => 'minecraft',
        'modrinth' => 'minecraft',
        'minecraft' => 'minecraft',
        'hytale' => 'hytale',
        'rust' => 'rust',
        'counter-strike 2' => 'cs2',
        'cs2' => 'cs2',
        'counter-strike: global' => 'csgo',
        'csgo' => 'csgo',
        'counter-strike: source' => 'css',
        'counter-strike' => 'cs16',
        'garrys mod' => 'gmod',
        "garry's mod" => 'gmod',
        'team fortress' => 'tf2',
        'insurgency: sandstorm' => 'sandstorm',
        'insurgency' => 'insurgency',
        'left 4 dead 2' => 'l4d2',
        'left 4 dead' => 'l4d',
        'ark: survival evolved' => 'ark-se',
        'ark survival evolved' => 'ark-se',
        'valheim' => 'valheim',
        '7 days to die' => '7dtd',
        'project zomboid' => 'zomboid',
        'palworld' => 'palworld',
        'satisfactory' => 'satisfactory',
        'factorio' => 'factorio',
        'fivem' => 'fivem',
        'redm' => 'redm',
        'multi theft auto' => 'mta-sa',
        'mtasa' => 'mta-sa',
        'open.mp' => 'openmp',
        'sa-mp' => 'samp',
        'samp' => 'samp',
        'tshock' => 'terraria',
        'terraria' => 'terraria',
        'arma reforger' => 'reforger',
        'arma 3' => 'arma3',
        'arma3' => 'arma3',
        'dayz' => 'dayz',
        'unturned' => 'unturned',
        'v rising' => 'vrising',
        'vrising' => 'vrising',
        'enshrouded' => 'enshrouded',
        'conan exiles' => 'conan',
        'killing floor 2' => 'kf2',
        'space engineers' => 'space-engineers',
        'the forest' => 'the-forest',
        'barotrauma' => 'barotrauma',
        'assetto corsa' => 'assetto',
        'beammp' => 'beammp',
        'eco' => 'eco',
        'vintage story' => 'vintage-story',
        'luanti' => 'luanti',
        'minetest' => 'luanti',
        'openttd' => 'openttd',
        'xonotic' => 'xonotic',
        'quake live' => 'quakelive',
        'quake 3' => 'q3',
        'teeworlds' => 'teeworlds',
        'ddnet' => 'teeworlds',
        'mordhau' => 'mordhau',
        'mumble' => 'mumble',
        'teamspeak3' => 'teamspeak3',
        'teamspeak' => 'teamspeak3',
    ];

    /** Tags of eggs whose names say nothing. */
    public const TAGS = ['minecraft' => 'minecraft', 'bedrock' => 'minecraft-bedrock'];

    /** Returns the game of an egg by its name or tags, or null if it is unknown. */
    public static function game(?object $egg): ?string
    {
        $name = strtolower((string) ($egg->name ?? ''));
        foreach (self::GAMES as $part => $game) {
            // Whole words: "eco" and "rust" are in other words too.
            if (preg_match('/(?<![a-z0-9])' . preg_quote((string) $part, '/') . '(?![a-z0-9])/', $name) === 1) {
                return $game;
            }
        }
        foreach ((array) ($egg->tags ?? []) as $tag) {
            $game = self::TAGS[strtolower((string) $tag)] ?? null;
            if ($game !== null) {
                return $game;
            }
        }

        return null;
    }
}
