//! The rows of the games table, sorted by id.
//!
//! Columns: id, name, protocols, game port (0: unknown), query port, SRV service, quirks, sources,
//! aliases. Ports are defaults; hosts change them. Sources are letters of [`SOURCES`](super::SOURCES),
//! and `~` if none of them confirms the port.

use super::QueryPort::{Each, FirstOf, Fixed, NoQuery, Offset, Same};
use super::Quirk::{
    NamesHidden, NoPlayerList, PlayersNeed, SilentInLobby, StatusNeeds, UnsureCount,
};
use super::{Game, Obstacle, QueryPort, Quirk};

/// Fills a static slice with one game for each row.
macro_rules! games {
    ($($id:literal, $name:literal, $protocols:tt, $port:literal, $query:expr, $srv:literal, $quirks:tt, $sources:literal,
       $aliases:tt;)*) => {
        /// All games, sorted by id.
        pub static GAMES: &[Game] = &[$(row(
            $id, $name, &$protocols, $port, $query, $srv, &$quirks, $sources, &$aliases,
        )),*];
    };
}

#[expect(
    clippy::too_many_arguments,
    reason = "one for each column of the table"
)]
const fn row(
    id: &'static str,
    name: &'static str,
    protocols: &'static [&'static str],
    port: u16,
    query: QueryPort,
    srv: &'static str,
    quirks: &'static [Quirk],
    sources: &'static str,
    aliases: &'static [&'static str],
) -> Game {
    Game {
        id,
        name,
        protocols,
        port: if port == 0 { None } else { Some(port) },
        query,
        srv: if srv.is_empty() { None } else { Some(srv) },
        quirks,
        sources,
        aliases,
    }
}

const EPIC: QueryPort = NoQuery(Obstacle::PublisherSecret);
const LIST_ONLY: QueryPort = NoQuery(Obstacle::ListOnly);
const OWNER_KEY: QueryPort = NoQuery(Obstacle::OwnerKey);
const UNDOCUMENTED: QueryPort = NoQuery(Obstacle::Undocumented);

/// Reasons against protocols that are known.
const VENTRILO: QueryPort = NoQuery(Obstacle::Unsuitable(
    "its protocol is obfuscated, and its replies amplify forged requests over 100 times",
));
const ARK_SA: QueryPort = NoQuery(Obstacle::Unsuitable(
    "Epic Online Services reply only to clients that have the publisher's secret; the publisher has public lists, whose format Hailer knows no description of",
));
const SOLDAT: QueryPort = NoQuery(Obstacle::Unsuitable(
    "its servers have no query: they offer a log as a file if their owner allows it, and OpenSoldat does not",
));
const ZANDRONUM: QueryPort = NoQuery(Obstacle::Unsuitable(
    "its messages are compressed in a way that Hailer has no description of",
));

/// Some servers answer A2S too, without a password, always on this port.
const PALWORLD: QueryPort = Each(&[("palworld", Fixed(8212)), ("a2s", Fixed(27015))]);

/// On the game's port, servers answer Quake 3 with less. The first free port from 12300 on has the
/// rest.
const MOHAA: QueryPort = Each(&[
    ("gamespy1", FirstOf(&[Fixed(12300), Offset(97)])),
    ("quake3", Same),
]);
/// As [`MOHAA`], from 13300 on.
const MOHPA: QueryPort = Each(&[
    ("gamespy1", FirstOf(&[Fixed(13300), Offset(97)])),
    ("quake3", Same),
]);
/// The sources differ in the protocol.
const DAIKATANA: QueryPort = Each(&[
    ("quake2", FirstOf(&[Offset(10), Same])),
    ("gamespy1", Offset(10)),
]);

/// Each plugin has its own port. The first one is that of the game.
const HYTALE: QueryPort = Each(&[
    ("onequery", Same),
    ("nitrado", Offset(3)),
    ("a2s", Offset(1)),
    ("minecraft-query", FirstOf(&[Fixed(5533), Offset(13)])),
    ("minecraft-status", Same),
]);

