//! The client: one request (spec/tibia.md#4).

use super::deviation::ODD_COUNT;
use super::message::{self, Element, REQUEST};
use crate::model::{Address, Extra, Status, Text, Value};
use crate::one_request::stream::Format;
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes};
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Format of request and reply.
#[derive(Debug)]
pub struct TibiaFormat;

impl Format for TibiaFormat {
    const CLOSED: &'static str =
        "it closes the connection without a reply: it replies to each address only once in 5 s";

    fn write_request(out: &mut Vec<u8>) {
        out.extend_from_slice(REQUEST);
    }

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        Ok(match message::reply_length(bytes)? {
            Some(length) => Frame::Complete(length),
            None => Frame::Incomplete {
                total: bytes.len() + 1,
            },
        })
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        let elements = message::read(bytes, notes)?;
        Ok(status(&elements, notes))
    }
}

/// Converts a reply to a status (spec/tibia.md#6).
fn status(elements: &[Element], notes: &mut Notes) -> Box<Status> {
    let find = |name: &str| elements.iter().find(|element| element.name == name);
    let text = |element: &str, attribute: &str| find(element)?.attribute(attribute);
    let mut number = |element: &str, attribute: &str| -> Option<i64> {
        let value = text(element, attribute)?;
        let number = value.trim().parse().ok();
        if number.is_none() {
            notes.deviation(&ODD_COUNT, 0);
        }
        number
    };
    let mut status = Box::<Status>::default();
    status.name = text("serverinfo", "servername").map(Text::unformatted);
    let motd = find("motd").map(|motd| motd.text.as_str());
    let motd = motd.filter(|motd| !motd.is_empty());
    status.motd = motd.map(Text::unformatted);
    status.map = text("map", "name").map(Into::into);
    status.version = text("serverinfo", "version").map(Into::into);
    status.players.online = number("players", "online");
    status.players.max = number("players", "max");
    let port = number("serverinfo", "port").and_then(|port| u16::try_from(port).ok());
    status.address = port.map(|port| Address {
        host: None,
        port: Some(port),
    });
    for (key, element, attribute, is_number) in [
        ("uptime", "serverinfo", "uptime", true),
        ("software", "serverinfo", "server", false),
        ("client", "serverinfo", "client", false),
        ("location", "serverinfo", "location", false),
        ("url", "serverinfo", "url", false),
        ("owner", "owner", "name", false),
        ("peak", "players", "peak", true),
        ("monsters", "monsters", "total", true),
        ("npcs", "npcs", "total", true),
        ("map-author", "map", "author", false),
        ("width", "map", "width", true),
        ("height", "map", "height", true),
    ] {
        let value = if is_number {
            number(element, attribute).map(Value::Int)
        } else {
            text(element, attribute).map(Value::from)
        };
        status
            .extra
            .extend(value.map(|value| Extra::new(key, value)));
    }
    let rates = find("rates").map(|rates| rates.attributes.as_slice());
    if let Some(rates @ [_, ..]) = rates {
        let rates = rates.iter().map(|(name, value)| {
            let name = CompactString::from(name);
            (name, Value::from(value.as_str()))
        });
        let rates = Value::Table(rates.collect());
        status.extra.push(Extra::new("rates", rates));
    }
    status
}
