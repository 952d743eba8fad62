//! Conformance tests: numbered requirements of a protocol, each with a probe.
//!
//! ```text
//!   Suite ──► Requirement ──► probe(&mut Probe) ──► Outcome     (one file for each protocol)
//!                                   │
//!                                 Wire: SocketWire (live server) or MemoryWire (tests)
//! ```
//!
//! A probe composes its own bytes, so that a mistake of Hailer's client cannot hide one of the
//! server. It only sends to the server that the user named, at most one datagram or connection for
//! each [`Suite::interval`]. It never sends what is known to crash servers or to get the sender
//! banned; [`Suite::never_sent`] names that.
//!
//! [`client`] is the other direction: it responds, and reports what a client does wrong. [`output`]
//! formats results.
//!
//! May import: `crate::respond`, `crate::support`, `hailer_proto`.

mod a2s;
mod challenge;
pub mod client;
mod load;
mod memory;
mod minecraft_bedrock;
mod minecraft_query;
mod minecraft_status;
mod onequery;
pub mod output;
mod probe;
mod quake3;
mod ugp;
mod wire;

pub use memory::MemoryWire;
pub use probe::Probe;
pub use wire::{Origin, Received, SocketId, SocketWire, Wire};

use challenge::Challenged;
use hailer_proto::wire::{Error as ParseError, Notes, counted};
use hailer_proto::{Deviation, Protocol, Secret, deviations};
use probe::{baseline, found};
use std::fmt;
use std::time::Duration;

/// Requirements of one protocol.
#[derive(Debug)]
pub struct Suite {
    /// Id of the protocol.
    pub protocol: &'static str,
    /// Smallest time between two datagrams or connections. Servers with rate limits answer then.
    pub interval: Duration,
    /// Datagrams that the probes avoid, and the reason: sentences.
    pub never_sent: &'static str,
    /// All requirements, by number. The first is the one that all others build on.
    pub requirements: &'static [Requirement],
    /// Deviations that do less harm than a failure of their requirement. Those that are not named here
    /// or in [`MILD`] have its effect.
    pub mild: &'static [MildDeviation],
    /// How clients of the protocol are tested, if they can be.
    pub client: Option<&'static client::ClientSuite>,
}

/// All suites, in the order of the registry.
pub static SUITES: &[&Suite] = &[
    &minecraft_query::SUITE,
    &ugp::SUITE,
    &onequery::SUITE,
    &minecraft_status::SUITE,
    &minecraft_bedrock::SUITE,
    &a2s::SUITE,
    &quake3::SUITE,
];

/// Returns the suite of a protocol.
pub fn suite(protocol: &dyn Protocol) -> Option<&'static Suite> {
    let id = protocol.info().id;
    SUITES.iter().copied().find(|suite| suite.protocol == id)
}

/// A deviation whose effect is milder than that of a failure.
#[derive(Debug)]
pub struct MildDeviation {
    /// Name of the deviation.
    pub name: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// Its practical effect: one sentence without a final stop.
    pub effect: &'static str,
}

impl MildDeviation {
    const fn effect(mut self, effect: &'static str) -> Self {
        self.effect = effect;
        self
    }
}

const fn mild(name: &'static str, severity: Severity) -> MildDeviation {
    MildDeviation {
        name,
        severity,
        effect: "",
    }
}

/// Returns a deviation that few clients notice. Its effect follows as a method.
const fn mild_note(name: &'static str) -> MildDeviation {
    mild(name, Severity::Note)
}

/// Returns a deviation that matters to some clients. Its effect follows as a method.
const fn mild_warning(name: &'static str) -> MildDeviation {
    mild(name, Severity::Warning)
}

/// Mild deviations of all suites.
pub static MILD: &[MildDeviation] = &[
    mild_note("strict-rate-limit")
        .effect("Several server lists behind one address get no reply to some of their requests"),
    mild_note("trailing-bytes").effect("Clients that compare the length reject the message"),
];

/// A numbered requirement.
pub struct Requirement {
    /// Protocol and number, such as `minecraft-query/5.1`.
    pub id: &'static str,
    /// Duty of a server: one sentence without a final stop.
    pub title: &'static str,
    /// Section of the spec page of the protocol, such as `#7.2`.
    section: &'static str,
    /// Severity of a failure.
    pub severity: Severity,
    /// Practical effect of a failure: one sentence without a final stop.
    pub effect: &'static str,
    /// Deviations that this probe tests for. The layouts of other requirements do not report them.
    pub deviations: &'static [&'static Deviation],
    /// Cost of the probe.
    pub cost: Cost,
    probe: ProbeFn,
}

