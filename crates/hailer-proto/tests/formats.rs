//! Statuses of one game in the replies of every responder: no codes for colors that another game
//! shows as text, and no empty list in place of a missing one.

use hailer_proto::model::{Carets, Codes};
use hailer_proto::testing::memory;
use hailer_proto::{
    Ask, Cookie, Direction, Epoch, Extra, Keys, Options, Player, Protocol, Rule, Status, Step,
    Value, registry,
};
use hailer_testkit::{golden, statuses};
use std::net::SocketAddr;

/// Runs a query against the responder of a protocol, with some options. Returns the last step and
/// the bytes of all replies.
fn trip(protocol: &dyn Protocol, status: &Status, options: &Options) -> (Step, Vec<u8>) {
    let from: SocketAddr = "192.0.2.7:50000".parse().expect("an address");
    let responder = protocol
        .responder(status, &Keys::new([7; 16]), options)
        .expect("good options");
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
    let mut server = memory::Server::new(&*responder, from, Epoch(59_833_333));
    let mut replies = Vec::new();
    let step = memory::run(&mut *exchange, &mut server, |direction, bytes| {
        if direction == Direction::Reply {
            replies.extend_from_slice(bytes);
        }
    });
    (step, replies)
}

/// A format with a red word in it, and the start of its code.
struct Format {
    codes: Codes,
    red: &'static str,
    code: &'static str,
}

const FORMATS: &[Format] = &[
    format(Codes::Legacy, "\u{A7}cRed", "\u{A7}"),
    format(Codes::Bedrock, "\u{A7}mRed", "\u{A7}"),
    format(Codes::Carets(Carets::Alphanumeric), "^1Red", "^"),
    format(Codes::Carets(Carets::Visible), "^1Red", "^"),
    format(Codes::Carets(Carets::Digit), "^1Red", "^"),
    format(Codes::Carets(Carets::DarkPlaces), "^xF00Red", "^"),
    format(Codes::Carets(Carets::Quake4), "^c900Red", "^"),
    format(Codes::Carets(Carets::Daemon), "^#FF0000Red", "^"),
    format(Codes::Carets(Carets::Savage), "^900Red", "^"),
    format(Codes::Unreal, "\u{1B}\u{FF}@@Red", "\u{1B}"),
    format(Codes::Hex, "0xff0000Red", "0xff"),
    format(Codes::Tags, "<color=#ff0000>Red</color>", "<color"),
];

const fn format(codes: Codes, red: &'static str, code: &'static str) -> Format {
    Format { codes, red, code }
}

/// Returns a status with a red word in every text.
fn status(format: &Format) -> Status {
    let word = |name: &str| format!("{}{name}", format.red);
    let text = |name: &str| format.codes.parse(word(name));
    let mut status = Status {
        name: Some(text("Name")),
        motd: Some(text("Motd")),
        game: Some(word("Game").into()),
        mode: Some(word("Mode").into()),
        map: Some(word("Map").into()),
        version: Some(word("1").into()),
        rules: vec![Rule {
            key: "motto".into(),
            value: word("Rule").into(),
        }],
        ..Status::default()
    };
    let tables = ["software", "skill", "language", "level-name", "location"];
    for key in tables {
        status.extra.push(Extra::new(key, word("Extra").as_str()));
    }
    let team = Value::Table(vec![("name".into(), Value::Str(word("Team").into()))]);
    status
        .extra
        .push(Extra::new("teams", Value::List(vec![team])));
    let player = Player {
        team: Some(word("Team").into()),
        extra: vec![Extra::new("clan", word("Clan").as_str())],
        ..Player::named(text("Player"))
    };
    status.players.online = Some(1);
    status.players.max = Some(8);
    status.players.set_list(vec![player]);
    status
}

/// Returns the responders, with the options that change their format.
fn responders() -> Vec<(&'static dyn Protocol, Options)> {
    let mut all: Vec<_> = registry::responders()
        .into_iter()
        .map(|protocol| (protocol, Options::default()))
        .collect();
    let doom3 = registry::find("doom3").expect("a protocol");
    all.push((doom3, Options::default().with("game", "quake4")));
    all
}

