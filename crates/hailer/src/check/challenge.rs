//! Standard requirements of challenge tokens, which prove that the address of a client is not forged:
//! what they are bound to, and how long they are valid.

use super::*;

/// A protocol whose requests need a token of the server.
pub(super) trait Challenged {
    /// Name of a token.
    const TOKEN: &'static str;
    /// The reply to a request with a valid token.
    const REPLY: &'static str;
    /// The reply to a request with another token, before `a token`.
    const REFUSAL: &'static str;
    /// Time between two tests of the lifetime.
    const STEP: Duration;
    /// Shortest lifetime.
    const SHORTEST: Duration;
    /// Time after which a token must be invalid.
    const LONGEST: Duration;

    /// Gets a token at a new socket. Returns the socket, and a request with the token.
    fn request(p: &mut Probe<'_>) -> Result<(SocketId, Vec<u8>), Outcome>;

    /// Returns whether a datagram is the reply to a request with a valid token.
    fn is_reply(bytes: &[u8]) -> bool;

    /// Returns whether a request with a token gets the reply.
    fn is_valid(p: &mut Probe<'_>, socket: SocketId, request: &[u8]) -> bool {
        p.ask(socket, request, &Self::is_reply).is_some()
    }

    /// Leaves out the requirement of the lifetime if a token is valid once.
    fn check_reuse(_: &mut Probe<'_>, _: SocketId, _: &[u8]) -> Result<(), Outcome> {
        Ok(())
    }
}

const PORT: &[&Deviation] = &[&BOUND_TO_PORT];

/// A token is bound to an address.
pub(super) const fn other_address<C: Challenged>(
    id: &'static str,
    section: &'static str,
) -> Requirement {
    error(id, section, at_other_address::<C>)
        .title("The token of one address is not valid for another")
        .effect("An attacker uses a token of its own for forged addresses")
}

/// A token is not bound to a port.
pub(super) const fn other_port<C: Challenged>(
    id: &'static str,
    section: &'static str,
) -> Requirement {
    note(id, section, at_other_port::<C>)
        .title("The token is valid for every port of its address")
        .effect(
            "Clients that send each request from another port, such as node-gamedig, get no \
            reply",
        )
        .deviations(PORT)
}

/// Uses a token at another socket. Returns whether it gets the reply.
fn is_valid_elsewhere<C: Challenged>(p: &mut Probe<'_>, origin: Origin) -> Result<bool, Outcome> {
    let other = p.open_from(origin)?;
    let (_, request) = C::request(p)?;
    Ok(p.ask_once(other, &request, &C::is_reply).is_some())
}

fn at_other_address<C: Challenged>(p: &mut Probe<'_>) -> Verdict {
    let token = C::TOKEN;
    if is_valid_elsewhere::<C>(p, Origin::OtherAddress)? {
        fail(format!("a {token} of another address gets {}", C::REPLY))
    } else {
        pass(format!("{} a {token} of another address", C::REFUSAL))
    }
}

fn at_other_port<C: Challenged>(p: &mut Probe<'_>) -> Verdict {
    let token = C::TOKEN;
    if is_valid_elsewhere::<C>(p, Origin::Usual)? {
        pass(format!("another port of the address uses the {token}"))
    } else {
        let text = format!("{} a {token} of another port", C::REFUSAL);
        deviates(&BOUND_TO_PORT, text)
    }
}

/// Tests how long a token is valid.
pub(super) fn lifetime<C: Challenged>(p: &mut Probe<'_>) -> Verdict {
    let (socket, request) = C::request(p)?;
    C::check_reuse(p, socket, &request)?;
    let is_valid = |p: &mut Probe<'_>| {
        p.drain(socket);
        C::is_valid(p, socket, &request)
    };
    let (valid, expired) = p.lifetime(C::STEP, C::LONGEST, &is_valid);
    let seconds = valid.as_secs();
    match expired.map(|expired| expired.as_secs()) {
        None => deviates(&LONG_LIFETIME, format!("still valid after {seconds} s")),
        Some(expired) if valid < C::SHORTEST => fail(format!("not valid after {expired} s")),
        Some(expired) => pass(format!("valid at {seconds} s, expired at {expired} s")),
    }
}
