//! Results of `hailer check`: text, JSON, JUnit XML, annotations.

use super::{datagram, json, line};
use crate::args::FailOn;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use hailer::check::client::{ClientRequirement, Judgement};
use hailer::check::{Cost, Finding, NO_SERVER, Outcome, Requirement, Severity, Suite, Transfer};
use hailer::client::Datagram;
use hailer::client::Transcript;
use hailer::proto::model::printable;
use hailer::proto::wire::counted;
use hailer::proto::{DatagramContext, Deviation, Direction, Info};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;

/// Maximum width of the observation of a probe, in columns.
const DETAIL_WIDTH: usize = 200;

/// The server under test.
pub(crate) struct CheckedServer<'a> {
    pub(crate) target: &'a str,
    pub(crate) protocol: &'static Info,
    pub(crate) address: SocketAddr,
}

/// The results of a check.
pub(crate) struct CheckResults<'a> {
    pub(crate) server: &'a CheckedServer<'a>,
    pub(crate) findings: &'a [Finding],
    /// Requirements without a result, because the check was stopped.
    pub(crate) not_run: Vec<&'static Requirement>,
    pub(crate) fail_on: FailOn,
}

impl CheckResults<'_> {
    /// Returns the failures and deviations that make the exit code 1.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| {
            let severity = finding.severity();
            severity.is_some_and(|severity| self.fail_on.counts(severity))
        })
    }
}

/// Reason why a requirement has no result.
const NOT_RUN: &str = "not run, because the check was stopped";

/// A finding in JSON, as in schema/check-v1.json.
#[derive(Serialize)]
struct FindingLine {
    schema: &'static str,
    target: String,
    protocol: &'static str,
    address: String,
    counts: FindingCounts,
    results: Vec<ResultLine>,
}

#[derive(Default, Serialize)]
struct FindingCounts {
    pass: usize,
    deviation: usize,
    fail: usize,
    not_applicable: usize,
    not_run: usize,
}

impl FindingCounts {
    fn of(results: &CheckResults<'_>) -> Self {
        let mut counts = Self {
            not_run: results.not_run.len(),
            ..Self::default()
        };
        for finding in results.findings {
            match finding.outcome {
                Outcome::Pass(_) => counts.pass += 1,
                Outcome::Deviation { .. } => counts.deviation += 1,
                Outcome::Fail(_) => counts.fail += 1,
                Outcome::NotApplicable(_) => counts.not_applicable += 1,
            }
        }
        counts
    }
}

#[derive(Serialize)]
struct ResultLine {
    #[serde(flatten)]
    requirement: RequirementFields,
    result: &'static str,
    detail: String,
    deviations: Vec<DeviationLine>,
    measured: BTreeMap<&'static str, f64>,
    datagrams: Vec<DatagramLine>,
}

#[derive(Serialize)]
struct RequirementFields {
    id: &'static str,
    title: &'static str,
    section: &'static str,
    severity: &'static str,
    effect: &'static str,
}

impl From<&Requirement> for RequirementFields {
    fn from(requirement: &Requirement) -> Self {
        Self {
            id: requirement.id,
            title: requirement.title,
            section: requirement.section,
            severity: requirement.severity.name(),
            effect: requirement.effect,
        }
    }
}

#[derive(Serialize)]
struct DeviationLine {
    name: &'static str,
    help: &'static str,
}

impl From<&'static Deviation> for DeviationLine {
    fn from(deviation: &'static Deviation) -> Self {
        Self {
            name: deviation.name,
            help: deviation.help,
        }
    }
}

#[derive(Serialize)]
struct DatagramLine {
    at_ms: f64,
    socket: usize,
    direction: &'static str,
    hex: String,
}

impl DatagramLine {
    fn new(transfer: &Transfer, protocol: &Info) -> Self {
        let seen = match direction(transfer) {
            Direction::Request => DatagramContext::Request,
            Direction::Reply => DatagramContext::Reply,
        };
        Self {
            at_ms: (transfer.at.as_secs_f64() * 1e6).round() / 1e3,
            socket: transfer.socket,
            direction: datagram::way_name(direction(transfer)),
            hex: datagram::hex(protocol.id, &transfer.bytes, seen),
        }
    }
}

/// A requirement in JSON, as in schema/requirement-v1.json.
#[derive(Serialize)]
struct RequirementLine {
    schema: &'static str,
    protocol: &'static str,
    role: &'static str,
    #[serde(flatten)]
    requirement: RequirementFields,
    deviations: Vec<DeviationLine>,
    waits_s: Option<u64>,
    is_load: bool,
}