/// Returns the marks of the codes that clients of a responder show as colors.
fn marks(id: &str) -> &'static [&'static str] {
    match id {
        "minecraft-query" | "minecraft-status" | "minecraft-bedrock" | "minecraft-nethernet" => {
            &["\u{A7}"]
        }
        "quake3" | "doom3" | "fivem-http" => &["^"],
        "unreal2" | "gamespy1" | "gamespy2" | "gamespy3" => &["\u{1B}"],
        _ => &[],
    }
}

/// Returns a text in the encodings of all protocols.
fn encodings(text: &str) -> Vec<Vec<u8>> {
    let wide = text.encode_utf16();
    vec![
        text.as_bytes().to_vec(),
        text.chars().map(|c| c as u8).collect(),
        wide.clone().flat_map(u16::to_le_bytes).collect(),
        wide.flat_map(u16::to_be_bytes).collect(),
        // As JSON escapes it.
        text.escape_unicode().to_string().into_bytes(),
    ]
}

#[test]
fn no_codes_of_another_game_are_sent() {
    let mut complaints = Vec::new();
    for (protocol, options) in responders() {
        let id = protocol.info().id;
        for format in FORMATS {
            let (step, replies) = trip(protocol, &status(format), &options);
            let Step::Done(read) = step else {
                complaints.push(format!("{id} {:?}: {step:?}", format.codes));
                continue;
            };
            let is_own = marks(id).contains(&format.code);
            // The word after the code tells codes from other bytes.
            let code = format.red;
            let is_sent = encodings(code).iter().any(|code| contains(&replies, code));
            let is_read = format!("{read:?}").contains(&format!("{code:?}")[1..=code.len()]);
            if !is_own && (is_sent || is_read) {
                complaints.push(format!("{id} sends {code:?} of {:?}", format.codes));
            }
            // Whatever codes remain, no client shows them as text.
            let names = read.players.list.iter().map(|player| &player.name);
            for text in read.name.iter().chain(&read.motd).chain(names) {
                let plain = text.plain();
                if plain.contains(['^', '\u{A7}', '<']) || plain.contains("0x") {
                    complaints.push(format!("{id} shows {plain:?} of {:?}", format.codes));
                }
            }
        }
    }
    golden::settle(&complaints);
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn own_codes_are_sent_unchanged() {
    let mut complaints = Vec::new();
    for (id, codes, game, raw) in [
        (
            "minecraft-query",
            Codes::Legacy,
            "",
            "\u{A7}a\u{A7}lRed\u{A7}r!",
        ),
        (
            "minecraft-status",
            Codes::Legacy,
            "",
            "\u{A7}a\u{A7}lRed\u{A7}r!",
        ),
        (
            "minecraft-bedrock",
            Codes::Bedrock,
            "",
            "\u{A7}g\u{A7}lRed\u{A7}r!",
        ),
        (
            "quake3",
            Codes::Carets(Carets::Alphanumeric),
            "",
            "^1Red^x!",
        ),
        (
            "quake3",
            Codes::Carets(Carets::DarkPlaces),
            "Xonotic",
            "^xF08Red^^!",
        ),
        (
            "quake3",
            Codes::Carets(Carets::Digit),
            "Call of Duty",
            "^9Red^x!",
        ),
        ("doom3", Codes::Carets(Carets::Visible), "", "^&Red^^!"),
        (
            "fivem-http",
            Codes::Carets(Carets::Alphanumeric),
            "",
            "^1Red^x!",
        ),
        ("unreal2", Codes::Unreal, "", "\u{1B}\u{FF}@@Red!"),
        ("gamespy1", Codes::Unreal, "", "\u{1B}\u{FF}@@Red!"),
        ("gamespy2", Codes::Unreal, "", "\u{1B}\u{FF}@@Red!"),
        ("gamespy3", Codes::Carets(Carets::Digit), "mohaa", "^1Red!"),
    ] {
        let mut status = status(&format(codes, "", ""));
        status.game = Some(game.into());
        status.version = None;
        status.name = Some(codes.parse(raw));
        status.motd = status.name.clone();
        let protocol = registry::find(id).expect("a protocol");
        let (step, _) = trip(protocol, &status, &Options::default());
        let Step::Done(read) = step else {
            complaints.push(format!("{id}: {step:?}"));
            continue;
        };
        let mut texts = read.name.iter().chain(&read.motd);
        if !texts.any(|text| text.raw() == raw) {
            complaints.push(format!("{id} {raw:?}: {:?} {:?}", read.name, read.motd));
        }
    }
    golden::settle(&complaints);
}

/// Colors of another game arrive in the nearest form.
#[test]
fn colors_are_translated() {
    let quake = status(&format(Codes::Carets(Carets::Digit), "^1Red", "^"));
    let read = |id: &str, status: &Status| {
        let protocol = registry::find(id).expect("a protocol");
        match trip(protocol, status, &Options::default()).0 {
            Step::Done(status) => *status,
            step => panic!("{id}: {step:?}"),
        }
    };
    let name = |status: &Status| status.players.list[0].name.raw().to_owned();
    let query = read("minecraft-query", &quake);
    assert_eq!(query.motd.as_ref().unwrap().raw(), "\u{A7}4RedMotd");
    assert_eq!(
        (name(&query).as_str(), query.map.as_deref()),
        ("\u{A7}4RedPlayer", Some("\u{A7}4RedMap"))
    );
    // Components have all colors.
    let java = read("minecraft-status", &quake);
    let red = "\u{A7}x\u{A7}f\u{A7}f\u{A7}0\u{A7}0\u{A7}0\u{A7}0RedMotd";
    assert_eq!(java.motd.as_ref().unwrap().raw(), red);
    assert_eq!(name(&java), "\u{A7}4RedPlayer");
    assert_eq!(name(&read("ase", &quake)), "RedPlayer");
    let minecraft = status(&format(Codes::Legacy, "\u{A7}4Red", "\u{A7}"));
    assert_eq!(name(&read("quake3", &minecraft)), "^1RedPlayer");
    assert_eq!(
        name(&read("unreal2", &minecraft)),
        "\u{1B}\u{AA}\u{1}\u{1}RedPlayer"
    );
}

/// A list that the source of a status never had is not an empty list, in protocols that have a
/// reply for that.
#[test]
fn a_missing_list_is_not_served_as_an_empty_one() {
    let mut status = statuses::plain(0);
    status.players.online = Some(5);
    status.players.roster = hailer_proto::Roster::Absent;
    status
        .extra
        .push(Extra::new("unanswered", "players, rules"));
    status.rules.clear();
    // Their replies have a list in any case, next to the count. Clients of FiveM need the file.
    let always = [
        "fivem-http",
        "minecraft-query",
        "gamespy1",
        "gamespy2",
        "gamespy3",
        "battlefield",
        "teamspeak2",
        "teamspeak3",
    ];
    let mut complaints = Vec::new();
    for (protocol, options) in responders() {
        let id = protocol.info().id;
        let (step, _) = trip(protocol, &status, &options);
        let read = match step {
            Step::Done(read) => read,
            // No reply to the request for a list: the exchange waits for it.
            _ if ["a2s", "samp"].contains(&id) => continue,
            step => {
                complaints.push(format!("{id}: {step:?}"));
                continue;
            }
        };
        let players = &read.players;
        let is_list = matches!(
            players.roster,
            hailer_proto::Roster::Whole | hailer_proto::Roster::Partial
        );
        if players.online.is_some_and(|online| online != 5) {
            complaints.push(format!("{id}: {:?} players", players.online));
        }
        if is_list && !always.contains(&id) {
            complaints.push(format!("{id}: a list of {} players", players.list.len()));
        }
    }
    golden::settle(&complaints);
}
