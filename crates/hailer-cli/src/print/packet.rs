//! Game packets, in one line each or field by field.

use super::datagram::{self, MAX_BYTES};
use super::json;
use hailer::minecraft::game::stream::{MAX_PACKET, read};
use hailer::minecraft::game::tap::TapPacket;
use hailer::minecraft::game::{Build, Packet, PacketDirection, PacketError};
use hailer::proto::model::printable;
use hailer::proto::wire::counted;
use hailer::proto::wire::{Notes, hexadecimal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Maximum number of bytes shown after the position of an error.
const MAX_BYTES_AFTER_ERROR: usize = 256;

/// Output format of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Whether to print JSON.
    pub(crate) is_json: bool,
    /// Field by field.
    pub(crate) is_long: bool,
    /// With bytes in hexadecimal.
    pub(crate) has_hex: bool,
}

/// A packet and its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketView<'a> {
    /// Description of the place in the input, for users; may be empty.
    pub(crate) place: &'a str,
    /// Number of the connection in the proxy.
    pub(crate) connection: Option<u64>,
    /// Seconds since the first packet.
    pub(crate) time: Option<f64>,
    pub(crate) direction: PacketDirection,
    pub(crate) build: Build,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

/// Returns `to-server` or `to-client`.
pub(crate) fn way_name(direction: PacketDirection) -> &'static str {
    match direction {
        PacketDirection::ToServer => "to-server",
        PacketDirection::ToClient => "to-client",
    }
}

impl PacketView<'_> {
    /// Prints the packet in these bytes.
    pub(crate) fn packet(
        &self,
        out: &mut impl Write,
        packet: &Packet,
        form: Form,
    ) -> io::Result<()> {
        if form.is_json {
            let mut value = self.json(packet.id(), Some(packet.name()));
            value["fields"] = serde_json::to_value(packet.at(self.build)).unwrap_or_default();
            if let Some(fields) = value["fields"].as_object_mut() {
                fields.remove("packet");
            }
            if form.has_hex {
                value["hex"] = hexadecimal(self.bytes).into();
            }
            if form.is_long {
                value["explained"] = datagram::fields(&self.notes());
            }
            return writeln!(out, "{}", json::line(&value)?);
        }
        if form.is_long {
            self.heading(out, packet.id(), Some(packet.name()))?;
            return datagram::body(
                out,
                self.bytes,
                None,
                &self.notes(),
                if form.has_hex { usize::MAX } else { MAX_BYTES },
            );
        }
        let text = printable(&packet.at(self.build).to_string());
        let (name, fields) = text
            .split_once(' ')
            .map_or((text.as_str(), ""), |(name, fields)| (name, fields));
        self.begin(out)?;
        writeln!(
            out,
            "{}",
            format!("0x{:02X} \x1b[1m{name}\x1b[0m {fields}", packet.id()).trim_end()
        )?;
        if form.has_hex {
            datagram::rows(out, self.bytes)
        } else {
            Ok(())
        }
    }

    /// Prints the bytes of an invalid packet, and the error.
    pub(crate) fn broken(
        &self,
        out: &mut impl Write,
        broken: &PacketError,
        form: Form,
    ) -> io::Result<()> {
        let bytes = self
            .bytes
            .get(..broken.error.at.saturating_add(MAX_BYTES_AFTER_ERROR))
            .unwrap_or(self.bytes);
        let notes = self.notes();
        let error = broken.error;
        if form.is_json {
            let mut value = self.json(broken.id, broken.packet);
            value["hex"] = hexadecimal(bytes).into();
            if form.is_long {
                value["explained"] = datagram::fields(&notes);
            }
            value["error"] =
                json!({"field": error.field, "offset": error.at, "message": broken.to_string()});
            return writeln!(out, "{}", json::line(&value)?);
        }
        self.heading(out, broken.id, broken.packet)?;
        datagram::body(out, bytes, Some(error), &notes, MAX_BYTES)
    }

    /// Returns the fields of the packet.
    fn notes(&self) -> Notes {
        let mut notes = Notes::explaining();
        read(
            self.bytes,
            self.direction,
            self.build,
            MAX_PACKET,
            &mut notes,
        );
        notes
    }

    fn json(&self, id: u8, name: Option<&str>) -> Value {
        let mut value = json!({
            "schema": "hailer/packet/2",
            "direction": way_name(self.direction),
            "build": self.build.name(),
            "id": id,
            "packet": name,
            "offset": self.offset,
            "length_bytes": self.bytes.len(),
        });
        if !self.place.is_empty() {
            value["place"] = self.place.into();
        }
        if let Some(connection) = self.connection {
            value["connection"] = connection.into();
        }
        if let Some(time) = self.time {
            value["at_s"] = time.into();
        }
        value
    }

    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        let arrow = if self.direction == PacketDirection::ToServer {
            "\x1b[36m→\x1b[0m"
        } else {
            "\x1b[32m←\x1b[0m"
        };
        write!(out, "{arrow} ")?;
        if self.place.is_empty() {
            Ok(())
        } else {
            write!(out, "\x1b[2m{}\x1b[0m ", self.place)
        }
    }

    fn heading(&self, out: &mut impl Write, id: u8, name: Option<&str>) -> io::Result<()> {
        self.begin(out)?;
        let name = name.unwrap_or("unknown");
        let length = counted(self.bytes.len(), "byte");
        writeln!(
            out,
            "0x{id:02X} \x1b[1m{name}\x1b[0m, offset {}, {length}",
            self.offset
        )
    }
}

