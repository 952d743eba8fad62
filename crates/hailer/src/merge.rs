//! One answer from several protocols of one server.
//!
//! The main protocol of a game comes first. Answers in its other protocols add the fields that the
//! main one lacks, and replace its player list if theirs is more complete. [`Answer::sources`]
//! names the protocol of each field that is not from the main one.

use crate::answer::{Answer, FieldSource};
use crate::support::catalog;
use hailer_proto::games::{Game, QueryPort, Quirk};
use hailer_proto::model::{Players, Roster};
use hailer_proto::{Info, Player, Status};
use std::borrow::Cow;

/// Merges the answers of one server. Returns `None` if fewer than two of them belong to protocols
/// of one game at one IP address. Without a `game`, the first game of the catalog that has several
/// of the protocols counts.
pub(crate) fn merge(
    answers: &[Answer],
    game: Option<&'static Game>,
) -> Option<(Answer, &'static Game)> {
    let game = match game {
        Some(game) => game,
        None => common_game(answers)?,
    };
    let mut parts = parts_of(game, answers).into_iter();
    let main = parts.next()?;
    let mut merged = main.clone();
    let mut is_merged = false;
    for part in parts.filter(|part| part.transcript.address.ip() == main.transcript.address.ip()) {
        is_merged = true;
        add(&mut merged, part);
    }
    is_merged.then_some((merged, game))
}

/// Returns the answers in protocols of a game, the main one first.
fn parts_of<'a>(game: &Game, answers: &'a [Answer]) -> Vec<&'a Answer> {
    let in_protocol = |id: &&str| {
        answers
            .iter()
            .find(|answer| answer.transcript.protocol.id == *id)
    };
    game.protocols.iter().filter_map(in_protocol).collect()
}

/// Returns the first game that has at least two of the answered protocols. Leaves out games with a
/// port for each protocol: their protocols do not answer at one port.
fn common_game(answers: &[Answer]) -> Option<&'static Game> {
    if answers.len() < 2 {
        return None;
    }
    let mut games = catalog::games().into_iter();
    games
        .find(|game| !matches!(game.query, QueryPort::Each(_)) && parts_of(game, answers).len() > 1)
}

/// Adds an answer in another protocol.
fn add(merged: &mut Answer, part: &Answer) {
    let protocol = part.transcript.protocol.id;
    let transcript = &mut merged.transcript;
    transcript.sent = transcript.sent.saturating_add(part.transcript.sent);
    transcript.received = transcript.received.saturating_add(part.transcript.received);
    let fields = add_status(&mut merged.status, &part.status);
    merged
        .sources
        .extend(fields.into_iter().map(|field| FieldSource {
            field,
            protocol: protocol.into(),
        }));
}

/// Adds the fields that `status` lacks. Returns their names.
fn add_status(status: &mut Status, other: &Status) -> Vec<Cow<'static, str>> {
    let mut added: Vec<Cow<'static, str>> = Vec::new();
    macro_rules! fill {
        ($($name:literal: $($field:ident).+;)*) => {$(
            if status.$($field).+.is_none() && other.$($field).+.is_some() {
                status.$($field).+.clone_from(&other.$($field).+);
                added.push($name.into());
            }
        )*};
    }
    fill! {
        "name": name;
        "motd": motd;
        "game": game;
        "mode": mode;
        "map": map;
        "version": version;
        "players.online": players.online;
        "players.max": players.max;
        "players.bots": players.bots;
        "address": address;
        "password": has_password;
        "anti_cheat": has_anti_cheat;
        "icon": icon;
    }
    if completeness(&other.players) > completeness(&status.players) {
        let sample = std::mem::take(&mut status.players.list);
        status.players.list.clone_from(&other.players.list);
        status.players.roster = other.players.roster;
        keep_uuids(&mut status.players.list, &sample);
        added.push("players.list".into());
    }
    if status.rules.is_empty() && !other.rules.is_empty() {
        status.rules.clone_from(&other.rules);
        added.push("rules".into());
    }
    // Without a name and a number of players, the extras describe only the reply itself.
    let has_content = other.title().is_some() || other.players.online.is_some();
    for extra in other.extra.iter().filter(|_| has_content) {
        if status.extra(&extra.key).is_none() {
            added.push(format!("extra.{}", extra.key).into());
            status.extra.push(extra.clone());
        }
    }
    for deviation in &other.deviations {
        if !status
            .deviations
            .iter()
            .any(|known| known.name == deviation.name)
        {
            status.deviations.push(deviation);
        }
    }
    added
}

/// Adds the UUIDs that only the shorter list has.
fn keep_uuids(list: &mut [Player], sample: &[Player]) {
    for known in sample.iter().filter(|player| player.uuid.is_some()) {
        let name = known.name.plain();
        let same = list
            .iter_mut()
            .find(|player| player.uuid.is_none() && player.name.plain() == name);
        if let Some(player) = same {
            player.uuid = known.uuid;
        }
    }
}

