//! Conformance tests, against our own responders and against faulty servers in memory.

mod altered;
mod clients;
mod faulty;

use hailer::check::{self, CheckConfig, Finding, MemoryWire, Outcome, Severity, Suite};
use hailer::proto::{Keys, Options, Protocol, Status, Text, Value, registry};
use hailer_testkit::statuses;
use std::collections::{BTreeMap, BTreeSet};

fn config() -> CheckConfig {
    let mut config = CheckConfig::default();
    config.has_load = true;
    config.has_bytes = true;
    config.is_loopback = true;
    config.host = "mc.example.test".into();
    config.port = 25_565;
    config.seed = 7;
    config
}

fn check(suite: &'static Suite, wire: &mut MemoryWire) -> Vec<Finding> {
    let protocol = registry::find(suite.protocol).unwrap();
    check::run(suite, protocol, wire, &config(), &mut |_| {}, &|| false)
}

fn responder(protocol: &dyn Protocol, status: &Status, options: &Options) -> MemoryWire {
    let responder = protocol
        .responder(status, &Keys::new([7; 16]), options)
        .unwrap();
    MemoryWire::responder(responder, protocol.info().transport)
}

/// Requirements that do not pass, with their outcome.
fn problems(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .filter(|finding| !matches!(finding.outcome, Outcome::Pass(_)))
        .map(|finding| {
            let names: Vec<_> = finding
                .outcome
                .deviations()
                .iter()
                .map(|deviation| deviation.name)
                .collect();
            format!(
                "{} {} [{}] {}",
                finding.requirement.id,
                finding.outcome.name(),
                names.join(" "),
                finding.outcome.detail()
            )
        })
        .collect()
}

fn named(name: &str) -> Status {
    let mut status = statuses::plain(3);
    status.name = Some(Text::unformatted(name));
    status.motd.clone_from(&status.name);
    status.version = None;
    status
}