/// Counts packets by name.
#[derive(Debug, Default)]
pub(crate) struct Summary(BTreeMap<(u8, &'static str, &'static str), PacketTotals>);

/// Totals of one packet name and direction.
#[derive(Clone, Copy, Debug, Default)]
struct PacketTotals {
    packets: u64,
    bytes: u64,
    /// Packets that Hailer would encode differently, such as a boolean that is neither 0 nor 1.
    odd: u64,
}

impl Summary {
    /// Adds a packet.
    pub(crate) fn add(&mut self, seen: &TapPacket) {
        let sums = self
            .0
            .entry((
                seen.packet.id(),
                seen.packet.name(),
                way_name(seen.direction),
            ))
            .or_default();
        let mut written = Vec::with_capacity(seen.bytes.len());
        seen.packet.write(&mut written, seen.build);
        sums.packets += 1;
        sums.bytes += seen.bytes.len() as u64;
        sums.odd += u64::from(written != seen.bytes);
    }

    /// Prints one row for each name and direction, or a line of JSON.
    pub(crate) fn show(&self, out: &mut impl Write, is_json: bool) -> io::Result<()> {
        if is_json {
            let rows = self.0.iter().map(|((id, name, direction), PacketTotals { packets, bytes, odd })| {
                json!({"id": id, "packet": name, "direction": direction, "packets": packets, "bytes": bytes, "noncanonical": odd})
            });
            let value =
                json!({"schema": "hailer/packet-summary/2", "rows": rows.collect::<Value>()});
            return writeln!(out, "{}", json::line(&value)?);
        }
        for (
            (id, name, direction),
            PacketTotals {
                packets,
                bytes,
                odd,
            },
        ) in &self.0
        {
            let arrow = if *direction == "to-server" {
                "\x1b[36m→\x1b[0m"
            } else {
                "\x1b[32m←\x1b[0m"
            };
            let note = if *odd > 0 {
                format!(", {odd} odd")
            } else {
                String::new()
            };
            writeln!(
                out,
                "{arrow} 0x{id:02X} {name:<24} {packets:>9} {bytes:>12} bytes{note}"
            )?;
        }
        let sum = |of: fn(&PacketTotals) -> u64| self.0.values().map(of).sum::<u64>();
        let packets = sum(|sums| sums.packets);
        let bytes = sum(|sums| sums.bytes);
        let odd = sum(|sums| sums.odd);
        writeln!(out, "  {:<29} {packets:>9} {bytes:>12} bytes", "all")?;
        match odd {
            0 => writeln!(out, "each encodes back to the bytes that it came in"),
            odd => writeln!(
                out,
                "{odd} odd: hailer would write the same packet with other bytes"
            ),
        }
    }
}
