//! rFactor and ARCA Sim Racing '08: one request, one reply of fixed layout. UDP.
//!
//! ```text
//!   client         server
//!     "rF_S"    ─►
//!               ◄─  fields of fixed length, then the list of vehicles
//! ```
//!
//! Little-endian. The client's address is not verified, so Hailer has no responder
//! (spec/rfactor.md#6).

use crate::model::{Address, Status, Text, Value};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Doc, Fault, Info};
use crate::wire::{Error, Reader, codepage, deviations, first_nul};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

deviations! {
    NO_VEHICLES "no-vehicles" "the reply ends before the list of vehicles, or inside it";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "rfactor",
        title: "rFactor",
        port: 34_297,
        declares_charset: false,
        fields: &[
            Doc::new("aids", "Driving aids that are allowed"),
            Doc::new("damage", "Damage in percent"),
            Doc::new("time", "Time of the session, as sent"),
            Doc::new("laps", "Number of laps"),
            Doc::new("race-cast", "Whether the server runs a race cast"),
            Doc::new("fixed-setups", "Whether setups of vehicles are fixed"),
            Doc::new("vehicles", "Vehicles that are allowed"),
        ],
        deviations: ALL,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::reply("status", Mark::NONE),
        Message::constant("status request", "request", b"rF_S").certain(),
    ],
    read,
    ..OneDatagram::PLAIN
};

/// Names of the driving aids, from the lowest bit.
const AIDS: [&str; 11] = [
    "traction control",
    "anti-lock brakes",
    "stability control",
    "automatic shifting",
    "automatic clutch",
    "invulnerability",
    "opposite lock",
    "steering help",
    "braking help",
    "spin recovery",
    "automatic pit stops",
];
/// Special flag: players need a password.
const PASSWORD: u8 = 2;
/// Special flag: a race cast.
const RACE_CAST: u8 = 4;
/// Special flag: setups of vehicles are fixed.
const FIXED_SETUPS: u8 = 16;
/// Units of one lap.
const LAP: f64 = 16.0;

/// Reads a reply (spec/rfactor.md#3 and #5).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let product = fixed_text(r, 8, "product")?;
    if !product.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(Error::bad("product", 0, "a text in ASCII").into());
    }
    r.u8("full update")?;
    r.u16_le("region")?;
    r.raw(4, "address")?;
    r.u16_le("size")?;
    status.version = Some(r.u16_le("version")?.to_string().into());
    r.u16_le("race cast version")?;
    let port = Some(r.u16_le("game port")?).filter(|port| *port != 0);
    status.address = port.map(|port| Address {
        host: None,
        port: Some(port),
    });
    r.u16_le("query port")?;
    let at = r.at();
    let game = fixed_text(r, 20, "game")?;
    let name = fixed_text(r, 28, "name")?;
    let map = fixed_text(r, 32, "map")?;
    let motd = fixed_text(r, 96, "motd")?;
    // Nothing else tells a reply from text, such as that of the character generator, or zeros.
    let lengths = [game, name, map, motd].map(<[u8]>::len);
    if lengths == [20, 28, 32, 96] || lengths == [0; 4] {
        return Err(Error::bad("texts", at, "texts that end with a NUL").into());
    }
    status.game = codepage::filled(game);
    status.name = Text::filled_windows(name);
    status.map = codepage::filled(map);
    status.motd = Text::filled_windows(motd);
    let aids = r.u16_le("aids")?;
    let aids = AIDS.iter().zip(0..).filter(|(_, bit)| aids >> bit & 1 == 1);
    let aids: Vec<_> = aids.map(|(name, _)| Value::from(*name)).collect();
    status.add_extra("aids", (!aids.is_empty()).then_some(Value::List(aids)));
    r.u16_le("ping")?;
    r.u8("flags")?;
    r.u8("rate")?;
    status.players.online = Some(r.u8("players")?.into());
    status.players.max = Some(r.u8("max players")?.into());
    status.players.bots = Some(r.u8("bots")?.into());
    let special = r.u8("special flags")?;
    status.has_password = Some(special & PASSWORD != 0);
    status.add_extra("damage", Some(i64::from(r.u8("damage")?)));
    r.u16_le("rules")?;
    r.raw(3, "credits")?;
    status.add_extra("time", Some(i64::from(r.u16_le("time")?)));
    let laps = f64::from(r.u16_le("laps")?) / LAP;
    status.add_extra("laps", Some(Value::Float(laps)));
    status.add_extra("race-cast", Some(special & RACE_CAST != 0));
    status.add_extra("fixed-setups", Some(special & FIXED_SETUPS != 0));
    r.raw(3, "unknown")?;
    let at = r.at();
    match r.text_to_nul("vehicles") {
        Ok(vehicles) => {
            status.add_extra("vehicles", codepage::filled(vehicles));
            r.trailing(&TRAILING_BYTES);
        }
        Err(_) => r.notes().deviation(&NO_VEHICLES, at),
    }
    Ok(())
}

/// Reads a text in a field of fixed length. It ends at the first NUL.
fn fixed_text<'a>(
    r: &mut Reader<'a, '_>,
    length: usize,
    field: &'static str,
) -> Result<&'a [u8], Error> {
    let at = r.at();
    let bytes = r.take(length, field)?;
    let end = first_nul(bytes).unwrap_or(length);
    let text = bytes.get(..end).unwrap_or_default();
    r.note(at, field, || format!("{:?}", codepage::decode(text)));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notes;

    #[test]
    fn aids_are_bits_and_a_port_is_not_0() {
        let mut reply = [0; 225];
        reply[..8].copy_from_slice(b"rFactor\0");
        reply[45] = b'N';
        // Bits 0 and 2.
        reply[201] = 0b101;
        let mut status = Status::default();
        let mut notes = Notes::default();
        read(&mut Reader::new(&reply, &mut notes), &mut status).unwrap();
        let aids = ["traction control", "stability control"].map(Value::from);
        assert_eq!(status.extra("aids"), Some(&Value::List(aids.into())));
        assert_eq!(status.address, None);
    }
}
