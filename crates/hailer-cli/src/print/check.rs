//! Results of `hailer check` as JSON, and their datagrams. [`output`](hailer::check::output) has the other
//! formats.

use super::{datagram, json};
use hailer::check::client::{ClientRequirement, Judgement};
use hailer::check::output::{CheckResults, CheckedServer, ResultCounts};
use hailer::check::{Cost, Finding, Requirement, Suite, Transfer};
use hailer::client::{Datagram, Transcript};
use hailer::proto::{DatagramContext, Deviation, Direction, Info};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;

/// A finding in JSON, as in schema/check-v1.json.
#[derive(Serialize)]
struct FindingLine {
    schema: &'static str,
    target: String,
    protocol: &'static str,
    address: String,
    counts: ResultCounts,
    results: Vec<ResultLine>,
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
    section: String,
    severity: &'static str,
    effect: &'static str,
}

impl From<&Requirement> for RequirementFields {
    fn from(requirement: &Requirement) -> Self {
        Self {
            id: requirement.id,
            title: requirement.title,
            section: requirement.section(),
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

/// Prints the datagrams of a result in hexadecimal, with an explanation.
pub(crate) fn datagrams(
    out: &mut impl Write,
    finding: &Finding,
    server: &CheckedServer<'_>,
) -> std::io::Result<()> {
    let transcript = Transcript {
        datagrams: finding.transfers.iter().map(shown).collect(),
        ..Transcript::new(server.protocol, server.address)
    };
    datagram::exchange(out, &transcript)
}

fn shown(transfer: &Transfer) -> Datagram {
    Datagram {
        direction: direction(transfer),
        at: transfer.at,
        bytes: transfer.bytes.clone(),
    }
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
        counts: results.counts(),
        results: lines.collect(),
    };
    writeln!(out, "{}", json::line(&line)?)?;
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
