//! The client: a login without a password, then the state (spec/satisfactory-api.md#2).

use crate::model::{Status, Value};
use crate::protocol::{Ask, Depth, Fault, Secret, Tls};
use crate::protocols::http::{Body, File, Files, Members};
use crate::wire::Notes;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// The requests of the protocol.
#[derive(Debug)]
pub enum SatisfactoryFiles {}

const HEALTH: &str = "health";
const LOGIN: &str = "login";
const STATE: &str = "state";
const PATH: &str = "/api/v1";

impl Files for SatisfactoryFiles {
    const FILES: &'static [File] = &[
        File::new(HEALTH, "health check", PATH),
        File::new(LOGIN, "login without a password", PATH),
        File::new(STATE, "request for the state", PATH),
    ];
    const DENIED: &'static str = "guests may not log in, because players need a password; a token \
                                  of its API as the auth token replaces the login";
    const TLS: Tls = Tls::AnyCertificate;

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
            LOGIN => {
                r#"{"function":"PasswordlessLogin","data":{"MinimumPrivilegeLevel":"Client"}}"#
            }
            _ => r#"{"function":"QueryServerState"}"#,
        })
    }

    fn token(file: &File, body: &Body<'_>) -> Option<Secret> {
        let token = data(body)?.text("authenticationToken")?;
        (file.name == LOGIN).then(|| token.into_owned().into())
    }

    fn refusal(_: u16, body: &Body<'_>) -> Option<Fault> {
        body.has_member(&["errorCode"]).then_some(Fault::Refused {
            reason: Self::DENIED,
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
        let root = body.members(Self::is_body(file, body), expected)?;
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
}

fn data<'j, 'a>(body: &'j Body<'a>) -> Option<Members<'j, 'a>> {
    Members(body.json().ok()?.root()).object("data")
}