/// Tests a requirement.
type ProbeFn = fn(&mut Probe<'_>) -> Verdict;

/// Returns a requirement whose failure is an error. Its title and effect follow as methods; it has no
/// deviations and costs a few datagrams unless other methods follow.
const fn error(id: &'static str, section: &'static str, probe: ProbeFn) -> Requirement {
    Requirement::new(id, section, Severity::Error, probe)
}

/// As [`error`], for a failure that is a warning.
const fn warning(id: &'static str, section: &'static str, probe: ProbeFn) -> Requirement {
    Requirement::new(id, section, Severity::Warning, probe)
}

/// As [`error`], for a failure that is a note.
const fn note(id: &'static str, section: &'static str, probe: ProbeFn) -> Requirement {
    Requirement::new(id, section, Severity::Note, probe)
}

/// Returns the requirement that a server survives 50 requests/s. Its title follows as a method.
const fn survives(id: &'static str, section: &'static str, probe: ProbeFn) -> Requirement {
    error(id, section, probe)
        .effect("A few server lists together take queries or the game down")
        .deviations(RATE_LIMITED)
        .load()
}

impl Requirement {
    const fn new(
        id: &'static str,
        section: &'static str,
        severity: Severity,
        probe: ProbeFn,
    ) -> Self {
        Self {
            id,
            title: "",
            section,
            severity,
            effect: "",
            deviations: &[],
            cost: Cost::Low,
            probe,
        }
    }

    const fn title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    const fn effect(mut self, effect: &'static str) -> Self {
        self.effect = effect;
        self
    }

    const fn deviations(mut self, deviations: &'static [&'static Deviation]) -> Self {
        self.deviations = deviations;
        self
    }

    /// Sets the longest wait of the probe, in seconds.
    const fn waits(mut self, seconds: u64) -> Self {
        self.cost = Cost::Wait(seconds);
        self
    }

    /// Runs the probe only on request.
    const fn load(mut self) -> Self {
        self.cost = Cost::Load;
        self
    }

    /// Returns the section of the spec page, such as `spec/minecraft-query.md#7.2`.
    pub fn section(&self) -> String {
        let protocol = self.id.split('/').next().unwrap_or_default();
        format!("spec/{protocol}.md{}", self.section)
    }

    /// Returns whether this is the requirement or group `id`, such as `a2s/2.1`, `a2s/2` or `a2s`.
    pub fn is_of(&self, id: &str) -> bool {
        let rest = self.id.strip_prefix(id.trim_end_matches(['.', '/']));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
    }

    /// Returns whether the requirement tests for a deviation.
    fn tests(&self, met: &Deviation) -> bool {
        self.deviations.iter().any(|tested| tested.name == met.name)
    }
}

impl Suite {
    /// Returns the requirements that [`run`] tests: those of `only`, or all if it is empty, and the
    /// first one, on which the others build.
    pub fn selected(&self, only: &[String]) -> impl Iterator<Item = &'static Requirement> {
        let all = self.requirements.iter().enumerate();
        let selected = all.filter(move |(index, requirement)| {
            *index == 0 || only.is_empty() || only.iter().any(|id| requirement.is_of(id))
        });
        selected.map(|(_, requirement)| requirement)
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requirement({})", self.id)
    }
}

/// Severity of a failed requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A detail that few clients notice.
    Note,
    /// Some clients show wrong data, or the server can be misused within limits.
    Warning,
    /// Many clients fail, or the server can be misused.
    Error,
}

impl Severity {
    /// Returns `note`, `warning` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Cost of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A few datagrams.
    Low,
    /// Waiting, at most for this number of seconds.
    Wait(u64),
    /// 50 requests/s for 5 s. Only on request.
    Load,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server meets the requirement. The text has what was measured.
    Pass(String),
    /// The server deviates in a way that has a name.
    Deviation {
        /// The deviations.
        found: Vec<&'static Deviation>,
        /// Observation.
        detail: String,
    },
    /// The server does not meet the requirement. The text has what was seen.
    Fail(String),
    /// The requirement was not tested. The text has the reason.
    NotApplicable(String),
}

