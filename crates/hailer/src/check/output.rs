//! Results of a check as text, JUnit XML, and annotations of GitHub Actions.
//!
//! Text has ANSI colors. Texts of servers are printable.

use super::client::{ClientRequirement, Judgement};
use super::{Cost, Finding, NO_SERVER, Outcome, Requirement, Severity, Suite};
use hailer_proto::Info;
use hailer_proto::model::printable;
use hailer_proto::wire::counted;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Maximum length of the observation of a probe, in characters.
const MAX_DETAIL: usize = 200;
/// Reason why a requirement has no result.
const NOT_RUN: &str = "not run, because the check was stopped";

/// The server under test.
#[derive(Debug)]
pub struct CheckedServer<'a> {
    /// Target as typed.
    pub target: &'a str,
    /// Its protocol.
    pub protocol: &'static Info,
    /// Its address.
    pub address: SocketAddr,
}

/// The results of a check.
#[derive(Debug)]
pub struct CheckResults<'a> {
    /// The server.
    pub server: &'a CheckedServer<'a>,
    /// Results so far.
    pub findings: &'a [Finding],
    /// Requirements without a result, because the check was stopped.
    pub not_run: Vec<&'static Requirement>,
    /// Least severity of a failure or deviation that makes the check fail. `None`: it never fails.
    pub fail_on: Option<Severity>,
}

impl CheckResults<'_> {
    /// Returns the failures and deviations that make the check fail.
    pub fn counted(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| {
            let severity = finding.severity();
            self.fail_on.is_some_and(|least| severity >= Some(least))
        })
    }

    /// Returns the number of results of each kind.
    pub fn counts(&self) -> ResultCounts {
        let mut counts = ResultCounts {
            not_run: self.not_run.len(),
            ..ResultCounts::default()
        };
        for finding in self.findings {
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

/// Number of results of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultCounts {
    /// Requirements that the server meets.
    pub pass: usize,
    /// Those from which it deviates.
    pub deviation: usize,
    /// Those that it does not meet.
    pub fail: usize,
    /// Those that were not tested.
    pub not_applicable: usize,
    /// Those without a result, because the check was stopped.
    pub not_run: usize,
}

/// Returns a text in one printable line. A cut line ends with `…`.
fn line(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(MAX_DETAIL - 1) {
        Some((end, last)) if end + last.len_utf8() < text.len() => {
            format!("{}…", text[..end].trim_end())
        }
        _ => text,
    }
}

/// Lists the requirements of suites.
pub fn list(out: &mut impl Write, suites: &[&Suite]) -> io::Result<()> {
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

/// Prints one result, unless no server replies: [`summary`] counts such results.
pub fn finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
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
    let detail = line(finding.outcome.detail());
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
            requirement.section()
        )?;
    }
    Ok(())
}

/// Prints the number of results of each kind, and the reason for the exit code 1.
pub fn summary(
    out: &mut impl Write,
    results: &CheckResults<'_>,
    has_bytes: bool,
) -> io::Result<()> {
    let counts = results.counts();
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
        let severity = results.fail_on.map_or("never", Severity::name);
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

/// Prints the results of clients.
pub fn clients(
    out: &mut impl Write,
    info: &Info,
    requests: usize,
    judgements: &[(&ClientRequirement, Judgement)],
) -> io::Result<()> {
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
                line(&judgement.detail),
                requirement.severity.name(),
                requirement.effect
            )?;
        }
    }
    writeln!(out, "\n{}", counted(requests, "request"))?;
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
pub fn junit(results: &CheckResults<'_>) -> String {
    let server = results.server;
    let counts = results.counts();
    let fail_on = results.fail_on.unwrap_or(Severity::Error);
    let fails = |finding: &Finding| {
        matches!(finding.outcome, Outcome::Fail(_)) || finding.severity() >= Some(fail_on)
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
                requirement.section()
            ),
            Outcome::NotApplicable(_) => {
                writeln!(out, "><skipped message=\"{detail}\"/></testcase>")
            }
            Outcome::Fail(_) | Outcome::Deviation { .. } => writeln!(
                out,
                "><failure type=\"{severity}\" message=\"{detail}\">{effect}. See {}</failure></testcase>",
                requirement.section()
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
pub fn github(out: &mut impl Write, results: &CheckResults<'_>) -> io::Result<()> {
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
                requirement.section()
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