/// Our own responders pass every requirement that applies to them.
#[test]
fn own_responders_pass() {
    let mut unexpected = Vec::new();
    for &suite in check::SUITES {
        let protocol = registry::find(suite.protocol).unwrap();
        for (name, status) in [
            ("sample", protocol.sample(7)),
            ("plain", statuses::plain(3)),
            ("empty", Status::default()),
            ("accents", named("Zürich")),
            ("several scripts", named("Zürich ✓")),
        ] {
            let mut wire = responder(protocol, &status, &Options::default());
            let findings = check(suite, &mut wire);
            assert_eq!(findings.len(), suite.requirements.len());
            for problem in problems(&findings) {
                let is_expected = problem.contains("not-applicable")
                    || EXPECTED
                        .iter()
                        .any(|expected| problem.starts_with(expected));
                if !is_expected {
                    unexpected.push(format!("{name}: {problem}"));
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// A server whose address can be forged must limit its replies to addresses that are not verified.
#[test]
fn replies_without_a_limit_fail_away_from_loopback() {
    for (protocol, id) in [("ugp", "ugp/6.1"), ("quake3", "quake3/6.1")] {
        let mut config = config();
        config.only = vec![id.into()];
        for is_loopback in [true, false] {
            config.is_loopback = is_loopback;
            let found = registry::find(protocol).unwrap();
            // The service around a responder has the limit.
            let mut wire = responder(found, &statuses::plain(30), &Options::default());
            let suite = suite(protocol);
            let findings = check::run(suite, found, &mut wire, &config, &mut |_| {}, &|| false);
            let is_failure = matches!(findings[1].outcome, Outcome::Fail(_));
            assert_eq!(is_failure, !is_loopback, "{id}: {:?}", findings[1].outcome);
        }
    }
}

/// A stop ends waits, and leaves out the requirement that was being tested.
#[test]
fn a_stop_returns_the_results_so_far() {
    let suite = suite("minecraft-query");
    let protocol = registry::find(suite.protocol).unwrap();
    let mut wire = responder(protocol, &statuses::plain(3), &Options::default());
    let is_stopped = std::cell::Cell::new(false);
    let mut waited = 0;
    let findings = check::run(
        suite,
        protocol,
        &mut wire,
        &config(),
        &mut |event| {
            if matches!(event, check::Event::Waiting { .. }) {
                waited += 1;
                is_stopped.set(true);
            }
        },
        &|| is_stopped.get(),
    );
    assert_eq!(waited, 1);
    let last = findings.last().unwrap().requirement.id;
    assert_eq!(last, "minecraft-query/5.8");
}

/// Requirements that a responder alone does not meet: the service around it closes idle connections.
const EXPECTED: &[&str] = &["minecraft-status/5.2"];

/// Results of a faulty server by requirement: `fail` or the names of the deviations, and the severity.
type Row = BTreeMap<&'static str, (String, &'static str)>;

/// The probes report only deviations that the reference lists.
fn row(suite: &'static Suite, wire: &mut MemoryWire) -> Row {
    let findings = check(suite, wire);
    let of_client = registry::find(suite.protocol).unwrap().info().deviations;
    let mut row = Row::new();
    for finding in &findings {
        let requirement = finding.requirement;
        let listed = requirement.deviations.iter().chain(of_client);
        let listed: Vec<&str> = listed.map(|deviation| deviation.name).collect();
        for met in finding.outcome.deviations() {
            assert!(
                listed.contains(&met.name),
                "{}: {}",
                requirement.id,
                met.name
            );
        }
        let names: Vec<_> = finding
            .outcome
            .deviations()
            .iter()
            .map(|deviation| format!("`{}`", deviation.name))
            .collect();
        let text = match finding.outcome {
            Outcome::Pass(_) | Outcome::NotApplicable(_) => continue,
            Outcome::Deviation { .. } => names.join(", "),
            Outcome::Fail(_) => "**fails**".to_owned(),
        };
        row.insert(finding.requirement.id, (text, finding.effect().0.name()));
    }
    row
}

fn suite(protocol: &str) -> &'static Suite {
    let mut suites = check::SUITES.iter().copied();
    suites.find(|suite| suite.protocol == protocol).unwrap()
}

/// Faulty servers of all suites, by name.
fn faulty_servers() -> Vec<(&'static str, &'static str, Row)> {
    let mut rows = Vec::new();
    for server in faulty::minecraft() {
        let name = server.name;
        let row = row(suite("minecraft-query"), &mut server.wire());
        rows.push(("minecraft-query", name, row));
    }
    for server in faulty::onequery() {
        rows.push((
            "onequery",
            server.name,
            row(suite("onequery"), &mut server.wire()),
        ));
    }
    for mistake in altered::MISTAKES {
        let row = row(suite(mistake.protocol), &mut mistake.wire());
        rows.push((mistake.protocol, mistake.name, row));
    }
    for (name, _, mut wire) in altered::streams() {
        let mut row = row(suite("minecraft-status"), &mut wire);
        // No service closes idle connections in memory.
        row.remove("minecraft-status/5.2");
        rows.push(("minecraft-status", name, row));
    }
    rows
}

/// The servers with known deviations fail exactly the requirements of
/// `docs/reference/checked-servers.md`. `BLESS=1` rewrites the page.
#[test]
fn faulty_servers_fail_where_expected() {
    let mut page = String::from(
        "# Checked servers\n\nFindings of `hailer check` in servers with known deviations. The servers are simulated from the spec pages. \
         Requirements that pass are left out; [requirements.md](requirements.md) lists all of them.\n",
    );
    let rows = faulty_servers();
    let mut last = "";
    for (protocol, name, row) in &rows {
        if *protocol != last {
            page += &format!("\n## {protocol}\n");
            last = protocol;
        }
        page += &format!("\n### {name}\n\n");
        if row.is_empty() {
            page += "All requirements pass.\n";
            continue;
        }
        page += "| requirement | result | severity |\n| --- | --- | --- |\n";
        for requirement in check::SUITES.iter().flat_map(|suite| suite.requirements) {
            if let Some((text, severity)) = row.get(requirement.id) {
                let (id, title) = (requirement.id, requirement.title);
                page += &format!("| {id}: {title} | {text} | {severity} |\n");
            }
        }
    }
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/checked-servers.md"
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        stored == page,
        "docs/reference/checked-servers.md is outdated: run BLESS=1 cargo test -p hailer --test check\n{page}"
    );
    for (protocol, name, row) in &rows {
        if *name == "without deviations" {
            assert!(row.is_empty(), "{protocol}: {row:?}");
        }
    }
}

/// Exactly the documented deviations of real servers are found, each by its requirement
/// (spec/minecraft-query.md#8, spec/onequery.md#5 to #8).
#[test]
fn every_known_deviation_is_found() {
    let known: &[(&str, &str)] = &[
        (
            "vanilla up to 1.12",
            "2.3 mangled-session-id; 2.4 answers-short-handshake; 3.4 last-handshake-id; 5.4 \
             token-bound-to-port; 5.6 new-token-ends-old",
        ),
        (
            "vanilla from 1.13",
            "2.3 mangled-session-id; 2.4 answers-short-handshake; 3.4 last-handshake-id; 5.4 \
             token-bound-to-port; 5.6 new-token-ends-old; 5.9 token-lives-long",
        ),
        (
            "BungeeCord",
            "3.5 odd-length-dropped; 4.3 latin-1-text; 5.5 one-token-per-address; 5.6 \
             new-token-ends-old; 5.8 token-negative",
        ),
        (
            "BungeeCord before 15 November 2016",
            "3.5 odd-length-dropped; 5.3 fails; 5.8 token-negative",
        ),
        (
            "BungeeCord before 31 March 2014",
            "3.2 zero-padding; 3.5 odd-length-dropped; 5.3 fails; 5.8 token-negative",
        ),
        (
            "Velocity",
            "3.5 odd-length-dropped; 4.3 latin-1-text; 5.5 one-token-per-address; 5.6 \
             new-token-ends-old; 5.8 token-negative",
        ),
        (
            "Velocity before October 2020",
            "3.1 full-for-basic; 3.2 basic-for-full; 3.3 basic-for-full; 3.5 \
             odd-length-dropped; 5.5 one-token-per-address; 5.6 new-token-ends-old; 5.8 token-negative",
        ),
        ("Glowstone", "5.4 token-bound-to-port; 5.8 token-negative"),
        (
            "Geyser 2020 to 2023",
            "2.1 doubled-nul; 3.1 full-for-basic, geyser-header; 3.2 geyser-header; 3.5 \
             full-for-basic; 5.1 fails; 5.2 fails; 5.3 fails; 5.8 token-negative; 5.9 token-lives-long",
        ),
        ("PocketMine", "3.1 no-basic-stat; 5.9 token-lives-long"),
        ("Nukkit 2015 to 2019", "5.9 token-lives-long"),
        (
            "Nukkit from 2019",
            "2.1 raw-token; 3.2 basic-for-full; 3.3 basic-for-full; 5.9 token-lives-long",
        ),
        (
            "Pumpkin 2024",
            "3.1 full-for-basic; 3.5 full-for-basic; 4.2 count-not-list; 5.4 token-bound-to-port",
        ),
        (
            "Pumpkin from May 2026",
            "3.5 odd-length-dropped; 4.2 count-not-list; 5.4 token-bound-to-port",
        ),
        (
            "Minestom",
            "3.1 full-for-basic, zero-padding, spaced-key; 3.2 zero-padding, spaced-key; 3.5 \
             full-for-basic; 5.4 token-bound-to-port; 5.8 token-negative",
        ),
        (
            "PyMine",
            "2.2 token-echo; 3.1 port-as-text; 3.2 spaced-key; 3.3 basic-for-full; 4.2 \
             count-not-list; 5.2 fails; 5.4 token-bound-to-port; 5.8 token-zero; 5.9 token-lives-long",
        ),
        ("a port of two big-endian bytes", "4.1 fails"),
        ("OneQuery 2.0", "4.3 negative-offset-unanswered; 7.3 fails"),
        (
            "OneQuery 2.0 with a long MOTD",
            "4.3 negative-offset-unanswered; 7.2 over-1400; 7.3 fails",
        ),
        (
            "OneQuery 2.0 that has just joined a network",
            "4.3 negative-offset-unanswered; 4.6 counts-differ; 7.3 fails",
        ),
        (
            "OneQuery 2.0 with permissions",
            "6.3 refused-but-disclosed; 7.3 fails",
        ),
        (
            "OneQuery 2.0 with a name of 1300 bytes",
            "4.1 fails; 4.3 negative-offset-unanswered; 7.3 fails",
        ),
        ("OneQuery 1.x", "1.1 fails"),
        (
            "HyQuery 2.0 with public players",
            "3.4 short-query-dropped; 6.2 broken-token-dropped; 7.3 fails",
        ),
        (
            "HyQuery 2.0",
            "3.4 short-query-dropped; 6.2 broken-token-dropped; 6.3 refused-but-disclosed; 7.3 \
             version-1-unverified, hyquery-layout",
        ),
        (
            "little-endian UUIDs, and tokens for every address",
            "3.7 little-endian-uuid; 5.2 fails",
        ),
        ("ids of 16 bits", "3.3 fails"),
    ];
    let rows = faulty_servers();
    for (server, expected) in known {
        let (_, _, row) = rows.iter().find(|(_, name, _)| name == server).unwrap();
        let found = row.iter().map(|(id, (text, _))| {
            let number = id.split('/').nth(1).unwrap();
            format!("{number} {}", text.replace(['`', '*'], ""))
        });
        let found = found.collect::<Vec<_>>().join("; ");
        assert_eq!(found, *expected, "{server}");
    }
}

/// Each mistake fails exactly its requirements.
#[test]
fn a_mistake_fails_its_requirements_only() {
    let mistakes = altered::MISTAKES.iter();
    let mistakes = mistakes.map(|mistake| {
        (
            mistake.protocol,
            mistake.name,
            mistake.fails,
            mistake.wire(),
        )
    });
    let streams = altered::streams().into_iter();
    let streams = streams.map(|(name, fails, wire)| ("minecraft-status", name, fails, wire));
    for (protocol, name, fails, mut wire) in mistakes.chain(streams) {
        let row = row(suite(protocol), &mut wire);
        let numbers: BTreeSet<&str> = row
            .keys()
            // No service closes idle connections in memory.
            .filter(|id| **id != "minecraft-status/5.2")
            .filter_map(|id| id.split('/').nth(1))
            .collect();
        let expected: BTreeSet<&str> = fails.iter().copied().collect();
        assert_eq!(numbers, expected, "{protocol}, {name}: {row:?}");
    }
}

/// Ids are unique and in order, texts are sentences without a final stop, and sections exist.
#[test]
fn requirements_are_well_formed() {
    let mut ids = BTreeSet::new();
    for suite in check::SUITES {
        let page = format!(
            "{}/../../spec/{}.md",
            env!("CARGO_MANIFEST_DIR"),
            suite.protocol
        );
        let page = std::fs::read_to_string(page).unwrap();
        let mut last = (0, 0);
        for requirement in suite.requirements {
            let id = requirement.id;
            assert!(ids.insert(id), "{id} is there twice");
            let number = id
                .strip_prefix(suite.protocol)
                .and_then(|id| id.strip_prefix('/'));
            let (group, number) = number.and_then(|number| number.split_once('.')).unwrap();
            let number: (u32, u32) = (group.parse().unwrap(), number.parse().unwrap());
            assert!(number > last, "{id} is not in order");
            last = number;
            for text in [requirement.title, requirement.effect] {
                let is_sentence = text
                    .starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
                    || text.starts_with("node-gamedig")
                    || text.starts_with("qstat");
                assert!(is_sentence && !text.ends_with('.'), "{id}: {text}");
            }
            let prefix = format!("spec/{}.md#", suite.protocol);
            let section = requirement.section();
            let section = section.strip_prefix(&prefix).unwrap();
            let has_section = page.lines().any(|line| {
                let heading = line.trim_start_matches('#');
                heading.len() < line.len()
                    && heading
                        .trim_start()
                        .strip_prefix(section)
                        .is_some_and(|rest| rest.starts_with([' ', '.']))
            });
            assert!(has_section, "{id}: {section} does not exist");
        }
        let protocol = registry::find(suite.protocol).unwrap();
        for mild in suite.mild {
            let tested = suite.requirements.iter();
            let tested = tested.filter(|requirement| {
                let mut deviations = requirement.deviations.iter();
                deviations.any(|tested| tested.name == mild.name)
            });
            for requirement in tested.clone() {
                let is_mild = mild.severity <= requirement.severity;
                assert!(is_mild, "{}: {}", requirement.id, mild.name);
            }
            let mut known = protocol.info().deviations.iter();
            let is_known = known.any(|known| known.name == mild.name);
            let is_known = is_known || tested.count() > 0;
            assert!(is_known, "{}: no deviation {}", suite.protocol, mild.name);
            let is_sentence = mild.effect.starts_with(char::is_uppercase);
            assert!(
                is_sentence && !mild.effect.ends_with('.'),
                "{}",
                mild.effect
            );
        }
    }
}

/// A harmless deviation does not have the effect of a failure of its requirement.
#[test]
fn mild_deviations_have_separate_effects() {
    let suite = suite("minecraft-bedrock");
    let effect = |name: &str| {
        let mut mistakes = altered::MISTAKES.iter();
        let mistake = mistakes.find(|mistake| mistake.name.starts_with(name));
        let findings = check(suite, &mut mistake.unwrap().wire());
        let layout = findings
            .iter()
            .find(|finding| finding.requirement.id == "minecraft-bedrock/2.1")
            .unwrap();
        assert!(matches!(layout.outcome, Outcome::Deviation { .. }));
        (layout.effect(), layout.requirement)
    };
    let ((severity, text), requirement) = effect("Dragonfly: fourteen fields");
    assert_eq!(severity, Severity::Note);
    assert_ne!(text, requirement.effect);
    // One of these is not mild.
    let (worst, requirement) = effect("Nukkit of 2019");
    assert_eq!(worst, (requirement.severity, requirement.effect));
}

/// Each deviation has the severity of its harm, which `--fail-on` counts.
#[test]
fn deviations_have_a_severity() {
    let rows = faulty_servers();
    for (server, requirement, expected) in [
        ("Nukkit from 2019", "minecraft-query/2.1", "error"),
        ("Geyser 2020 to 2023", "minecraft-query/2.1", "note"),
        ("BungeeCord", "minecraft-query/4.3", "warning"),
        ("OneQuery 2.0 with permissions", "onequery/6.3", "error"),
        ("HyQuery 2.0", "onequery/7.3", "warning"),
        ("HyQuery 2.0 with public players", "onequery/7.3", "error"),
        ("types of requests in replies", "ugp/3.1", "warning"),
        ("the time joined for every request", "ugp/3.4", "error"),
    ] {
        let (_, _, row) = rows.iter().find(|(_, name, _)| *name == server).unwrap();
        assert_eq!(row[requirement].1, expected, "{server}, {requirement}");
    }
}

/// A server that limits its replies has no problem with the load.
#[test]
fn a_rate_limit_is_no_failure_under_load() {
    let requirement = |id: &str| {
        let mut all = check::SUITES.iter().flat_map(|suite| suite.requirements);
        all.find(|requirement| requirement.id == id).unwrap()
    };
    for id in [
        "minecraft-query/7.1",
        "onequery/8.1",
        "a2s/6.1",
        "minecraft-status/6.1",
    ] {
        let requirement = requirement(id);
        let mut deviations = requirement.deviations.iter();
        let limit = deviations.find(|deviation| deviation.name == "strict-rate-limit");
        let finding = Finding {
            requirement,
            outcome: Outcome::Deviation {
                found: vec![*limit.unwrap()],
                detail: String::new(),
            },
            measured: Vec::new(),
            transfers: Vec::new(),
        };
        assert_eq!(finding.severity(), Some(Severity::Note), "{id}");
        assert_ne!(finding.effect().1, requirement.effect, "{id}");
    }
}

/// The requirements of protected endpoints apply with the auth token, and no others change.
#[test]
fn an_auth_token_opens_the_requirements_of_protected_endpoints() {
    let suite = suite("onequery");
    let protocol = registry::find("onequery").unwrap();
    let both = Value::List(vec!["basic".into(), "players".into()]);
    let options = Options::default()
        .with("public", Value::List(Vec::new()))
        .with("tokens", Value::Table(vec![("s3cret".into(), both)]));
    let run = |auth_token: Option<&str>| {
        let mut config = config();
        config.auth_token = auth_token.map(Into::into);
        let mut wire = responder(protocol, &statuses::plain(120), &options);
        problems(&check::run(
            suite,
            protocol,
            &mut wire,
            &config,
            &mut |_| {},
            &|| false,
        ))
    };
    let without = run(None);
    assert!(without.len() >= 8, "{without:#?}");
    let with = run(Some("s3cret"));
    let ids: Vec<&str> = with
        .iter()
        .filter_map(|text| text.split(' ').next())
        .collect();
    // Both are about public endpoints.
    assert_eq!(ids, ["onequery/6.1", "onequery/6.2"], "{with:#?}");
    let wrong = run(Some("guess"));
    let failure = "onequery/6.4 fail [] the auth token does not open the server info";
    assert!(wrong.contains(&failure.to_owned()), "{wrong:#?}");
}

/// Authors of servers that block or stop on malformed requests can test them on request.
#[test]
fn force_runs_what_a_family_of_servers_does_not_survive() {
    let suite = suite("minecraft-query");
    let protocol = registry::find(suite.protocol).unwrap();
    for family in ["BungeeCord", "PocketMine"] {
        let left_out = |is_forced| {
            let mut servers = faulty::minecraft().into_iter();
            let server = servers.find(|server| server.name == family).unwrap();
            let mut wire = server.wire();
            let mut config = config();
            config.is_forced = is_forced;
            let findings = check::run(suite, protocol, &mut wire, &config, &mut |_| {}, &|| false);
            let skipped = findings.iter().filter(|finding| {
                matches!(&finding.outcome, Outcome::NotApplicable(reason) if reason.contains("--force"))
            });
            skipped.count()
        };
        assert!(left_out(false) >= 3, "{family}");
        assert_eq!(left_out(true), 0, "{family}");
    }
}