games! {
    "7dtd",              "7 Days to Die",                           ["a2s", "seven-days"],               26900, FirstOf(&[Same, Offset(1)]), "",  [NamesHidden], "NQM", ["sdtd", "7d2d"];
    "aa",                "America's Army",                          ["gamespy2"],                        1716,  Offset(1),     "",  [], "NL", ["americasarmy"];
    "aa2",               "America's Army 2",                        ["gamespy2"],                        1716,  Offset(1),     "",  [], "N", ["americasarmy2"];
    "aa3",               "America's Army 3",                        ["a2s"],                             8777,  Fixed(27020),  "",  [], "N", ["americasarmy3"];
    "aapg",              "America's Army: Proving Grounds",         ["a2s"],                             8777,  Fixed(27020),  "",  [], "N", ["americasarmypg"];
    "abiotic",           "Abiotic Factor",                          ["a2s"],                             7777,  Fixed(27015),  "",  [], "N~", ["abioticfactor"];
    "action-source",     "Action: Source",                          ["a2s"],                             27015, Same,          "",  [], "N", ["actionsource", "as"];
    "ahl",               "Action Half-Life",                        ["a2s"],                             27015, Same,          "",  [], "N", [];
    "alien-swarm",       "Alien Swarm",                             ["a2s"],                             27015, Same,          "",  [], "N", ["alienswarm"];
    "alienarena",        "Alien Arena",                             ["quake2"],                          27910, Same,          "",  [], "N", [];
    "altv",              "alt:V",                                   [],                                  7788,  LIST_ONLY, "",  [], "N", ["gta5am", "gta5a"];
    "aoc",               "Age of Chivalry",                         ["a2s"],                             27015, Same,          "",  [], "N", ["ageofchivalry"];
    "aoe2",              "Age of Empires 2",                        ["ase"],                             0,     Fixed(27224),  "",  [], "N", [];
    "arca08",            "ARCA Sim Racing '08",                     ["rfactor"],                         34397, Offset(-100),  "",  [], "NL", ["asr08", "arcasimracing"];
    "ark-sa",            "ARK: Survival Ascended",                  [],                                  7777,  ARK_SA, "",  [], "NQL", ["asa"];
    "ark-se",            "ARK: Survival Evolved",                   ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQM", ["ark", "arkse"];
    "arma-cwa",          "ARMA: Cold War Assault",                  ["gamespy1"],                        2302,  Offset(1),     "",  [], "N", ["acwa", "armacwa"];
    "arma-resistance",   "ARMA: Resistance",                        ["gamespy1"],                        2302,  Offset(1),     "",  [], "N", ["armaresistance", "armar"];
    "arma1",             "ARMA: Armed Assault",                     ["gamespy2"],                        2302,  Same,          "",  [], "NQL", ["aaa", "arma"];
    "arma2",             "ArmA 2",                                  ["a2s"],                             2302,  Offset(1),     "",  [], "NL", [];
    "arma2-oa",          "ArmA 2: Operation Arrowhead",             ["a2s"],                             2302,  Offset(1),     "",  [], "NQ", ["a2oa", "arma2oa"];
    "arma3",             "ArmA 3",                                  ["a2s"],                             2302,  Offset(1),     "",  [], "NQM", [];
    "armagetron",        "Armagetron Advanced",                     ["armagetron"],                      4534,  Same,          "",  [], "N", ["armagetronadvanced"];
    "assetto",           "Assetto Corsa",                           ["assetto"],                         9600,  Fixed(8081),   "",  [], "NM~", ["assetto-corsa", "assettocorsa"];
    "atlas",             "Atlas",                                   ["a2s"],                             5761,  Offset(51800), "",  [], "NQ", [];
    "ats",               "American Truck Simulator",                ["a2s"],                             27015, Fixed(27016),  "",  [], "QM", [];
    "avorion",           "Avorion",                                 ["a2s"],                             27000, FirstOf(&[Fixed(27020), Offset(3)]), "",  [], "NQM~", [];
    "avp2",              "Aliens vs. Predator 2",                   ["gamespy1"],                        27888, Same,          "",  [], "NL", [];
    "avp2010",           "Aliens vs. Predator 2010",                ["a2s"],                             27015, Same,          "",  [], "N", [];
    "baldurs-gate",      "Baldur's Gate",                           ["gamespy1"],                        6073,  Fixed(1470),   "",  [], "N", ["baldursgate"];
    "ballistic-overkill", "Ballistic Overkill",                      ["a2s"],                             27015, Offset(1),     "",  [], "N", ["ballisticoverkill"];
    "barotrauma",        "Barotrauma",                              ["a2s"],                             27015, Offset(1),     "",  [], "NQM", [];
    "base-defense",      "Base Defense",                            ["a2s"],                             27015, Same,          "",  [], "N", ["basedefense", "bd"];
    "battalion",         "Battalion 1944",                          ["a2s"],                             7777,  Offset(3),     "",  [], "NQ", ["battalion1944", "bat1944"];
    "beammp",            "BeamMP",                                  ["beammp"],                          30814, Same,          "",  [], "NQL", [];
    "bf1942",            "Battlefield 1942",                        ["gamespy1"],                        14567, FirstOf(&[Fixed(23000), Offset(8433)]), "",  [UnsureCount], "NQLM", ["battlefield1942"];
    "bf2",               "Battlefield 2",                           ["gamespy3"],                        16567, Fixed(29900),  "",  [], "NQL", ["battlefield2"];
    "bf2142",            "Battlefield 2142",                        ["gamespy3"],                        16567, Fixed(29900),  "",  [], "NL", ["battlefield2142"];
    "bf3",               "Battlefield 3",                           ["battlefield"],                     25200, Offset(22000), "",  [], "NQL", ["battlefield3"];
    "bf4",               "Battlefield 4",                           ["battlefield"],                     25200, Offset(22000), "",  [], "NQL", ["battlefield4"];
    "bfbc2",             "Battlefield: Bad Company 2",              ["battlefield"],                     19567, Fixed(48888),  "",  [], "NQL", ["bbc2"];
    "bfh",               "Battlefield Hardline",                    ["battlefield"],                     25200, Offset(22000), "",  [], "NQ", ["battlefieldhardline"];
    "bfv",               "Battlefield Vietnam",                     ["gamespy2"],                        15567, Fixed(23000),  "",  [], "NLM", ["battlefieldvietnam"];
    "black-mesa",        "Black Mesa",                              ["a2s"],                             27015, Same,          "",  [], "NQM", ["blackmesa"];
    "blade-symphony",    "Blade Symphony",                          ["a2s"],                             27015, Same,          "",  [], "NM", ["bladesymphony", "bs"];
    "brainbread",        "BrainBread",                              ["a2s"],                             27015, Same,          "",  [], "N", [];
    "brainbread2",       "BrainBread 2",                            ["a2s"],                             27015, Same,          "",  [], "NM", [];
    "breach",            "Breach",                                  ["a2s"],                             27016, Same,          "",  [], "N", [];
    "breed",             "Breed",                                   ["gamespy2"],                        7649,  Same,          "",  [], "N", [];
    "brink",             "Brink",                                   ["a2s"],                             27015, Offset(1),     "",  [], "N~", [];
    "brokeprotocol",     "BROKE PROTOCOL",                          [],                                  0,     LIST_ONLY, "",  [], "N", [];
    "call-of-juarez",    "Call of Juarez",                          ["ase"],                             0,     Fixed(26000),  "",  [], "N", ["coj", "callofjuarez"];
    "chaser",            "Chaser",                                  ["ase"],                             3000,  Offset(123),   "",  [], "N", [];
    "chivalry",          "Chivalry: Medieval Warfare",              ["a2s"],                             7777,  Offset(2),     "",  [], "NQM", ["cmw"];
    "chrome",            "Chrome",                                  ["ase"],                             27015, Offset(123),   "",  [], "N", [];
    "cod",               "Call of Duty",                            ["quake3"],                          28960, Same,          "",  [], "NQLM", [];
    "cod-bo3",           "Call of Duty: Black Ops 3",               ["a2s"],                             27017, Same,          "",  [], "NL", ["codbo3"];
    "cod-mw3",           "Call of Duty: Modern Warfare 3",          ["a2s"],                             27016, Offset(1),     "",  [], "NQ", ["codmw3"];
    "cod2",              "Call of Duty 2",                          ["quake3"],                          28960, Same,          "",  [], "NQLM", [];
    "cod3",              "Call of Duty 3",                          ["quake3"],                          28960, Same,          "",  [], "N", [];
    "cod4",              "Call of Duty 4",                          ["quake3"],                          28960, Same,          "",  [], "NQM", ["cod4mw"];
    "codename-cure",     "Codename CURE",                           ["a2s"],                             27015, Same,          "",  [], "NM", ["codenamecure"];
    "codename-eagle",    "Codename Eagle",                          ["gamespy1"],                        0,     Fixed(4711),   "",  [], "N", ["codenameeagle"];
    "coduo",             "CoD: United Offensive",                   ["quake3"],                          28960, Same,          "",  [], "NQLM", [];
    "codwaw",            "CoD: World at War",                       ["quake3"],                          28960, Same,          "",  [], "NQLM", [];
    "colony-survival",   "Colony Survival",                         ["a2s"],                             27004, Same,          "",  [], "NM", ["colonysurvival"];
    "commandos3",        "Commandos 3: Destination Berlin",         ["gamespy1"],                        0,     Fixed(6500),   "",  [], "N", ["c3db"];
    "conan",             "Conan Exiles",                            ["a2s"],                             7777,  Fixed(27015),  "",  [NoPlayerList], "NQL", ["conanexiles"];
    "contagion",         "Contagion",                               ["a2s"],                             27015, Same,          "",  [], "N", [];
    "contract-jack",     "Contract J.A.C.K.",                       ["gamespy1"],                        0,     Fixed(27888),  "",  [], "N", ["contractjack", "contactjack"];
    "corekeeper",        "Core Keeper",                             ["a2s"],                             1234,  Offset(1),     "",  [], "NM", [];
    "creativerse",       "Creativerse",                             ["a2s"],                             26900, Offset(1),     "",  [], "N", [];
    "crossracing",       "Cross Racing Championship Extreme",       ["ase"],                             12321, Offset(123),   "",  [], "N", ["crce"];
    "crysis",            "Crysis",                                  ["gamespy3"],                        64087, Same,          "",  [], "NQL", [];
    "crysis-wars",       "Crysis Wars",                             ["gamespy3"],                        64100, Same,          "",  [], "NQL", ["crysiswars"];
    "crysis2",           "Crysis 2",                                ["gamespy3"],                        64000, Same,          "",  [], "NQ", [];
    "cs15",              "Counter-Strike 1.5",                      ["a2s"],                             27015, Same,          "",  [], "NQ", ["counterstrike15"];
    "cs16",              "Counter-Strike 1.6",                      ["a2s"],                             27015, Same,          "",  [], "NQM", ["counter-strike", "counterstrike16", "cs", "cstrike"];
    "cs2",               "Counter-Strike 2",                        ["a2s"],                             27015, Same,          "",  [NamesHidden], "NQM", ["counterstrike2"];
    "cs2d",              "CS2D",                                    ["cs2d"],                            36963, Same,          "",  [], "NQL", ["c2d"];
    "cscz",              "CS: Condition Zero",                      ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "csgo",              "Counter-Strike: Global Offensive",        ["a2s"],                             27015, Same,          "",  [PlayersNeed("host_players_show 2")], "NQM", [];
    "css",               "Counter-Strike: Source",                  ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "daikatana",         "Daikatana",                               ["quake2", "gamespy1"],              27982, DAIKATANA, "",  [], "N", [];
    "dark-light",        "Dark and Light",                          ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQ", ["dal", "dnl"];
    "dark-messiah",      "Dark Messiah of Might and Magic",         ["a2s"],                             27015, Same,          "",  [], "N", ["dmomam"];
    "darkest-hour",      "Darkest Hour",                            ["unreal2"],                         7757,  Offset(1),     "",  [], "N", ["dhe4445", "darkesthour"];
    "day-of-dragons",    "Day of Dragons",                          ["a2s"],                             7777,  Fixed(27015),  "",  [], "N", ["dayofdragons"];
    "days-of-war",       "Days of War",                             ["a2s"],                             27015, Same,          "",  [], "N", ["dow", "daysofwar"];
    "dayz",              "DayZ",                                    ["a2s"],                             2302,  FirstOf(&[Fixed(27016), Offset(3)]), "",  [NamesHidden], "NQM", [];
    "dayzmod",           "DayZ Mod",                                ["a2s"],                             2302,  Offset(1),     "",  [], "NQ", [];
    "deadly-dozen-pt",   "Deadly Dozen: Pacific Theater",           ["gamespy1"],                        0,     Fixed(25300),  "",  [], "N", ["ddpt", "deadlydozenpt"];
    "deer-hunter-2005",  "Deer Hunter 2005",                        ["gamespy2"],                        23459, Fixed(34567),  "",  [], "N", ["deerhunter2005", "dh2005"];
    "descent3",          "Descent 3",                               ["gamespy1"],                        2092,  Fixed(20142),  "",  [], "N", [];
    "deus-ex",           "Deus Ex",                                 ["gamespy1"],                        7791,  Offset(1),     "",  [], "N", ["deusex"];
    "devastation",       "Devastation",                             ["unreal2"],                         7777,  Offset(1),     "",  [], "N", [];
    "dino-d-day",        "Dino D-Day",                              ["a2s"],                             27015, Same,          "",  [], "N", ["ddd", "dinodday"];
    "dirt-track-racing2", "Dirt Track Racing 2",                     ["gamespy1"],                        32240, Offset(-100),  "",  [], "N", ["dtr2", "dirttrackracing2"];
    "discord",           "Discord",                                 ["discord"],                         443,   Same,          "",  [], "NL", [];
    "dmc",               "Deathmatch Classic",                      ["a2s"],                             27015, Same,          "",  [], "N", ["deathmatchclassic"];
    "dnf2001",           "Duke Nukem Forever 2001",                 ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", [];
    "dod",               "Day of Defeat",                           ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "dods",              "Day of Defeat: Source",                   ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "doi",               "Day of Infamy",                           ["a2s"],                             27015, Same,          "",  [], "NM", [];
    "doom3",             "Doom 3",                                  ["doom3"],                           27666, Same,          "",  [], "NQL", [];
    "dota2",             "Dota 2",                                  ["a2s"],                             27015, Same,          "",  [], "N", [];
    "double-action",     "Double Action: Boogaloo",                 ["a2s"],                             27015, Same,          "",  [], "NM", ["dab"];
    "drakan",            "Drakan: Order of the Flame",              ["gamespy1"],                        27045, Offset(1),     "",  [], "N", ["dootf"];
    "dst",               "Don't Starve Together",                   ["a2s"],                             10999, FirstOf(&[Fixed(27016), Same]), "",  [], "NM", [];
    "dystopia",          "Dystopia",                                ["a2s"],                             27015, Same,          "",  [], "NM", ["dys"];
    "eco",               "Eco",                                     ["eco"],                             3000,  Offset(1),     "",  [], "NLM", [];
    "eldewrito",         "ElDewrito",                               [],                                  11775, UNDOCUMENTED, "",  [], "N", [];
    "empires",           "Empires Mod",                             ["a2s"],                             27015, Same,          "",  [], "NM", ["empiresmod", "em"];
    "empyrion",          "Empyrion",                                ["a2s"],                             30000, Offset(1),     "",  [], "NQ", ["egs"];
    "enshrouded",        "Enshrouded",                              ["a2s"],                             15637, FirstOf(&[Same, Offset(1)]), "",  [], "NQ", [];
    "et",                "Wolfenstein: Enemy Territory",            ["quake3"],                          27960, Same,          "",  [], "NQLM", ["wet", "wolfensteinet"];
    "etlegacy",          "ET: Legacy",                              ["quake3"],                          27960, Same,          "",  [], "M", ["et-legacy"];
    "etqw",              "ET: Quake Wars",                          ["doom3"],                           27733, Same,          "",  [], "NQL", [];
    "ets2",              "Euro Truck Simulator 2",                  ["a2s"],                             27015, Fixed(27016),  "",  [], "NQM", [];
    "exfil",             "Exfil",                                   ["a2s"],                             7777,  Fixed(27015),  "",  [], "N", [];
    "f1-2002",           "Formula One 2002",                        ["gamespy1"],                        0,     Fixed(3297),   "",  [], "N", ["formulaone2002", "f12002"];
    "f1-9902",           "F1 Challenge '99-'02",                    ["gamespy1"],                        0,     Fixed(34397),  "",  [], "NL", ["f1c9902"];
    "factorio",          "Factorio",                                ["factorio"],                        34197, Same,          "_factorio._udp",  [UnsureCount], "NQLM", [];
    "farcry",            "Far Cry",                                 ["ase"],                             49001, Offset(123),   "",  [], "NL", [];
    "farcry2",           "Far Cry 2",                               ["ase"],                             0,     Fixed(14001),  "",  [], "N", [];
    "fear",              "F.E.A.R.",                                ["gamespy2"],                        0,     Fixed(27888),  "",  [], "NL", [];
    "ffow",              "Frontlines: Fuel of War",                 ["ffow"],                            5476,  Offset(2),     "",  [], "NQL", [];
    "fivem",             "FiveM",                                   ["quake3", "fivem-http"],            30120, Same,          "",  [], "NL", ["gta5f"];
    "fof",               "Fistful of Frags",                        ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "fortress-forever",  "Fortress Forever",                        ["a2s"],                             27015, Same,          "",  [], "N", ["fortressforever"];
    "foundry",           "FOUNDRY",                                 ["a2s"],                             27015, Same,          "",  [], "N", [];
    "fs19",              "Farming Simulator 19",                    ["farming-simulator"],               10823, Fixed(8080),   "",  [], "NQ~", ["farmingsimulator19"];
    "fs22",              "Farming Simulator 22",                    ["farming-simulator"],               10823, Fixed(8080),   "",  [], "NQ~", ["farmingsimulator22"];
    "fs25",              "Farming Simulator 25",                    ["farming-simulator"],               10823, Fixed(8080),   "",  [], "NQ~", ["farmingsimulator25"];
    "geneshift",         "Geneshift",                               [],                                  11235, LIST_ONLY,     "",  [], "N", [];
    "ghost-recon",       "Ghost Recon",                             [],                                  2346,  UNDOCUMENTED, "",  [], "L", [];
    "giants",            "Giants: Citizen Kabuto",                  ["gamespy1"],                        0,     Fixed(8911),   "",  [], "N", ["gck", "giantscitizenkabuto"];
    "global-operations", "Global Operations",                       ["gamespy1"],                        0,     Fixed(28672),  "",  [], "N", ["globaloperations"];
    "gmod",              "Garry's Mod",                             ["a2s"],                             27015, Same,          "",  [UnsureCount], "NM", ["garrys-mod", "garrysmod"];
    "goldeneye-source",  "GoldenEye: Source",                       ["a2s"],                             27015, Same,          "",  [], "N", ["goldeneyesource", "ges"];
    "gore",              "Gore",                                    ["gamespy1"],                        27777, Offset(1),     "",  [], "N", ["gus"];
    "graw",              "Ghost Recon AW",                          ["gamespy2"],                        0,     Fixed(15250),  "",  [], "NL", ["tcgraw"];
    "graw2",             "Ghost Recon AW 2",                        ["gamespy2"],                        0,     Fixed(16250),  "",  [], "NL", ["tcgraw2"];
    "ground-breach",     "Ground Breach",                           ["a2s"],                             27015, Same,          "",  [], "N", ["groundbreach"];
    "gtac",              "GTA Connected",                           ["ugp"],                             22000, Same,          "",  [], "L", [];
    "gunman-chronicles", "Gunman Chronicles",                       ["a2s"],                             27015, Same,          "",  [], "N", ["gunmanchronicles"];
    "halo",              "Halo (PC/CE)",                            ["gamespy2"],                        2302,  Same,          "",  [], "NQL", [];
    "halo2",             "Halo 2",                                  ["gamespy2"],                        2302,  Same,          "",  [], "N", [];
    "hawakening",        "Hawakening",                              [],                                  7777,  LIST_ONLY,     "",  [], "N", [];
    "hd2",               "Hidden & Dangerous 2",                    ["gamespy1"],                        11001, Offset(3),     "",  [], "NQL", ["hiddendangerous2", "had2"];
    "heretic2",          "Heretic II",                              ["gamespy1"],                        27900, Offset(1),     "",  [], "N", [];
    "hexenworld",        "HexenWorld",                              ["quake1"],                          26950, Same,          "",  [], "N", ["hexen2"];
    "hidden-source",     "The Hidden",                              ["a2s"],                             27015, Same,          "",  [], "N", ["thehidden", "hidden"];
    "hl2dm",             "Half-Life 2: Deathmatch",                 ["a2s"],                             27015, Same,          "",  [], "NQM", ["hl2d"];
    "hldm",              "Half-Life Deathmatch",                    ["a2s"],                             27015, Same,          "",  [], "NQM", ["half-life", "hl", "hld"];
    "hldms",             "Half-Life Deathmatch: Source",            ["a2s"],                             27015, Same,          "",  [], "N", ["hlds"];
    "hll",               "Hell Let Loose",                          ["a2s"],                             8777,  Fixed(27015),  "",  [NamesHidden], "NQ~", ["hell-let-loose"];
    "homefront",         "Homefront",                               ["a2s"],                             27015, Same,          "",  [], "N", [];
    "homeworld2",        "Homeworld 2",                             ["gamespy1"],                        0,     Fixed(6500),   "",  [], "N", [];
    "humanitz",          "HumanitZ",                                ["a2s"],                             7777,  Fixed(27015),  "",  [], "M", [];
    "hurtworld",         "Hurtworld",                               ["a2s"],                             12871, Offset(10),    "",  [], "NQM", [];
    "hypercharge",       "HYPERCHARGE: Unboxed",                    ["a2s"],                             7777,  Fixed(27015),  "",  [], "M", [];
    "hyquery",           "Hytale + HyQuery",                        ["onequery"],                        5520,  Same,          "",  [], "S", [];
    "hytale",            "Hytale",                                  ["onequery", "nitrado", "a2s", "minecraft-query", "minecraft-status"], 5520, HYTALE, "",  [], "N", [];
    "hytale-simple",     "Hytale + Simple Query",                   ["minecraft-query"],                 5520,  FirstOf(&[Fixed(5533), Offset(13)]),    "",  [], "S", [];
    "icarus",            "Icarus",                                  ["a2s"],                             17777, Fixed(27015),  "",  [], "N~", [];
    "igi2",              "IGI 2",                                   ["gamespy1"],                        0,     Fixed(26001),  "",  [], "N", ["i2cs"];
    "il2",               "IL-2 Sturmovik",                          ["gamespy1"],                        0,     Fixed(21000),  "",  [], "NL", ["i2s"];
    "insurgency",        "Insurgency",                              ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "insurgency-mod",    "Insurgency: Modern Infantry Combat",      ["a2s"],                             27015, Same,          "",  [], "N", ["imic", "insurgencymic"];
    "iosoccer",          "IOSoccer",                                ["a2s"],                             27015, Same,          "",  [], "M", [];
    "iron-storm",        "Iron Storm",                              ["gamespy1"],                        0,     Fixed(3505),   "",  [], "N", ["ironstorm"];
    "isle",              "The Isle",                                ["a2s"],                             7707,  Offset(1),     "",  [], "N", ["theisle"];
    "isle-evrima",       "The Isle Evrima",                         [],                                  7777,  EPIC, "",  [], "N", ["tie"];
    "iw4x",              "CoD: MW2 (IW4x)",                         ["quake3"],                          28960, Same,          "",  [], "NQLM", ["codmw2"];
    "jc2mp",             "Just Cause 2 MP",                         ["gamespy3"],                        7777,  Same,          "",  [], "NQLM", ["jc2m"];
    "jc3mp",             "Just Cause 3 MP",                         ["a2s"],                             4200,  Offset(1),     "",  [], "NQM", ["jc3m"];
    "jk2",               "Jedi Outcast",                            ["quake3"],                          28070, Same,          "",  [], "NQLM", ["swjk2jo", "swjk2"];
    "jka",               "Jedi Academy",                            ["quake3"],                          29070, Same,          "",  [], "NQL", ["jediacademy", "swjk", "swjkja"];
    "kf1",               "Killing Floor",                           ["unreal2"],                         7707,  Offset(1),     "",  [], "NQLM", ["kf", "killingfloor"];
    "kf2",               "Killing Floor 2",                         ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQM", ["killingfloor2"];
    "kingpin",           "Kingpin",                                 ["quake2"],                          31510, Same,          "",  [], "NQL", ["kloc"];
    "kiss-psycho-circus", "Kiss: Psycho Circus: The Nightmare Child", ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", ["kpctnc", "kisspc"];
    "kreedz-climbing",   "Kreedz Climbing",                         ["a2s"],                             27015, Same,          "",  [], "N", ["kreedzclimbing", "kzmod"];
    "kspdmp",            "KSP - DMP",                               ["kspdmp"],                          6702,  Offset(1),     "",  [], "N", ["kspd"];
    "l4d",               "Left 4 Dead",                             ["a2s"],                             27015, Same,          "",  [SilentInLobby], "NQM", ["left4dead"];
    "l4d2",              "Left 4 Dead 2",                           ["a2s"],                             27015, Same,          "",  [SilentInLobby], "NQM", ["left4dead2"];
    "lhmp",              "Lost Heaven Multiplayer",                 ["lhmp"],                            27015, Offset(1),     "",  [], "Q~", [];
    "life-feudal",       "Life is Feudal",                          ["a2s"],                             28000, Offset(2),     "",  [], "Q~", [];
    "luanti",            "Luanti (Minetest)",                       ["luanti"],                          30000, Same,          "",  [], "N", ["minetest"];
    "m2o",               "Mafia II Online",                         ["mafia2mp"],                        27015, Offset(1),     "",  [], "N", [];
    "mafia2mp",          "Mafia II MP",                             ["mafia2mp"],                        27016, Offset(1),     "",  [], "NQL", ["m2m", "m2mp"];
    "mafiac",            "Mafia Connected",                         ["ugp"],                             22000, Same,          "",  [], "L", [];
    "medieval-engineers", "Medieval Engineers",                      ["a2s"],                             27015, Same,          "",  [], "N", ["medievalengineers"];
    "minecraft",         "Minecraft Java",                          ["minecraft-status", "minecraft-query"], 25565, Same,          "_minecraft._tcp", [PlayersNeed("enable-query=true in server.properties")], "NQLM", ["mc"];
    "minecraft-12w",     "Minecraft 1.2.5 to 1.3.2",                ["minecraft-status"],                25565, Same,          "_minecraft._tcp", [], "S", [];
    "minecraft-bedrock", "Minecraft Bedrock",                       ["minecraft-bedrock", "minecraft-nethernet"], 19132, Same,     "",  [], "NQM", ["bedrock", "mbe", "mcbe", "mcpe", "minecraftbe"];
    "minecraft-query",   "Minecraft (query enabled)",               ["minecraft-query"],                 25565, Same,          "_minecraft._tcp", [StatusNeeds("enable-query=true in server.properties")], "QLM", [];
    "miscreated",        "Miscreated",                              ["a2s"],                             64090, Offset(2),     "",  [], "Q~", [];
    "moh-airborne",      "Medal of Honor: Airborne",                ["gamespy1"],                        12203, Offset(97),    "",  [], "N", ["moha", "mohab"];
    "moh2010",           "Medal of Honor (2010)",                   ["battlefield"],                     7673,  Fixed(48888),  "",  [], "N", ["moh"];
    "mohaa",             "Medal of Honor: Allied Assault",          ["gamespy1", "quake3"],              12203, MOHAA, "",  [], "NQLM", [];
    "mohaab",            "MOHAA: Breakthrough",                     ["gamespy1", "quake3"],              12203, MOHAA, "",  [], "NL", ["mohbt"];
    "mohaas",            "MOHAA: Spearhead",                        ["gamespy1", "quake3"],              12203, MOHAA, "",  [], "NL", ["mohsh"];
    "mohpa",             "MOH: Pacific Assault",                    ["gamespy1", "quake3"],              13203, MOHPA, "",  [], "NL", [];
    "mohw",              "MOH: Warfighter",                         ["battlefield"],                     25200, Offset(22000), "",  [], "N", ["mohwf"];
    "monday-night-combat", "Monday Night Combat",                     ["a2s"],                             7777,  Fixed(27016),  "",  [], "N", ["mnc"];
    "mordhau",           "Mordhau",                                 ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQM", [];
    "mta-sa",            "MTA: San Andreas",                        ["ase"],                             22003, Offset(123),   "",  [], "NQLM", ["gtasamta", "mta", "mtasa"];
    "mta-vc",            "MTA: Vice City",                          ["ase"],                             22003, Offset(123),   "",  [], "N", ["gtavcmta", "mtavc"];
    "mumble",            "Mumble",                                  ["mumble"],                          64738, Same,          "",  [], "NQL", ["mgm"];
    "mutant-factions",   "Mutant Factions",                         [],                                  11235, LIST_ONLY,     "",  [], "N", ["mutantfactions"];
    "myth-empires",      "Myth of Empires",                         ["a2s"],                             0,     Fixed(12888),  "",  [], "N", ["moe"];
    "nascar-thunder-2004", "NASCAR Thunder 2004",                     ["gamespy2"],                        0,     Fixed(13333),  "",  [], "N", ["nascarthunder2004"];
    "necesse",           "Necesse",                                 [],                                  14159, UNDOCUMENTED, "",  [], "LM~", [];
    "nerf",              "Nerf Arena Blast",                        ["gamespy1"],                        4444,  Offset(1),     "",  [], "N", ["nab"];
    "netpanzer",         "netPanzer",                               ["gamespy1"],                        3030,  Same,          "",  [StatusNeeds("a master server in their configuration")], "N", [];
    "netquake",          "Quake (NetQuake)",                        ["netquake"],                        26000, Same,          "",  [], "S", [];
    "nexuiz",            "Nexuiz",                                  ["quake3"],                          26000, Same,          "",  [], "NL", [];
    "nfs-hp2",           "Need for Speed: Hot Pursuit 2",           ["gamespy1"],                        0,     Fixed(61220),  "",  [], "N", ["nfshp2"];
    "nightfire",         "James Bond 007: Nightfire",               ["gamespy1"],                        0,     Fixed(6550),   "",  [], "N", ["jb0n", "jamesbondnightfire"];
    "nitro-family",      "Nitro Family",                            ["gamespy1"],                        0,     Fixed(25601),  "",  [], "N", ["nitrofamily"];
    "nmrih",             "No More Room in Hell",                    ["a2s"],                             27015, Same,          "",  [], "NQM", [];
    "nolf",              "No One Lives Forever",                    ["gamespy1"],                        0,     Fixed(27888),  "",  [], "N", ["tonolf"];
    "nolf2",             "No One Lives Forever 2",                  ["gamespy1"],                        0,     Fixed(27890),  "",  [], "N", ["nolf2asihw"];
    "nova-life",         "Nova-Life",                               ["a2s"],                             0,     Fixed(27015),  "",  [], "NQ", ["nla"];
    "ns",                "Natural Selection",                       ["a2s"],                             27015, Same,          "",  [], "NM", ["naturalselection"];
    "ns2",               "Natural Selection 2",                     ["a2s"],                             27015, Offset(1),     "",  [], "NQM", ["naturalselection2"];
    "nuclear-dawn",      "Nuclear Dawn",                            ["a2s"],                             27015, Same,          "",  [], "NM", ["nucleardawn"];
    "nwn",               "Neverwinter Nights",                      ["gamespy2"],                        0,     Fixed(5121),   "",  [], "NL", ["neverwinternights"];
    "nwn2",              "Neverwinter Nights 2",                    ["gamespy2"],                        5121,  Fixed(6500),   "",  [], "NL", ["neverwinternights2"];
    "ofp",               "Operation Flashpoint",                    ["gamespy1"],                        2302,  Offset(1),     "",  [], "NL", ["ofcwc"];
    "ofp-res",           "Flashpoint: Resistance",                  ["gamespy1"],                        2302,  Offset(1),     "",  [], "N", ["ofr", "flashpointresistance"];
    "ohd",               "Operation: Harsh Doorstop",               ["a2s"],                             7777,  Fixed(27005),  "",  [], "NM", [];
    "onset",             "Onset",                                   ["a2s"],                             7777,  Offset(-1),    "",  [], "NM", [];
    "open-fortress",     "Open Fortress",                           ["a2s"],                             27015, Same,          "",  [], "Q", [];
    "openarena",         "OpenArena",                               ["quake3"],                          27960, Same,          "",  [], "N", [];
    "openmp",            "open.mp",                                 ["samp"],                            7777,  Same,          "",  [], "N", ["gtasao", "open-mp", "saomp"];
    "openspades",        "Ace of Spades 0.75",                      ["openspades"],                      32887, Offset(-1),    "",  [], "N", ["bas", "aosc", "aos", "buildandshoot"];
    "openttd",           "OpenTTD",                                 ["openttd", "openttd-udp"],          3979,  Same,          "",  [], "NQL", [];
    "opfor",             "Opposing Force",                          ["a2s"],                             27015, Same,          "",  [], "NM", ["hlof", "hlopfor"];
    "painkiller",        "Painkiller",                              ["ase"],                             3455,  Offset(123),   "",  [], "NL", [];
    "palworld",          "Palworld",                                ["palworld", "a2s"],                 8211,  PALWORLD,      "",  [], "NQLM", [];
    "pcars",             "Project Cars",                            ["a2s"],                             27015, Offset(1),     "",  [], "NM", ["projectcars", "pc"];
    "pcars2",            "Project Cars 2",                          ["a2s"],                             27015, Offset(1),     "",  [], "NM", ["projectcars2", "pc2"];
    "perfect-dark",      "Perfect Dark (PC port)",                  ["perfect-dark"],                    27100, Same,          "",  [], "S", [];
    "pixark",            "PixARK",                                  ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQ", [];
    "plutonium",         "Plutonium",                               ["quake3"],                          28960, Same,          "",  [], "N", [];
    "postal2",           "Postal 2",                                ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", [];
    "pr-bf2",            "Project Reality: BF2",                    ["gamespy3"],                        16567, Fixed(29900),  "",  [], "NQ", ["prb2", "prbf2"];
    "prey",              "Prey (2006)",                             ["doom3"],                           27719, Same,          "",  [], "NL", [];
    "primal-carnage",    "Primal Carnage: Extinction",              ["a2s"],                             7777,  Fixed(27015),  "",  [], "N", ["pce", "primalcarnage"];
    "pvk2",              "Pirates, Vikings and Knights II",         ["a2s"],                             27015, Same,          "",  [], "NM", ["pvak2", "pvkii"];
    "q3",                "Quake III Arena",                         ["quake3"],                          27960, Same,          "",  [], "NQLM", ["q3a"];
    "quake2",            "Quake II",                                ["quake2"],                          27910, Same,          "",  [], "NQLM", ["q2"];
    "quake4",            "Quake 4",                                 ["doom3"],                           28004, Same,          "",  [], "NQLM", [];
    "quakelive",         "Quake Live",                              ["a2s"],                             27960, Same,          "",  [], "NQM", ["ql"];
    "quakeworld",        "QuakeWorld",                              ["quake1"],                          27500, Same,          "",  [], "NLM", ["quake", "qw"];
    "ragdollkungfu",     "Rag Doll Kung Fu",                        ["a2s"],                             27015, Same,          "",  [], "N", ["rdkf"];
    "ragemp",            "RAGE MP",                                 [],                                  22005, LIST_ONLY, "",  [], "NL", ["gta5r", "rage-mp"];
    "rainbow-six",       "Rainbow Six",                             ["gamespy1"],                        0,     Fixed(2348),   "",  [], "N", ["rainbowsix", "r6"];
    "rallisport-challenge", "RalliSport Challenge",                    ["gamespy1"],                        0,     Fixed(17500),  "",  [], "N", ["rallisportchallenge"];
    "rally-masters",     "Rally Masters",                           ["gamespy1"],                        0,     Fixed(16666),  "",  [], "N", ["rallymasters"];
    "raven-shield",      "Rainbow Six 3: Raven Shield",             ["gamespy1"],                        7777,  Offset(1000),  "",  [], "NL", ["rs3rs", "r6ravenshield"];
    "red-orchestra",     "Red Orchestra (Ostfront)",                ["unreal2"],                         7757,  Offset(1),     "",  [], "NL~", ["redorchestra", "roo4145", "redorchestraost"];
    "redline",           "Redline",                                 ["gamespy1"],                        0,     Fixed(25252),  "",  [], "N", [];
    "redm",              "RedM",                                    ["quake3", "fivem-http"],            30120, Same,          "",  [], "NL", ["rdr2r"];
    "reforger",          "Arma Reforger",                           ["a2s"],                             2001,  Fixed(17777),  "",  [StatusNeeds("an a2s section in the configuration"), NamesHidden], "NQM", ["armareforger", "armare"];
    "renegade",          "C&C Renegade",                            ["gamespy1"],                        4848,  Fixed(25300),  "",  [], "NL", ["cacr", "cacrenegade"];
    "renegade-x",        "Renegade X",                              [],                                  0,     LIST_ONLY, "",  [], "N", ["renegade10"];
    "renown",            "Renown",                                  [],                                  0,     EPIC, "",  [], "N", [];
    "republic-commando", "Star Wars: Republic Commando",            ["gamespy2"],                        7777,  Fixed(11138),  "",  [], "NL", ["swrc"];
    "rfactor",           "rFactor",                                 ["rfactor"],                         34397, Offset(-100),  "",  [], "NQL", [];
    "rfactor2",          "rFactor 2",                               ["a2s"],                             0,     Fixed(64299),  "",  [], "NQ", [];
    "ricochet",          "Ricochet",                                ["a2s"],                             27015, Same,          "",  [], "N", [];
    "rise-of-nations",   "Rise of Nations",                         ["gamespy1"],                        0,     Fixed(6501),   "",  [], "N", ["ron", "riseofnations"];
    "rising-world",      "Rising World",                            ["a2s"],                             4255,  Offset(-1),    "",  [], "NM", ["risingworld"];
    "ro2",               "Red Orchestra 2",                         ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQ", ["redorchestra2"];
    "rogue-spear",       "Rogue Spear",                             ["gamespy1"],                        0,     Fixed(2346),   "",  [], "N", ["rs2rs", "r6roguespear"];
    "ror2",              "Risk of Rain 2",                          ["a2s"],                             27015, Offset(1),     "",  [], "N", [];
    "rs2",               "Rising Storm 2: Vietnam",                 ["a2s"],                             7777,  Fixed(27015),  "",  [], "NQ~", ["rs2v"];
    "rtcw",              "Return to Castle Wolfenstein",            ["quake3"],                          27960, Same,          "",  [], "NLM", [];
    "rune",              "Rune",                                    ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", [];
    "rust",              "Rust",                                    ["a2s"],                             28015, FirstOf(&[Same, Offset(2), Offset(1)]), "",  [], "NQM~", [];
    "samp",              "SA-MP",                                   ["samp"],                            7777,  Same,          "",  [], "NQLM", ["gtasam", "sa-mp"];
    "sandstorm",         "Insurgency: Sandstorm",                   ["a2s"],                             27102, FirstOf(&[Fixed(27131), Offset(1)]), "",  [], "NQM", ["insurgencysandstorm"];
    "satisfactory",      "Satisfactory",                            ["satisfactory", "satisfactory-api"], 7777,  Same,          "",  [], "NQLM", [];
    "sauerbraten",       "Cube 2: Sauerbraten",                     [],                                  28785, UNDOCUMENTED, "",  [], "L", [];
    "savage",            "Savage",                                  [],                                  11235, UNDOCUMENTED, "",  [], "L", [];
    "savage2",           "Savage 2",                                ["savage2"],                         0,     Fixed(11235),  "",  [], "NL", ["s2ats"];
    "scpsl",             "SCP: Secret Laboratory",                  [],                                  7777,  OWNER_KEY, "",  [], "NM", ["ssl"];
    "shattered-horizon", "Shattered Horizon",                       ["a2s"],                             27015, Same,          "",  [], "N", ["shatteredhorizon"];
    "shogo",             "Shogo",                                   ["gamespy1"],                        0,     Fixed(27888),  "",  [], "N", [];
    "sin",               "SiN",                                     ["gamespy1"],                        0,     Fixed(22450),  "",  [], "N", [];
    "sin-episodes",      "SiN Episodes",                            ["a2s"],                             27015, Same,          "",  [], "N", ["sinepisodes", "sinep"];
    "sof",               "Soldier of Fortune",                      ["gamespy1"],                        28910, Offset(1),     "",  [], "N", [];
    "sof2",              "Soldier of Fortune II",                   ["quake3"],                          20100, Same,          "",  [], "NLM", [];
    "soldat",            "Soldat",                                  [],                                  23073, SOLDAT, "",  [], "NQLM", [];
    "sons-forest",       "Sons of the Forest",                      ["a2s"],                             8766,  Fixed(27016),  "",  [], "N", ["sotf", "sonsoftheforest"];
    "soulmask",          "Soulmask",                                ["a2s"],                             8777,  Fixed(27015),  "",  [], "NM", [];
    "space-engineers",   "Space Engineers",                         ["a2s"],                             27016, Same,          "",  [], "NQ~", ["spaceengineers"];
    "squad",             "Squad",                                   [],                                  7787,  EPIC, "",  [], "NQM", [];
    "squad-a2s",         "Squad",                                   ["a2s"],                             7787,  Fixed(27165),  "",  [], "NQM", [];
    "squad44",           "Squad 44 (Post Scriptum)",                ["a2s"],                             10027, Offset(10),    "",  [], "NQM", ["postscriptum", "ps"];
    "srb2",              "Sonic Robo Blast 2",                      [],                                  5029,  UNDOCUMENTED, "",  [], "L~", [];
    "ss1",               "Serious Sam",                             ["gamespy1"],                        25600, Offset(1),     "",  [], "NQL", ["serioussam", "ss"];
    "ss1-se",            "Serious Sam: The Second Encounter",       ["gamespy1"],                        25600, Offset(1),     "",  [], "N", ["sstse"];
    "ss2",               "Serious Sam 2",                           ["gamespy2"],                        25600, Same,          "",  [], "NL", ["serioussam2"];
    "stalker",           "S.T.A.L.K.E.R.",                          ["gamespy3"],                        5445,  Offset(2),     "",  [], "NL", [];
    "starbound",         "Starbound",                               ["a2s"],                             21025, Same,          "",  [StatusNeeds("runQueryServer in starbound_server.config")], "NM", [];
    "starmade",          "StarMade",                                ["starmade"],                        4242,  Same,          "",  [], "NQ", [];
    "starsiege",         "Starsiege",                               ["tribes1"],                       29001, Same,          "",  [], "N", [];
    "stbc",              "Star Trek: Bridge Commander",             ["gamespy1"],                        0,     Fixed(22101),  "",  [], "N", [];
    "stormworks",        "Stormworks",                              ["a2s"],                             25564, Offset(1),     "",  [], "Q~", [];
    "stvef",             "STV: Elite Force",                        ["quake3"],                          27960, Same,          "",  [], "NL", [];
    "stvef2",            "Star Trek: Voyager - Elite Force 2",      ["quake3"],                          0,     Fixed(29253),  "",  [], "N", [];
    "suicide-survival",  "Suicide Survival",                        ["a2s"],                             27015, Same,          "",  [], "N", ["suicidesurvival"];
    "survive-nights",    "Survive the Nights",                      ["a2s"],                             7950,  Offset(1),     "",  [], "NM", ["stn"];
    "sven",              "Sven Co-op",                              ["a2s"],                             27015, Same,          "",  [], "NQM", ["svencoop"];
    "swat4",             "SWAT 4",                                  ["gamespy2"],                        10480, FirstOf(&[Offset(1), Offset(2)]), "",  [], "NQL", [];
    "swbf",              "Star Wars: Battlefront",                  ["gamespy2"],                        0,     Fixed(3658),   "",  [], "NL", ["swb"];
    "swbf2",             "Star Wars: Battlefront 2",                ["gamespy2"],                        0,     Fixed(3658),   "",  [], "NL", ["swb2"];
    "synergy",           "Synergy",                                 ["a2s"],                             27015, Same,          "",  [], "N", [];
    "tactical-ops",      "Tactical Ops",                            ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", ["tacticalops"];
    "team-factor",       "Team Factor",                             ["gamespy1"],                        0,     Fixed(57778),  "",  [], "N", ["teamfactor"];
    "teamspeak2",        "TeamSpeak 2",                             ["teamspeak2"],                      8767,  Fixed(51234),  "",  [], "NQL", [];
    "teamspeak3",        "TeamSpeak 3",                             ["teamspeak3"],                      9987,  Fixed(10011),  "_ts3._udp",  [], "NQLM", ["teamspeak", "ts3"];
    "teamspeak6",        "TeamSpeak 6",                             ["teamspeak-voice"],                 9987,  Same,           "",  [], "S~", [];
    "teeworlds",         "Teeworlds, DDNet",                        ["teeworlds"],                       8303,  Same,          "",  [], "QLM", ["ddnet", "ddrace"];
    "terminus",          "Terminus",                                ["gamespy1"],                        0,     Fixed(12286),  "",  [], "N", [];
    "terraria",          "Terraria (TShock)",                       ["tshock", "terraria-join"],         7777,  FirstOf(&[Fixed(7878), Same]), "",  [], "NQLM", ["terrariatshock"];
    "tf2",               "Team Fortress 2",                         ["a2s"],                             27015, Same,          "",  [], "NQM", ["teamfortress2"];
    "tfc",               "Team Fortress Classic",                   ["a2s"],                             27015, Same,          "",  [], "NM", [];
    "the-forest",        "The Forest",                              ["a2s"],                             27015, Offset(1),     "",  [], "NQ", ["theforest", "forrest"];
    "the-ship",          "The Ship",                                ["a2s"],                             27015, Same,          "",  [], "N", ["theship", "ship"];
    "the-specialists",   "The Specialists",                         ["a2s"],                             27015, Same,          "",  [], "N", ["thespecialists"];
    "thefront",          "The Front",                               ["a2s"],                             5001,  Fixed(27015),  "",  [UnsureCount], "NM", [];
    "thps3",             "Tony Hawk's Pro Skater 3",                ["gamespy1"],                        0,     Fixed(6500),   "",  [], "N", [];
    "thps4",             "Tony Hawk's Pro Skater 4",                ["gamespy1"],                        0,     Fixed(6500),   "",  [], "N", [];
    "thu2",              "Tony Hawk's Underground 2",               ["gamespy1"],                        0,     Fixed(5153),   "",  [], "N", [];
    "tibia",             "Tibia (OpenTibia)",                       ["tibia"],                           7171,  Same,          "",  [], "Q~", [];
    "toh",               "Take On Helicopters",                     ["gamespy1"],                        2302,  Offset(1),     "",  [], "N", ["takeonhelicopters"];
    "tower-unite",       "Tower Unite",                             ["a2s"],                             7777,  Fixed(27015),  "",  [], "NM", ["towerunite"];
    "toxikk",            "TOXIKK",                                  ["a2s"],                             7777,  Fixed(27015),  "",  [], "N", [];
    "trackmania",        "TrackMania, ShootMania",                  ["gbx-remote"],                      2350,  Fixed(5000),   "",  [], "N", ["trackmaniaforever", "shootmania", "trackmania2"];
    "tremulous",         "Tremulous",                               ["quake3"],                          30720, Same,          "",  [], "N", [];
    "tribes-vengeance",  "Tribes: Vengeance",                       ["gamespy2"],                        7777,  Offset(1),     "",  [], "NL", ["tribesvengeance"];
    "tribes1",           "Starsiege: Tribes",                       ["tribes1"],                         28001, Same,          "",  [], "NL", ["t1s"];
    "tribes2",           "Tribes 2",                                [],                                  28000, UNDOCUMENTED, "",  [], "L", [];
    "tron",              "Tron 2.0",                                ["gamespy2"],                        0,     Fixed(27888),  "",  [], "N", ["tron20"];
    "turok2",            "Turok 2",                                 ["gamespy1"],                        0,     Fixed(12880),  "",  [], "N", [];
    "undying",           "Clive Barker's Undying",                  ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", ["cbu"];
    "universal-combat",  "Universal Combat",                        ["ase"],                             1135,  Offset(123),   "",  [], "N", ["universalcombat"];
    "unreal",            "Unreal",                                  ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", [];
    "unturned",          "Unturned",                                ["a2s"],                             27015, Offset(1),     "",  [], "NQM", [];
    "unvanquished",      "Unvanquished",                            ["quake3"],                          27960, Same,          "",  [], "S", [];
    "urt",               "Urban Terror",                            ["quake3"],                          27960, Same,          "",  [], "NQL", ["urbanterror"];
    "ut",                "Unreal Tournament",                       ["gamespy1"],                        7777,  Offset(1),     "",  [], "NQLM", ["unrealtournament", "ut99"];
    "ut2003",            "Unreal Tournament 2003",                  ["unreal2"],                         7757,  Offset(1),     "",  [], "NL", ["unrealtournament2003"];
    "ut2004",            "Unreal Tournament 2004",                  ["unreal2"],                         7777,  Offset(1),     "",  [], "NQLM", ["unrealtournament2004", "ut2k4"];
    "ut3",               "Unreal Tournament 3",                     ["gamespy3"],                        7777,  Fixed(6500),   "",  [], "NQLM", ["unrealtournament3"];
    "v8-supercar",       "V8 Supercar Challenge",                   ["gamespy1"],                        0,     Fixed(16700),  "",  [], "N", ["v8sc", "v8supercar"];
    "valheim",           "Valheim",                                 ["a2s"],                             2456,  Offset(1),     "",  [StatusNeeds("-public 1"), UnsureCount], "NQM", [];
    "vampire-slayer",    "Vampire Slayer",                          ["a2s"],                             27015, Same,          "",  [], "N", ["vampireslayer", "vs"];
    "vcmp",              "VC-MP",                                   ["samp"],                            8192,  Same,          "",  [], "NL", ["vcm"];
    "veloren",           "Veloren",                                 ["veloren"],                         14004, Fixed(14006),  "",  [], "S", [];
    "ventrilo",          "Ventrilo",                                [],                                  3784,  VENTRILO, "",  [], "NQ", [];
    "vietcong",          "Vietcong",                                ["gamespy1"],                        5425,  Offset(10000), "",  [], "NL", [];
    "vietcong2",         "Vietcong 2",                              ["gamespy2"],                        5001,  Fixed(19967),  "",  [], "NL", [];
    "vintage-story",     "Vintage Story",                           ["vintage-story"],                   42420, Same,          "",  [], "NM", ["vintagestory"];
    "vrising",           "V Rising",                                ["a2s"],                             9876,  FirstOf(&[Offset(1), Offset(15)]), "",  [], "NQ~", [];
    "warfork",           "Warfork",                                 ["quake3"],                          44400, Same,          "",  [], "NM", [];
    "warsow",            "Warsow",                                  ["quake3"],                          44400, Same,          "",  [], "NQL", [];
    "wheel-time",        "Wheel of Time",                           ["gamespy1"],                        7777,  Offset(1),     "",  [], "N", ["wot", "wheeloftime"];
    "windrose",          "Windrose",                                ["a2s"],                             7777,  FirstOf(&[Fixed(7778), Offset(1)]),     "",  [StatusNeeds("a dedicated port, not an invite code")], "N", [];
    "wolf2009",          "Wolfenstein (2009)",                      ["doom3"],                           27666, Same,          "",  [], "NL", ["wolfenstein", "wolfenstein2009"];
    "wop",               "World of Padman",                         ["quake3"],                          27960, Same,          "",  [], "N~", [];
    "wreckfest",         "Wreckfest",                               ["a2s"],                             33540, Fixed(27016),  "",  [], "Q~", [];
    "wurm",              "Wurm Unlimited",                          ["a2s"],                             3724,  Fixed(27016),  "",  [], "NQM", ["wurmunlimited"];
    "xmp",               "Unreal II XMP",                           ["unreal2"],                         7777,  Offset(1),     "",  [], "N", ["u2tax"];
    "xonotic",           "Xonotic",                                 ["quake3"],                          26000, Same,          "",  [], "NM", [];
    "xpand-rally",       "Xpand Rally",                             ["ase"],                             28015, Offset(123),   "",  [], "N", ["xpandrally"];
    "zandronum",         "Doom (Zandronum, Skulltag)",              [],                                  10666, ZANDRONUM, "",  [], "L~", [];
    "zdaemon",           "Doom (ZDaemon)",                          [],                                  10666, UNDOCUMENTED, "",  [], "L~", [];
    "zombie-master",     "Zombie Master",                           ["a2s"],                             27015, Same,          "",  [], "N", ["zombiemaster"];
    "zomboid",           "Project Zomboid",                         ["a2s"],                             16261, Same,          "",  [], "NQM", ["projectzomboid", "przomboid", "pz"];
    "zps",               "Zombie Panic! Source",                    ["a2s"],                             27015, Same,          "",  [], "NM", [];
}
