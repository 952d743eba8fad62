//! Messages of the game on plugin channels (spec/minecraft-12w.md#5.1, packet 0xFA).

use crate::build::Build;
use crate::table::PluginMessage;
use crate::types::{Bytes16, Slot, Wire};
use hailer_proto::wire::{Error, Latin1, Notes, Reader};

/// Message of the game on a plugin channel.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginPayload {
    /// The server offers a texture pack.
    TexturePack {
        /// Address of the texture pack.
        url: String,
        /// Width of a texture in pixels, usually 16.
        size: u32,
    },
    /// The player selected a trade, counted from 0.
    Trade(i32),
    /// The player edited a book.
    EditBook(Slot),
    /// The player signed a book.
    SignBook(Slot),
}

impl PluginPayload {
    const TEXTURE_PACK: &str = "MC|TPack";
    const TRADE: &str = "MC|TrSel";
    const EDIT_BOOK: &str = "MC|BEdit";
    const SIGN_BOOK: &str = "MC|BSign";

    /// Parses the message in a packet. Returns `None` for other channels, and for `MC|TrList`, the
    /// list of trades of a villager, which is not supported.
    pub fn read(packet: &PluginMessage, build: Build) -> Option<Result<Self, Error>> {
        let mut notes = Notes::discarding();
        let mut reader = Reader::new(&packet.data, &mut notes);
        let message = match packet.channel.to_string().as_str() {
            Self::TEXTURE_PACK => texture_pack(&mut reader),
            Self::TRADE => reader.i32_be("trade").map(Self::Trade),
            Self::EDIT_BOOK => Slot::read(&mut reader, build, "book").map(Self::EditBook),
            Self::SIGN_BOOK => Slot::read(&mut reader, build, "book").map(Self::SignBook),
            _ => return None,
        };
        Some(message.and_then(|message| reader.end().map(|()| message)))
    }

    /// Returns the packet that carries the message.
    pub fn packet(&self, build: Build) -> PluginMessage {
        let mut data = Vec::new();
        let channel = match self {
            Self::TexturePack { url, size } => {
                data.extend(
                    format!("{url}\0{size}")
                        .chars()
                        .map(|c| Latin1::byte(c).unwrap_or(b'?')),
                );
                Self::TEXTURE_PACK
            }
            Self::Trade(trade) => {
                trade.write(&mut data, build);
                Self::TRADE
            }
            Self::EditBook(book) | Self::SignBook(book) => {
                book.write(&mut data, build);
                if matches!(self, Self::EditBook(_)) {
                    Self::EDIT_BOOK
                } else {
                    Self::SIGN_BOOK
                }
            }
        };
        PluginMessage {
            channel: channel.into(),
            data: Bytes16::new(data),
        }
    }
}

/// Parses one byte per character: address, NUL, size.
fn texture_pack(reader: &mut Reader<'_, '_>) -> Result<PluginPayload, Error> {
    let at = reader.at();
    let text = Latin1::decode(reader.take(reader.remaining(), "texture pack")?);
    let (url, size) = text.split_once('\0').ok_or(Error::bad(
        "texture pack",
        at,
        "an address, NUL and a size",
    ))?;
    let size = size
        .parse()
        .map_err(|_| Error::bad("texture pack", at + url.len() + 1, "a size in pixels"))?;
    Ok(PluginPayload::TexturePack {
        url: url.into(),
        size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_game_round_trip() {
        let book = Slot::of(0x182, 1, 0);
        let pack = PluginPayload::TexturePack {
            url: "http://example.com/a.zip".into(),
            size: 16,
        };
        for message in [
            pack,
            PluginPayload::Trade(2),
            PluginPayload::EditBook(book.clone()),
            PluginPayload::SignBook(book),
        ] {
            let packet = message.packet(Build::LATEST);
            assert_eq!(
                PluginPayload::read(&packet, Build::LATEST),
                Some(Ok(message))
            );
            for cut in 0..packet.data.len() {
                let cut = PluginMessage {
                    data: Bytes16::new(packet.data[..cut].to_vec()),
                    ..packet.clone()
                };
                assert!(!matches!(
                    PluginPayload::read(&cut, Build::LATEST),
                    Some(Ok(PluginPayload::Trade(_) | PluginPayload::EditBook(_)))
                ));
            }
        }
        assert_eq!(
            PluginPayload::read(
                &PluginMessage {
                    channel: "REGISTER".into(),
                    ..Default::default()
                },
                Build::LATEST
            ),
            None
        );
        let wrong = PluginMessage {
            channel: "MC|TPack".into(),
            data: Bytes16::new(b"address\0big".to_vec()),
        };
        let error = PluginPayload::read(&wrong, Build::LATEST)
            .unwrap()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "texture pack at offset 8: expected a size in pixels"
        );
    }
}
