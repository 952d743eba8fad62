//! The client: sends the same ping until a pong with its number arrives.

use super::message::{Advertisement, Ping, Pong};
use crate::model::{Address, Extra, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Input, Step};
use crate::wire::Notes;
use alloc::{boxed::Box, string::ToString, vec::Vec};

/// Queries one Bedrock server.
#[derive(Debug)]
pub struct BedrockExchange {
    depth: Depth,
    ping: Ping,
}

impl BedrockExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let ping = Ping {
            time: cookie.derive(0),
            is_for_open: false,
            // Servers that read it expect a complete ping and block the senders of shorter ones.
            guid: Some(cookie.derive(1)),
        };
        Self {
            depth: ask.depth,
            ping,
        }
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        if !Pong::is_pong(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let pong = match Pong::read(bytes, &mut notes) {
            Err(error) => return Step::Bad(error.into()),
            Ok(pong) if pong.time != self.ping.time => {
                return Step::Bad(Fault::Misbehaved(
                    "it replied to another ping: the time in the pong is not that of the request",
                ));
            }
            Ok(pong) => pong,
        };
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            Depth::Basic | Depth::Full => Box::new(status(pong)),
        };
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for BedrockExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => {
                self.ping.write(out);
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }
}

/// Converts a pong to a status (spec/minecraft-bedrock.md#11).
fn status(pong: Pong<'_>) -> Status {
    let mut status = Status::default();
    let text = pong.text.unwrap_or_default();
    let guid = pong.guid.to_string();
    let other_guid = text.guid.as_deref().filter(|text| **text != guid);
    let mut add = |key, value: Option<Value>| {
        status
            .extra
            .extend(value.map(|value| Extra::new(key, value)));
    };
    add("edition", text.edition.as_deref().map(Value::from));
    let odd_protocol = text.odd_protocol.filter(|text| !text.is_empty());
    let protocol = text.protocol.map(Value::from);
    add(
        "protocol",
        protocol.or(odd_protocol.as_deref().map(Value::from)),
    );
    add("guid", Some(guid.as_str().into()));
    add("text-guid", other_guid.map(Value::from));
    add("level-name", text.level.as_deref().map(Value::from));
    let mut rest = text.rest.iter();
    let mut field = || rest.next().map(|text| value(text));
    add("number", field());
    let port = field();
    add("port", port.clone());
    add("ipv6-port", field());
    let further: Vec<Value> = rest.map(|text| value(text)).collect();
    add(
        "further",
        (!further.is_empty()).then(|| Value::List(further)),
    );
    if let Some(Value::Int(port @ 1..=65_535)) = port {
        status.address = Some(Address {
            host: None,
            port: Some(port as u16),
        });
    }
    let Advertisement {
        name,
        is_latin1,
        version,
        mode,
        online,
        max,
        ..
    } = text;
    status.name = (!name.is_empty()).then(|| Text::bedrock(name).from_single_byte(is_latin1));
    status.version = version.filter(|text| !text.is_empty()).map(Into::into);
    status.mode = mode.filter(|text| !text.is_empty()).map(Into::into);
    status.players.online = online;
    status.players.max = max;
    status
}

/// Returns a field as a number, if it is one, or else as text.
fn value(text: &str) -> Value {
    text.parse::<i64>()
        .ok()
        .filter(|number| number.to_string() == text)
        .map_or_else(|| text.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;
    use alloc::format;

    fn exchange(depth: Depth) -> (BedrockExchange, Vec<u8>) {
        let ask = Ask {
            depth,
            ..Ask::default()
        };
        let mut exchange = BedrockExchange::new(&ask, Cookie(3));
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Start, &mut out), Step::Send);
        (exchange, out)
    }

    fn pong(request: &[u8], text: &str) -> Vec<u8> {
        let ping = Ping::read(request, &mut Notes::default()).unwrap();
        let mut reply = Vec::new();
        message::write_pong_header(ping.time, 5, &mut reply);
        reply.extend((text.len() as u16).to_be_bytes());
        reply.extend(text.as_bytes());
        reply
    }

    #[test]
    fn a_ping_is_complete_and_repeated_unchanged() {
        let (mut exchange, first) = exchange(Depth::Full);
        assert_eq!(first.len(), message::PING_LENGTH);
        assert!(message::is_ping(&first));
        let mut again = Vec::new();
        assert_eq!(exchange.handle(Input::Timeout, &mut again), Step::Send);
        assert_eq!((again, exchange.stage()), (first, 0));
        assert_eq!(exchange.handle(Input::GiveUp, &mut Vec::new()), Step::Wait);
    }

    #[test]
    fn stray_datagrams_are_dropped_and_other_times_reported() {
        let (mut exchange, request) = exchange(Depth::Full);
        let reply = pong(&request, "MCPE;N;1;v;0;9;5;L;Survival;1;1;1;");
        let mut receive = |bytes: &[u8]| exchange.handle(Input::Datagram(bytes), &mut Vec::new());
        for stray in [&b""[..], b"\x1C", &request, &reply[1..], &reply[..32]] {
            assert_eq!(receive(stray), Step::Wait, "{stray:02x?}");
        }
        for at in 1..9 {
            let mut other = reply.clone();
            other[at] ^= 1;
            assert!(
                matches!(receive(&other), Step::Bad(Fault::Misbehaved(_))),
                "{at}"
            );
        }
        for at in 17..33 {
            let mut other = reply.clone();
            other[at] ^= 1;
            assert_eq!(receive(&other), Step::Wait, "{at}");
        }
        assert!(matches!(receive(&reply), Step::Done(_)));
    }

    #[test]
    fn fields_become_members() {
        let (mut exchange, request) = exchange(Depth::Full);
        let text = "MCEE;\u{A7}aHi;390;1.12;2;30;-6;Room;Creative;0;-1;0019133;x;";
        let reply = pong(&request, text);
        let Step::Done(status) = exchange.handle(Input::Datagram(&reply), &mut Vec::new()) else {
            panic!()
        };
        assert_eq!(status.name, Some(Text::bedrock("\u{A7}aHi")));
        assert_eq!(
            (status.version.as_deref(), status.mode.as_deref()),
            (Some("1.12"), Some("Creative"))
        );
        assert_eq!(
            (status.players.online, status.players.max),
            (Some(2), Some(30))
        );
        assert_eq!(status.address, None, "-1 is no port");
        let extra: Vec<_> = status
            .extra
            .iter()
            .map(|extra| format!("{}={}", extra.key, extra.value))
            .collect();
        assert_eq!(
            extra.join(" "),
            "edition=MCEE protocol=390 guid=5 text-guid=-6 level-name=Room number=0 port=-1 \
             ipv6-port=0019133 further=x"
        );
    }

    #[test]
    fn a_ping_is_a_sign_of_life() {
        let (mut exchange, request) = exchange(Depth::Ping);
        let reply = pong(&request, "MCPE;N;1;v;0;9;5;L;Survival;1;1;1;");
        assert_eq!(
            exchange.handle(Input::Datagram(&reply), &mut Vec::new()),
            Step::Done(Box::default())
        );
    }
}
