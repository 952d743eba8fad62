//! Reads a reply into a status (spec/tibia.md#6).

use super::deviation::ODD_COUNT;
use super::message;
use crate::model::{Address, Extra, Status, Text, Value};
use crate::protocol::Fault;
use crate::wire::Reader;
use compact_str::CompactString;

/// Reads a reply.
pub(super) fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let elements = message::read(r)?;
    let notes = r.notes();
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
    Ok(())
}