impl Outcome {
    /// Returns `pass`, `deviation`, `fail` or `not-applicable`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Deviation { .. } => "deviation",
            Self::Fail(_) => "fail",
            Self::NotApplicable(_) => "not-applicable",
        }
    }

    /// Returns the text.
    pub fn detail(&self) -> &str {
        match self {
            Self::Pass(text) | Self::Fail(text) | Self::NotApplicable(text) => text,
            Self::Deviation { detail, .. } => detail,
        }
    }

    /// Returns the deviations, if there are any.
    pub fn deviations(&self) -> &[&'static Deviation] {
        match self {
            Self::Deviation { found, .. } => found,
            _ => &[],
        }
    }
}

/// Result of a probe. `Err` is an outcome that ends the probe early.
type Verdict = Result<Outcome, Outcome>;

/// Shorthands for the ends of a probe.
fn pass(text: impl Into<String>) -> Verdict {
    Ok(Outcome::Pass(text.into()))
}

fn fail<T>(text: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Fail(text.into()))
}

fn not_applicable<T>(text: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::NotApplicable(text.into()))
}

fn deviates(of: &'static Deviation, text: impl Into<String>) -> Verdict {
    Ok(Outcome::Deviation {
        found: vec![of],
        detail: text.into(),
    })
}

/// Returns a pass or a failure with the same text.
fn pass_if(is_met: bool, text: String) -> Verdict {
    if is_met { pass(text) } else { fail(text) }
}

/// Returns a pass or a deviation with the same text.
fn pass_or(is_met: bool, otherwise: &'static Deviation, text: String) -> Verdict {
    if is_met {
        pass(text)
    } else {
        deviates(otherwise, text)
    }
}

/// Ends a probe with a failure unless a condition is met.
fn ensure(is_met: bool, problem: &str) -> Result<(), Outcome> {
    if is_met { Ok(()) } else { fail(problem) }
}

/// Ends a probe without a result unless it applies.
fn applies(is_so: bool, reason: &str) -> Result<(), Outcome> {
    if is_so {
        Ok(())
    } else {
        not_applicable(reason)
    }
}

/// A reply that cannot be read fails its requirement.
impl From<ParseError> for Outcome {
    fn from(error: ParseError) -> Self {
        Self::Fail(error.to_string())
    }
}

// Deviations of servers that the probes of several protocols report. They are behavior over several
// datagrams, so no parser sees them.
deviations! {
    static;
    BOUND_TO_PORT "token-bound-to-port" "a challenge token is valid only for the port that got it";
    LONG_LIFETIME "token-lives-long" "a challenge token is valid for longer than the protocol's lifetime, perhaps until a restart";
    FRAGMENTED "fragmented-reply" "a datagram is longer than 1400 bytes, so the network splits it into fragments, which many routers drop";
    RATE_LIMIT "strict-rate-limit" "fewer than half of the requests at 50 requests/s get a reply";
}

/// The deviation of servers with a rate limit.
const RATE_LIMITED: &[&Deviation] = &[&RATE_LIMIT];

/// Why nothing else is tested after the first requirement has failed.
pub const NO_SERVER: &str = "the server does not answer the first requirement";

/// Options of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckConfig {
    /// Longest wait for a reply.
    pub timeout: Duration,
    /// Skips probes that wait, such as those for the lifetime of a token.
    pub is_quick: bool,
    /// Runs the probes that send 50 requests/s.
    pub has_load: bool,
    /// Runs also what software of the server's family is known not to survive.
    pub is_forced: bool,
    /// Auth token, for protocols that use one.
    pub auth_token: Option<Secret>,
    /// Keeps all bytes in the findings.
    pub has_bytes: bool,
    /// Runs only these [requirements or groups](Requirement::is_of). Empty: all.
    pub only: Vec<String>,
    /// Host as typed, for protocols that send it.
    pub host: String,
    /// Port of the server, for protocols that send it.
    pub port: u16,
    /// Whether the server is on this machine: such an address cannot be forged.
    pub is_loopback: bool,
    /// Number that all random bytes derive from.
    pub seed: u64,
}

impl Default for CheckConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            is_quick: false,
            has_load: false,
            is_forced: false,
            auth_token: None,
            has_bytes: false,
            only: Vec::new(),
            host: String::new(),
            port: 0,
            is_loopback: false,
            seed: 0,
        }
    }
}

/// Result of one requirement.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The requirement.
    pub requirement: &'static Requirement,
    /// Its result.
    pub outcome: Outcome,
    /// Numbers that the probe measured, such as the amplification.
    pub measured: Vec<Measurement>,
    /// Bytes sent and received, if [`CheckConfig::has_bytes`] is set.
    pub transfers: Vec<Transfer>,
}

