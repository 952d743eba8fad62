//! Satisfactory: the API of dedicated servers since 1.0. HTTP with TLS, on the port of the game.
//!
//! ```text
//!   client                          server
//!     POST PasswordlessLogin  ─►
//!          ◄─  JSON: token
//!     POST QueryServerState   ─►
//!          ◄─  JSON: counts, session
//! ```
//!
//! Name and build are in the replies to `satisfactory` over UDP (spec/satisfactory-api.md#1).

use crate::model::{Status, Value};
use crate::protocol::{Ask, Depth, Doc, Fault, Info, Secret, Tls};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::Notes;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// The protocol (spec/satisfactory-api.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "satisfactory-api",
        title: "Satisfactory (API)",
        port: 7777,
        place: 17,
        fields: &[
            Doc::new("session", "Name of the session"),
            Doc::new("running", "Whether a game is loaded"),
            Doc::new("paused", "Whether the game is paused"),
            Doc::new("tech-tier", "Highest tier of technology"),
            Doc::new("duration", "Time played, in seconds"),
            Doc::new("tick-rate", "Average number of ticks per second"),
            Doc::new("unanswered", "Requests without a usable response, by name"),
        ],
        ..Info::HTTP
    },
    files: &[
        File::new(HEALTH, "health check", PATH),
        File::new(LOGIN, "login without a password", PATH),
        File::new(STATE, "request for the state", PATH),
    ],
    denied: "guests may not log in, because players need a password; a token \
        of its API as the auth token replaces the login",
    tls: Tls::AnyCertificate,
    wants,
    headers,
    body,
    token,
    refusal,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

const HEALTH: &str = "health";
const LOGIN: &str = "login";
const STATE: &str = "state";
const PATH: &str = "/api/v1";

fn wants(ask: &Ask, file: &File) -> bool {
    let is_ping = ask.depth == Depth::Ping;
    match file.name {
        HEALTH => is_ping,
        LOGIN => !is_ping && ask.auth_token.is_none(),
        // Without a token, the server refuses it.
        _ => !is_ping && ask.auth_token.is_some(),
    }
}

fn headers(ask: &Ask) -> Vec<(&'static str, String)> {
    match &ask.auth_token {
        // A token with other characters is none, and could add header fields.
        Some(token) if token.reveal().bytes().all(|byte| byte.is_ascii_graphic()) => {
            vec![("Authorization", format!("Bearer {}", token.reveal()))]
        }
        _ => Vec::new(),
    }
}

fn body(file: &File) -> Option<&'static str> {
    Some(match file.name {
        HEALTH => r#"{"function":"HealthCheck","data":{"clientCustomData":""}}"#,
        LOGIN => r#"{"function":"PasswordlessLogin","data":{"MinimumPrivilegeLevel":"Client"}}"#,
        _ => r#"{"function":"QueryServerState"}"#,
    })
}

fn token(file: &File, body: &Body<'_>) -> Option<Secret> {
    let token = data(body)?.text("authenticationToken")?;
    (file.name == LOGIN).then(|| token.into_owned().into())
}

fn refusal(_: u16, body: &Body<'_>) -> Option<Fault> {
    body.has_member(&["errorCode"]).then_some(Fault::Refused {
        reason: PROTOCOL.denied,
        endpoints: &[],
    })
}

fn is_body(file: &File, body: &Body<'_>) -> bool {
    let member = match file.name {
        HEALTH => "health",
        LOGIN => "authenticationToken",
        _ => "serverGameState",
    };
    data(body).is_some_and(|data| data.item(member).is_some())
}

fn read(
    file: &File,
    body: &Body<'_>,
    _: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "a response of the API of Satisfactory";
    let root = body.members(is_body(file, body), expected)?;
    if file.name == LOGIN {
        status.has_password = Some(false);
    }
    let state = root
        .object("data")
        .and_then(|data| data.object("serverGameState"));
    let Some(state) = state else {
        return Ok(());
    };
    status.players.online = state.integer("numConnectedPlayers");
    status.players.max = state.integer("playerLimit");
    status.add_extra("session", state.value("activeSessionName"));
    status.add_extra("running", state.boolean("isGameRunning"));
    status.add_extra("paused", state.boolean("isGamePaused"));
    status.add_extra("tech-tier", state.integer("techTier"));
    status.add_extra("duration", state.integer("totalGameDuration"));
    let rate = state.float("averageTickRate").map(Value::Float);
    status.add_extra("tick-rate", rate);
    Ok(())
}

fn data<'j, 'a>(body: &'j Body<'a>) -> Option<Members<'j, 'a>> {
    Members(body.json().ok()?.root()).object("data")
}