/// A requirement for clients in JSON, as in the same schema.
#[derive(Serialize)]
struct ClientRequirementLine {
    schema: &'static str,
    protocol: &'static str,
    role: &'static str,
    id: String,
    title: &'static str,
    severity: &'static str,
    effect: &'static str,
}

fn direction(transfer: &Transfer) -> Direction {
    if transfer.is_sent {
        Direction::Request
    } else {
        Direction::Reply
    }
}

/// Lists the requirements of suites.
pub(crate) fn list(out: &mut impl Write, suites: &[&Suite]) -> anyhow::Result<()> {
    for suite in suites {
        writeln!(out, "\x1b[1m{}\x1b[0m", suite.protocol)?;
        for requirement in suite.requirements {
            let cost = match requirement.cost {
                Cost::Low => String::new(),
                Cost::Wait(seconds) => format!(" (waits up to {seconds} s)"),
                Cost::Load => " (only with --load)".into(),
            };
            writeln!(
                out,
                "  {}  \x1b[2m{:7}\x1b[0m  {}{cost}",
                requirement.id,
                requirement.severity.name(),
                requirement.title
            )?;
        }
        writeln!(out, "  Never sent: {}", suite.never_sent)?;
        if let Some(client) = suite.client {
            writeln!(out, "  With --client:")?;
            for requirement in client.all() {
                writeln!(
                    out,
                    "  {}/client.{}  \x1b[2m{:7}\x1b[0m  {}",
                    suite.protocol,
                    requirement.number,
                    requirement.severity.name(),
                    requirement.title
                )?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Lists the requirements of suites, one line of JSON each.
pub(crate) fn list_json(out: &mut impl Write, suites: &[&'static Suite]) -> anyhow::Result<()> {
    for suite in suites {
        for requirement in suite.requirements {
            let line = RequirementLine {
                schema: "hailer/requirement/1",
                protocol: suite.protocol,
                role: "server",
                requirement: requirement.into(),
                deviations: requirement
                    .deviations
                    .iter()
                    .map(|&case| case.into())
                    .collect(),
                waits_s: match requirement.cost {
                    Cost::Wait(seconds) => Some(seconds),
                    _ => None,
                },
                is_load: requirement.cost == Cost::Load,
            };
            writeln!(out, "{}", json::line(&line)?)?;
        }
        for requirement in suite.client.into_iter().flat_map(|client| client.all()) {
            let line = ClientRequirementLine {
                schema: "hailer/requirement/1",
                protocol: suite.protocol,
                role: "client",
                id: format!("{}/client.{}", suite.protocol, requirement.number),
                title: requirement.title,
                severity: requirement.severity.name(),
                effect: requirement.effect,
            };
            writeln!(out, "{}", json::line(&line)?)?;
        }
    }
    Ok(())
}

/// Prints one result, unless no server replies: [`summary`] counts such results.
pub(crate) fn finding(
    out: &mut impl Write,
    finding: &Finding,
    server: &CheckedServer<'_>,
    has_bytes: bool,
) -> std::io::Result<()> {
    if finding.is_of_no_server() {
        return Ok(());
    }
    let requirement = finding.requirement;
    let (word, color) = match finding.outcome {
        Outcome::Pass(_) => ("pass", "32"),
        Outcome::Deviation { .. } => ("deviation", "33"),
        Outcome::Fail(_) => ("FAIL", "1;31"),
        Outcome::NotApplicable(_) => ("n/a", "2"),
    };
    let detail = line(finding.outcome.detail(), DETAIL_WIDTH);
    writeln!(
        out,
        "\x1b[{color}m{word:9}\x1b[0m  {}  {}: \x1b[2m{detail}\x1b[0m",
        requirement.id, requirement.title
    )?;
    for deviation in finding.outcome.deviations() {
        writeln!(
            out,
            "           \x1b[33m{}\x1b[0m: {}",
            deviation.name, deviation.help
        )?;
    }
    if let Some(severity) = finding.severity() {
        writeln!(
            out,
            "           {}: {}. See {}",
            severity.name(),
            finding.effect().1,
            requirement.section
        )?;
    }
    if has_bytes {
        let transcript = Transcript {
            datagrams: finding.transfers.iter().map(shown).collect(),
            ..Transcript::new(server.protocol, server.address)
        };
        datagram::exchange(out, &transcript)?;
    }
    Ok(())
}

fn shown(transfer: &Transfer) -> Datagram {
    Datagram {
        direction: direction(transfer),
        at: transfer.at,
        bytes: transfer.bytes.clone(),
    }
}

/// Prints the number of results of each kind, and the reason for the exit code 1.
pub(crate) fn summary(
    out: &mut impl Write,
    results: &CheckResults<'_>,
    has_bytes: bool,
) -> std::io::Result<()> {
    let counts = FindingCounts::of(results);
    let not_run = match counts.not_run {
        0 => String::new(),
        number => format!(", {number} not run"),
    };
    let is_down = results.findings.iter().any(Finding::is_of_no_server);
    let reason = if is_down {
        format!(": {NO_SERVER}")
    } else {
        String::new()
    };
    writeln!(
        out,
        "\n{} passed, {}, {}, {} not applicable{reason}{not_run}",
        counts.pass,
        counted(counts.deviation, "deviation"),
        counted(counts.fail, "failure"),
        counts.not_applicable
    )?;
    let counted: Vec<&str> = results
        .counted()
        .map(|finding| finding.requirement.id)
        .collect();
    if !counted.is_empty() && counts.not_run == 0 && !is_down {
        let value = results.fail_on.to_possible_value();
        let severity = value.as_ref().map_or("", PossibleValue::get_name);
        let counted = counted.join(", ");
        writeln!(
            out,
            "Exit code 1, because --fail-on {severity} counts {counted}"
        )?;
    }
    match shown_first(results.findings) {
        Some(finding) if !has_bytes && !is_down => writeln!(
            out,
            "--only {} --raw shows the bytes",
            finding.requirement.id
        ),
        _ => Ok(()),
    }
}

/// Returns the first failure, or else the worst deviation.
fn shown_first(findings: &[Finding]) -> Option<&Finding> {
    let is_failure = |finding: &&Finding| matches!(finding.outcome, Outcome::Fail(_));
    let deviations = findings
        .iter()
        .filter(|finding| finding.severity().is_some());
    // The last maximum of the reversed order is the first one.
    let worst = deviations.rev().max_by_key(|finding| finding.severity());
    findings.iter().find(is_failure).or(worst)
}

/// Prints all results as one line of JSON.
pub(crate) fn json(out: &mut impl Write, results: &CheckResults<'_>) -> anyhow::Result<()> {
    let server = results.server;
    let lines = results.findings.iter().map(|finding| ResultLine {
        requirement: RequirementFields {
            severity: finding.effect().0.name(),
            effect: finding.effect().1,
            ..finding.requirement.into()
        },
        result: finding.outcome.name(),
        detail: finding.outcome.detail().into(),
        deviations: finding
            .outcome
            .deviations()
            .iter()
            .map(|&case| case.into())
            .collect(),
        measured: finding
            .measured
            .iter()
            .map(|figure| (figure.name, figure.value))
            .collect(),
        datagrams: finding
            .transfers
            .iter()
            .map(|transfer| DatagramLine::new(transfer, server.protocol))
            .collect(),
    });
    let line = FindingLine {
        schema: "hailer/check/1",
        target: server.target.into(),
        protocol: server.protocol.id,
        address: server.address.to_string(),
        counts: FindingCounts::of(results),
        results: lines.collect(),
    };
    writeln!(out, "{}", json::line(&line)?)?;
    Ok(())
}

/// Prints the results of clients.
pub(crate) fn clients(
    out: &mut impl Write,
    info: &Info,
    requests: usize,
    judgements: &[(&ClientRequirement, Judgement)],
) -> anyhow::Result<()> {
    for (requirement, judgement) in judgements {
        let (word, color) = match judgement.result() {
            "pass" => ("pass", "32"),
            "fail" => ("FAIL", "1;31"),
            _ => ("n/a", "2"),
        };
        let seen = match judgement.met + judgement.missed {
            0 => "no request has shown it".to_owned(),
            all => format!("{} of {all}", judgement.met),
        };
        writeln!(
            out,
            "\x1b[{color}m{word:9}\x1b[0m  {}/client.{}  {}: \x1b[2m{seen}\x1b[0m",
            info.id, requirement.number, requirement.title
        )?;
        if judgement.missed > 0 {
            writeln!(
                out,
                "           {}\n           {}: {}",
                line(&judgement.detail, DETAIL_WIDTH),
                requirement.severity.name(),
                requirement.effect
            )?;
        }
    }
    writeln!(out, "\n{}", counted(requests, "request"))?;
    Ok(())
}

/// A result of clients in JSON, as in schema/check-client-v1.json.
#[derive(Serialize)]
struct ClientLine {
    schema: &'static str,
    protocol: &'static str,
    address: String,
    requests: usize,
    results: Vec<ClientResult>,
}

#[derive(Serialize)]
struct ClientResult {
    id: String,
    title: &'static str,
    severity: &'static str,
    effect: &'static str,
    result: &'static str,
    detail: String,
    met: u32,
    missed: u32,
}

/// Prints the results of clients as one line of JSON.
pub(crate) fn clients_json(
    out: &mut impl Write,
    info: &'static Info,
    address: SocketAddr,
    requests: usize,
    judgements: &[(&ClientRequirement, Judgement)],
) -> anyhow::Result<()> {
    let results = judgements
        .iter()
        .map(|(requirement, judgement)| ClientResult {
            id: format!("{}/client.{}", info.id, requirement.number),
            title: requirement.title,
            severity: requirement.severity.name(),
            effect: requirement.effect,
            result: judgement.result(),
            detail: judgement.detail.clone(),
            met: judgement.met,
            missed: judgement.missed,
        });
    let line = ClientLine {
        schema: "hailer/check-client/1",
        protocol: info.id,
        address: address.to_string(),
        requests,
        results: results.collect(),
    };
    writeln!(out, "{}", json::line(&line)?)?;
    Ok(())
}

/// Escapes a text for XML. Characters that XML 1.0 does not have are left out.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            other => out.push(other),
        }
    }
    out
}

/// Returns the names of the deviations and the observation of the probe.
fn described(finding: &Finding) -> String {
    let names: Vec<&str> = finding
        .outcome
        .deviations()
        .iter()
        .map(|deviation| deviation.name)
        .collect();
    match names.as_slice() {
        [] => finding.outcome.detail().to_owned(),
        names => format!("{}: {}", names.join(", "), finding.outcome.detail()),
    }
}

/// Returns all results as JUnit XML. Failures and the deviations that `--fail-on` counts are tests that
/// fail; with `never`, deviations count as with `error`. Other deviations are tests that pass, with
/// an output. Requirements that were not run are skipped tests.
pub(crate) fn junit(results: &CheckResults<'_>) -> String {
    let server = results.server;
    let counts = FindingCounts::of(results);
    let fail_on = results.fail_on.min(FailOn::Error);
    let fails = |finding: &Finding| {
        matches!(finding.outcome, Outcome::Fail(_))
            || finding
                .severity()
                .is_some_and(|severity| fail_on.counts(severity))
    };
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{} {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
        server.protocol.id,
        xml(server.target),
        results.findings.len() + counts.not_run,
        results
            .findings
            .iter()
            .filter(|finding| fails(finding))
            .count(),
        counts.not_applicable + counts.not_run
    );
    let start = |out: &mut String, requirement: &Requirement| {
        let _ = write!(
            out,
            "    <testcase classname=\"{}\" name=\"{} {}\"",
            server.protocol.id,
            requirement.id,
            xml(requirement.title)
        );
    };
    for finding in results.findings {
        let requirement = finding.requirement;
        let (severity, effect) = finding.effect();
        let [severity, effect] = [severity.name(), &xml(effect)];
        let detail = xml(&described(finding));
        start(&mut out, requirement);
        let _ = match finding.outcome {
            Outcome::Pass(_) => {
                writeln!(out, "><system-out>{detail}</system-out></testcase>")
            }
            Outcome::Deviation { .. } if !fails(finding) => writeln!(
                out,
                "><system-out>{detail}. {severity}: {effect}. See {}</system-out></testcase>",
                requirement.section
            ),
            Outcome::NotApplicable(_) => {
                writeln!(out, "><skipped message=\"{detail}\"/></testcase>")
            }
            Outcome::Fail(_) | Outcome::Deviation { .. } => writeln!(
                out,
                "><failure type=\"{severity}\" message=\"{detail}\">{effect}. See {}</failure></testcase>",
                requirement.section
            ),
        };
    }
    for requirement in &results.not_run {
        start(&mut out, requirement);
        let _ = writeln!(out, "><skipped message=\"{NOT_RUN}\"/></testcase>");
    }
    out + "  </testsuite>\n</testsuites>\n"
}

/// Escapes a text for an annotation of GitHub Actions.
fn annotation(text: &str) -> String {
    printable(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Prints failures and deviations as annotations of GitHub Actions, and whether the check was
/// stopped.
pub(crate) fn github(out: &mut impl Write, results: &CheckResults<'_>) -> std::io::Result<()> {
    for finding in results.findings {
        let requirement = finding.requirement;
        let level = match finding.severity() {
            None => continue,
            Some(Severity::Note) => "notice",
            Some(severity) => severity.name(),
        };
        writeln!(
            out,
            "::{level} title={}::{}",
            requirement.id,
            annotation(&format!(
                "{}: {}. {}. See {}",
                requirement.title,
                described(finding),
                finding.effect().1,
                requirement.section
            ))
        )?;
    }
    let count = results.not_run.len();
    if count > 0 {
        let all = results.findings.len() + count;
        let id = results.server.protocol.id;
        writeln!(
            out,
            "::warning title={id}::{count} of {all} requirements were {NOT_RUN}"
        )?;
    }
    Ok(())
}