/// Returns the rank of a list among those of several answers.
pub(crate) fn completeness(players: &Players) -> u8 {
    match players.roster {
        Roster::Whole => 4,
        // An unreadable list is worth less than a sample.
        Roster::Partial if players.list.is_empty() => 1,
        Roster::Partial => 3,
        Roster::Sample => 2,
        Roster::Refused => 1,
        _ => 0,
    }
}

/// Explains what the quirks of a game mean for an answer. `silent` are its protocols without an
/// answer; `has_asked` is whether the player list was requested.
pub(crate) fn notes(
    game: &Game,
    status: &Status,
    silent: &[&'static Info],
    has_asked: bool,
) -> Vec<String> {
    let players = &status.players;
    let listed = players
        .list
        .iter()
        .filter(|player| !player.name.plain().trim().is_empty())
        .count();
    let has_missing_names =
        has_asked && players.count() > i64::try_from(listed).unwrap_or(i64::MAX);
    let mut notes = Vec::new();
    for quirk in game.quirks {
        match quirk {
            Quirk::PlayersNeed(_) if !has_missing_names => {}
            Quirk::PlayersNeed(setting) if !silent.is_empty() => {
                let titles: Vec<&str> = silent.iter().map(|info| info.title).collect();
                let titles = titles.join(" and ");
                notes.push(format!(
                    "Player names are missing because {titles} is disabled, filtered or on another port: it needs {setting}"
                ));
            }
            Quirk::NamesHidden | Quirk::NoPlayerList if !has_missing_names => {}
            Quirk::StatusNeeds(_) | Quirk::SilentInLobby | Quirk::Charset(_) => {}
            quirk => notes.push(format!("{}: {quirk}", game.name)),
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Answers;
    use crate::error::Error;
    use crate::target::{Host, Target};
    use crate::transcript::Transcript;
    use hailer_proto::model::{Extra, Rule, Value};
    use hailer_proto::{Ask, Text, registry};
    use std::time::Duration;

    const GAME: Game = Game {
        id: "merge-test",
        name: "Merge Test",
        protocols: &["onequery", "minecraft-query"],
        port: Some(7777),
        query: hailer_proto::games::QueryPort::Same,
        srv: None,
        quirks: &[
            Quirk::PlayersNeed("enable-query"),
            Quirk::NamesHidden,
            Quirk::UnsureCount,
        ],
        sources: "",
        aliases: &[],
    };

    fn answer(protocol: &str, host: u8, status: Status) -> Answer {
        let transcript = Transcript {
            sent: 2,
            received: 1,
            ..Transcript::new(
                registry::find(protocol).unwrap().info(),
                ([127, 0, 0, host], 1).into(),
            )
        };
        Answer::new(transcript, status.into(), Duration::from_millis(3))
    }

    fn player(name: &str, uuid: Option<[u8; 16]>) -> Player {
        Player {
            uuid,
            ..Player::named(Text::unformatted(name))
        }
    }

    fn main_status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Main")),
            version: Some("1".into()),
            extra: vec![Extra::new("edition", Value::Int(1))],
            ..Status::default()
        };
        status.players.online = Some(3);
        status
            .players
            .set_sample(vec![player("Alice", Some([7; 16]))]);
        status
    }

    fn other_status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Other")),
            map: Some("harbour".into()),
            has_password: Some(true),
            rules: vec![Rule {
                key: "a".into(),
                value: "b".into(),
            }],
            extra: vec![
                Extra::new("edition", Value::Int(2)),
                Extra::new("plugins", Value::Int(3)),
            ],
            ..Status::default()
        };
        status.players.online = Some(3);
        status.players.max = Some(8);
        let names = ["Alice", "Bob", "Carol"];
        status
            .players
            .set_list(names.map(|name| player(name, None)).into());
        status
    }

    #[test]
    fn a_reply_without_content_adds_no_extras() {
        let mut other = Status::default();
        other.extra.push(Extra::new("moved-to-tcp", true));
        assert!(add_status(&mut Status::default(), &other).is_empty());
        other.players.online = Some(1);
        let added = add_status(&mut Status::default(), &other);
        assert_eq!(added, ["players.online", "extra.moved-to-tcp"]);
    }

    #[test]
    fn the_main_protocol_comes_first_and_the_other_completes_it() {
        let answers = [
            answer("minecraft-query", 1, other_status()),
            answer("onequery", 1, main_status()),
        ];
        let (merged, _) = merge(&answers, Some(Box::leak(Box::new(GAME)))).unwrap();
        let status = &*merged.status;
        assert_eq!(merged.transcript.protocol.id, "onequery");
        assert_eq!((merged.transcript.sent, merged.transcript.received), (4, 2));
        assert_eq!(status.title().as_deref(), Some("Main"));
        assert_eq!(status.version.as_deref(), Some("1"));
        assert_eq!(status.map.as_deref(), Some("harbour"));
        assert_eq!(status.extra("edition"), Some(&Value::Int(1)));
        assert_eq!(status.extra("plugins"), Some(&Value::Int(3)));
        assert_eq!(status.players.roster, Roster::Whole);
        let names = hailer_testkit::servers::names(status);
        assert_eq!(names, ["Alice", "Bob", "Carol"]);
        // The sample of the main protocol has the UUID.
        assert_eq!(status.players.list[0].uuid, Some([7; 16]));
        let sources: Vec<_> = merged
            .sources
            .iter()
            .map(|source| (&*source.field, &*source.protocol))
            .collect();
        let from_other = |field| (field, "minecraft-query");
        assert_eq!(
            sources,
            [
                "map",
                "players.max",
                "password",
                "players.list",
                "rules",
                "extra.plugins"
            ]
            .map(from_other)
        );
    }

    #[test]
    fn results_of_separate_exchanges_are_combined() {
        let game: &'static Game = Box::leak(Box::new(GAME));
        let target = Target {
            game: Some(game),
            protocol: registry::find("onequery"),
            host: Host::Address([127, 0, 0, 1].into()),
            port: None,
        };
        let silence = |protocol: &str| Error::Silence {
            transcript: Box::new(answer(protocol, 1, Status::default()).transcript),
            after: Duration::from_secs(3),
        };
        let refusal = |protocol: &str| Error::Refused {
            transcript: Box::new(answer(protocol, 1, Status::default()).transcript),
            reason: "no",
            endpoints: &[],
        };
        let ask = Ask::default();
        let combine = |results| Answers::combine(&target, results, &ask);
        let main = || Ok(answer("onequery", 1, main_status()));
        let other = || Ok(answer("minecraft-query", 1, other_status()));

        let both = combine(vec![other(), main()]).unwrap();
        assert_eq!(both.best().transcript.protocol.id, "onequery");
        assert_eq!(both.best().status.players.roster, Roster::Whole);
        assert_eq!(both.game(), Some(game));
        // At two ports: the first answer counts.
        let twice = combine(vec![main(), Ok(answer("onequery", 1, other_status()))]).unwrap();
        assert_eq!(twice.best().status.title().as_deref(), Some("Main"));
        assert_eq!((twice.len(), twice.game()), (1, None));
        // The notes name the silent protocol.
        let alone = combine(vec![main(), Err(silence("minecraft-query"))]).unwrap();
        assert!(alone.best().notes[0].contains("enable-query"));
        let other = combine(vec![Err(silence("onequery")), other()]).unwrap();
        assert_eq!(other.best().transcript.protocol.id, "minecraft-query");

        // The main protocol counts, even if another one has more to say.
        let error = combine(vec![
            Err(refusal("minecraft-query")),
            Err(silence("onequery")),
        ]);
        assert_eq!(error.unwrap_err().kind(), "silence");
        let error = combine(vec![Err(silence("onequery")), Err(refusal("onequery"))]);
        assert_eq!(error.unwrap_err().kind(), "refused");
        let error = combine(Vec::new()).unwrap_err();
        assert!(matches!(error, Error::NoProtocol { .. }), "{error}");
    }

    #[test]
    fn a_less_complete_list_replaces_nothing() {
        // A partial list without a name could not be read.
        for roster in [Roster::Absent, Roster::Partial] {
            let mut other = other_status();
            other.players.list.clear();
            other.players.roster = roster;
            let answers = [
                answer("onequery", 1, main_status()),
                answer("minecraft-query", 1, other),
            ];
            let (merged, _) = merge(&answers, Some(Box::leak(Box::new(GAME)))).unwrap();
            assert_eq!(merged.status.players.roster, Roster::Sample);
            assert!(
                merged
                    .sources
                    .iter()
                    .all(|source| source.field != "players.list")
            );
        }
    }

    #[test]
    fn answers_of_other_addresses_or_games_stay_separate() {
        let game: &'static Game = Box::leak(Box::new(GAME));
        let main = answer("onequery", 1, main_status());
        let elsewhere = answer("minecraft-query", 2, other_status());
        assert!(merge(&[main.clone(), elsewhere], Some(game)).is_none());
        let other_game = answer("ugp", 1, other_status());
        assert!(merge(&[main.clone(), other_game.clone()], Some(game)).is_none());
        assert!(merge(&[main.clone(), other_game], None).is_none());
        assert!(merge(&[main], Some(game)).is_none());
        assert!(merge(&[], Some(game)).is_none());
    }

    #[test]
    fn quirks_explain_missing_names() {
        let query = registry::find("minecraft-query").unwrap().info();
        let found = notes(&GAME, &main_status(), &[query], true);
        assert_eq!(
            found,
            [
                "Player names are missing because Minecraft Query is disabled, filtered or on another port: it needs enable-query",
                "Merge Test: servers hide the names of players",
                "Merge Test: player counts may be wrong",
            ]
        );
        // Without a silent protocol, the setting is named all the same.
        let found = notes(&GAME, &main_status(), &[], true);
        assert_eq!(
            found[0],
            "Merge Test: servers report all player names only with enable-query"
        );
        for (status, has_asked) in [(other_status(), true), (main_status(), false)] {
            let found = notes(&GAME, &status, &[query], has_asked);
            assert_eq!(found, ["Merge Test: player counts may be wrong"]);
        }
    }
}