impl Finding {
    /// Returns whether the requirement was left out because no server replies.
    pub fn is_of_no_server(&self) -> bool {
        matches!(&self.outcome, Outcome::NotApplicable(reason) if reason == NO_SERVER)
    }

    /// Returns the severity of a failure or deviation. `None` for the other outcomes.
    pub fn severity(&self) -> Option<Severity> {
        match self.outcome {
            Outcome::Fail(_) | Outcome::Deviation { .. } => Some(self.effect().0),
            Outcome::Pass(_) | Outcome::NotApplicable(_) => None,
        }
    }

    /// Returns the severity and the practical effect: those of the worst deviation if each one found
    /// has its own, else those of the requirement.
    pub fn effect(&self) -> (Severity, &'static str) {
        let suite = SUITES
            .iter()
            .find(|suite| self.requirement.is_of(suite.protocol));
        let mild = suite.map_or(&[][..], |suite| suite.mild);
        let found = self.outcome.deviations().iter();
        let own = found.map(|met| mild.iter().chain(MILD).find(|mild| mild.name == met.name));
        let worst = own.reduce(|worst, next| {
            let (worst, next) = (worst?, next?);
            Some(if next.severity > worst.severity {
                next
            } else {
                worst
            })
        });
        match worst.flatten() {
            Some(mild) => (mild.severity, mild.effect),
            None => (self.requirement.severity, self.requirement.effect),
        }
    }
}

/// A measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Name, with the unit at its end.
    pub name: &'static str,
    /// The number.
    pub value: f64,
}

/// Bytes sent or received by a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Time since the start of the check.
    pub at: Duration,
    /// Number of the socket within the probe, from 0.
    pub socket: usize,
    /// Whether the bytes were sent, and not received.
    pub is_sent: bool,
    /// The bytes. On a stream: one write or read.
    pub bytes: Vec<u8>,
}

/// Progress of a check.
#[derive(Debug)]
pub enum Event<'a> {
    /// The probe of a requirement starts.
    Started(&'static Requirement),
    /// The probe waits.
    Waiting {
        /// Time left, at most.
        left: Duration,
        /// Event that the probe waits for, as in `the token expires`.
        reason: &'static str,
    },
    /// The requirement has a result.
    Finished(&'a Finding),
}

/// Tests all requirements of a suite, one after the other. `is_stopped` is called at least once per
/// second: when it returns `true`, the results so far are returned.
pub fn run(
    suite: &'static Suite,
    protocol: &'static dyn Protocol,
    wire: &mut dyn Wire,
    config: &CheckConfig,
    on_event: &mut dyn FnMut(Event<'_>),
    is_stopped: &dyn Fn() -> bool,
) -> Vec<Finding> {
    let mut facts = probe::Facts::default();
    let mut findings: Vec<Finding> = Vec::new();
    for (index, requirement) in suite.selected(&config.only).enumerate() {
        if is_stopped() {
            break;
        }
        on_event(Event::Started(requirement));
        let skipped = match requirement.cost {
            _ if facts.is_down => Some(NO_SERVER),
            Cost::Wait(_) if config.is_quick => Some("it waits, and the check is quick"),
            Cost::Load if !config.has_load => Some("it sends 50 requests/s, only on request"),
            _ => None,
        };
        let mut finding = Finding {
            requirement,
            outcome: Outcome::NotApplicable(skipped.unwrap_or_default().into()),
            measured: Vec::new(),
            transfers: Vec::new(),
        };
        if skipped.is_none() {
            let mut probe = Probe {
                suite,
                requirement,
                protocol,
                wire,
                config,
                facts: &mut facts,
                on_event,
                is_stopped,
                measured: Vec::new(),
                transfers: Vec::new(),
                is_refused: false,
            };
            let verdict = (requirement.probe)(&mut probe);
            finding.measured = probe.measured;
            finding.transfers = probe.transfers;
            finding.outcome = verdict.unwrap_or_else(|early| early);
            wire.close_all();
            // A probe that ended early has no result.
            if is_stopped() {
                break;
            }
        }
        if index == 0 && matches!(finding.outcome, Outcome::Fail(_)) {
            facts.is_down = true;
        }
        on_event(Event::Finished(&finding));
        findings.push(finding);
    }
    findings
}
