//! Events and sessions, as pages show them.

use crate::history::{Gap, PlayerSession};
use crate::sample::{Event, EventKind, Millis, ValueChange};
use crate::web::page::row::Time;
use crate::web::show::{self, NOTHING, ShortText};
use compact_str::CompactString;
use std::collections::HashSet;

/// Maximum length of an event's text, and of a player name, in characters.
const MAX_TEXT_CHARS: usize = 120;

const MAX_NAME_CHARS: usize = 40;

/// Keyword of gaps in lists of events.
pub(crate) const GAP: &str = "gap";

/// An event, as the page shows it.
pub(crate) struct EventView {
    pub(crate) word: &'static str,
    pub(crate) at_ms: Millis,
    pub(crate) at: Time,
    pub(crate) what: &'static str,
    pub(crate) text: ShortText,
}

/// A session of a player, as the page shows it.
pub(crate) struct SessionView {
    pub(crate) player: ShortText,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) played: String,
}

/// Returns events with the gaps between them, the newest first.
pub(super) fn with_gaps<'a>(
    events: &'a [Event],
    gaps: &'a [Gap],
    now: Millis,
) -> impl Iterator<Item = EventView> + 'a {
    let mut gaps = gaps.iter().peekable();
    let mut events = events.iter().peekable();
    std::iter::from_fn(move || {
        let at = events.peek().map(|event| event.at);
        match gaps.next_if(|gap| at.is_none_or(|at| gap.from >= at)) {
            Some(gap) => Some(EventView::of_gap(*gap, now)),
            None => events.next().map(|event| EventView::of(event, now)),
        }
    })
}

/// Returns the sessions, and whether each continues: the newest one of a player who is online. Its
/// stored end is outdated and becomes `now`.
pub(super) fn continue_sessions(
    sessions: Vec<PlayerSession>,
    online: &[CompactString],
    now: Millis,
) -> Vec<(PlayerSession, bool)> {
    let online: HashSet<&str> = online.iter().map(CompactString::as_str).collect();
    let mut seen = HashSet::new();
    let with_end = |mut session: PlayerSession| {
        let is_newest = seen.insert(session.player.clone());
        let is_open = is_newest && online.contains(&*session.player);
        if is_open {
            session.last = now;
        }
        (session, is_open)
    };
    sessions.into_iter().map(with_end).collect()
}

impl EventView {
    pub(crate) fn of_gap(gap: Gap, now: Millis) -> Self {
        let text = format!(
            "no samples until {} ({})",
            show::when(gap.to, gap.from),
            show::length(gap.to - gap.from)
        );
        Self {
            word: GAP,
            at_ms: gap.from,
            at: Time::of(gap.from, now),
            what: "Not monitored",
            text: show::cut(&text, MAX_TEXT_CHARS),
        }
    }

    pub(crate) fn of(event: &Event, now: Millis) -> Self {
        let difference = |what: &ValueChange| {
            let side = |side: &Option<String>| {
                side.as_deref()
                    .filter(|side| !side.trim().is_empty())
                    .unwrap_or(NOTHING)
                    .to_owned()
            };
            show::cut(
                &format!("{} → {}", side(&what.from), side(&what.to)),
                MAX_TEXT_CHARS,
            )
        };
        let (what, text) = match &event.kind {
            EventKind::Up => ("Up", ShortText::default()),
            EventKind::Down { reason } if reason == "silence" => {
                ("Down", show::cut("no answer", MAX_TEXT_CHARS))
            }
            EventKind::Down { reason } => {
                ("Down", show::cut(&reason.replace('-', " "), MAX_TEXT_CHARS))
            }
            EventKind::Flapping => (
                "Flapping",
                show::cut(
                    "alternates between up and down; only times of 3 min or more are listed",
                    MAX_TEXT_CHARS,
                ),
            ),
            EventKind::Steady => ("Stable again", ShortText::default()),
            EventKind::Version(what) => ("Version", difference(what)),
            EventKind::Map(what) => ("Map", difference(what)),
            EventKind::Motd(what) => ("MOTD", difference(what)),
            EventKind::Address(what) => ("Address", difference(what)),
            EventKind::Protocol(what) => ("Protocol", difference(what)),
        };
        Self {
            word: event.kind.word(),
            at_ms: event.at,
            at: Time::of(event.at, now),
            what,
            text,
        }
    }
}

impl SessionView {
    pub(super) fn of(session: &PlayerSession, is_open: bool, now: Millis) -> Self {
        Self {
            player: show::cut(&session.player, MAX_NAME_CHARS),
            from: show::when(session.first, now),
            to: if is_open {
                "now".into()
            } else {
                show::when(session.last, now)
            },
            played: show::length(session.last - session.first),
        }
    }
}
