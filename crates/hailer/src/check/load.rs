//! Behavior at 50 requests/s: bounded, and only on request.

use super::probe::HEADERS;
use super::{
    Outcome, Probe, RATE_LIMIT, Received, SocketId, Verdict, counted, deviates, fail, pass,
};
use crate::respond::FREE_RATIO;
use std::time::Duration;

/// Time between two requests.
const INTERVAL: Duration = Duration::from_millis(20);
/// Number of requests: 5 s.
const REQUESTS: u32 = 250;
/// A server that answers nothing for this long after the load has blocked the sender.
const RECOVERY: Duration = Duration::from_secs(40);
/// Time between two tries after the load.
const RECOVERY_STEP: Duration = Duration::from_secs(5);

/// Sends 50 requests/s for 5 s from a socket, and counts the replies.
///
/// `is_verified`: the requests prove their address, so that the server may answer all of them.
/// Otherwise it must limit replies that are longer than requests, except on loopback addresses,
/// which cannot be forged from outside.
pub(super) fn requests(
    probe: &mut Probe<'_>,
    socket: SocketId,
    request: &[u8],
    is_verified: bool,
    still_answers: &dyn Fn(&mut Probe<'_>) -> bool,
) -> Verdict {
    let start = probe.now();
    let mut replies = 0_u32;
    let mut bytes = 0_usize;
    for number in 0..=REQUESTS {
        if number < REQUESTS {
            probe.send_now(socket, request);
        }
        // The last turn waits for late replies.
        let until = if number < REQUESTS {
            start + INTERVAL * (number + 1)
        } else {
            probe.now() + probe.quiet()
        };
        loop {
            let left = until.saturating_sub(probe.now());
            match probe.receive(socket, left) {
                Received::Bytes(reply) => {
                    replies += 1;
                    bytes += reply.len() + HEADERS;
                }
                Received::Nothing | Received::Closed => break,
            }
        }
        let left = until.saturating_sub(probe.now());
        probe.sleep(left);
    }
    let sent = REQUESTS as usize * (request.len() + HEADERS);
    let ratio = bytes as f64 / sent as f64;
    probe.measure("requests", f64::from(REQUESTS));
    probe.measure("replies", f64::from(replies));
    probe.measure("reply_bytes_per_s", bytes as f64 / 5.0);
    let text = format!(
        "{} to {REQUESTS} requests in 5 s, ×{ratio:.1} with headers",
        counted(replies, "reply")
    );
    recover(probe, &text, still_answers)?;
    let has_limit = bytes <= sent * FREE_RATIO;
    if !is_verified && !has_limit && !probe.config.is_loopback {
        return fail(format!(
            "{text}: no limit for replies to an address that is not verified"
        ));
    }
    if is_verified && replies < REQUESTS / 2 {
        return deviates(&RATE_LIMIT, text);
    }
    pass(text)
}

/// Waits until the server answers again, at most [`RECOVERY`].
fn recover(
    probe: &mut Probe<'_>,
    text: &str,
    still_answers: &dyn Fn(&mut Probe<'_>) -> bool,
) -> Result<(), Outcome> {
    let mut waited = Duration::ZERO;
    while !still_answers(probe) {
        if waited >= RECOVERY {
            let seconds = waited.as_secs();
            return fail(format!("{text}; then no reply for {seconds} s"));
        }
        probe.wait(RECOVERY_STEP, "the server to answer again");
        waited += RECOVERY_STEP;
    }
    Ok(())
}

/// Opens 50 connections/s for 5 s with one request each, and counts the replies.
pub(super) fn connections(
    probe: &mut Probe<'_>,
    request: &[u8],
    still_answers: &dyn Fn(&mut Probe<'_>) -> bool,
) -> Verdict {
    let start = probe.now();
    let mut sockets = Vec::new();
    for number in 0..REQUESTS {
        if let Ok(socket) = probe.open_now() {
            probe.send_now(socket, request);
            sockets.push(socket);
        }
        let next = start + INTERVAL * (number + 1);
        let left = next.saturating_sub(probe.now());
        probe.sleep(left);
    }
    let opened = sockets.len();
    let mut replies = 0_u32;
    for socket in sockets {
        let quiet = probe.quiet();
        if matches!(probe.receive(socket, quiet), Received::Bytes(_)) {
            replies += 1;
        }
    }
    probe.close_all();
    probe.measure("requests", f64::from(REQUESTS));
    probe.measure("replies", f64::from(replies));
    let text = format!(
        "{opened} of {REQUESTS} connections, {}",
        counted(replies, "reply")
    );
    recover(probe, &text, still_answers)?;
    if replies < REQUESTS / 2 {
        return deviates(&RATE_LIMIT, text);
    }
    pass(text)
}
