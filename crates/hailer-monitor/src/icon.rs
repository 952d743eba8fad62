//! Icons of servers, by a digest of their content.
//!
//! Pages name an icon by its digest, so that browsers keep it and servers with the same icon share
//! it. Only PNG files of a valid structure, of at most 64 KiB and 512 × 512 pixels, are kept.
//!
//! Bounds: `MAX_TOTAL_BYTES` in memory; the oldest icons are evicted. The history stores the last
//! icon of each server, at most one per server.

use crate::lock::lock;
use hailer::proto::model::Icon;
use hailer::proto::wire::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

/// Limit of all icons in memory, in bytes: about 4,500 different ones.
const MAX_TOTAL_BYTES: usize = 32 << 20;
/// Length of a digest, in bytes.
const ID_BYTES: usize = 16;

/// Digest of an icon: the first half of its SHA-256. JSON has it as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IconId([u8; ID_BYTES]);

impl IconId {
    fn of(icon: &Icon) -> Self {
        let digest = Sha256::digest(icon.to_png());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest[..ID_BYTES]);
        Self(id)
    }

    /// Returns the path of the icon on the monitor's site.
    pub fn path(&self) -> String {
        format!("/icon/{self}.png")
    }
}

impl fmt::Display for IconId {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl From<IconId> for String {
    fn from(id: IconId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for IconId {
    type Error = NoIconId;

    fn try_from(text: String) -> Result<Self, NoIconId> {
        text.parse()
    }
}

/// The text is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no digest of an icon: 32 hexadecimal digits")]
pub struct NoIconId;

impl FromStr for IconId {
    type Err = NoIconId;

    fn from_str(text: &str) -> Result<Self, NoIconId> {
        let is_digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 2 * ID_BYTES || !is_digits {
            return Err(NoIconId);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NoIconId)?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// Icons in memory.
#[derive(Debug, Default)]
pub struct Icons(Mutex<IconCache>);

#[derive(Debug, Default)]
struct IconCache {
    by_id: HashMap<IconId, Arc<Icon>>,
    /// Icons in the order in which they were added, the oldest first.
    order: VecDeque<IconId>,
    bytes: usize,
}

impl Icons {
    /// Keeps an icon and returns its digest. `None` if it is no valid image.
    pub fn insert(&self, icon: Icon) -> Option<IconId> {
        let id = IconId::of(&icon);
        let mut kept = lock(&self.0);
        if kept.by_id.contains_key(&id) {
            return Some(id);
        }
        icon.image_size().ok()?;
        kept.bytes += icon.data_uri().len();
        kept.by_id.insert(id, Arc::new(icon));
        kept.order.push_back(id);
        while kept.bytes > MAX_TOTAL_BYTES {
            let oldest = kept.order.pop_front()?;
            let removed = kept.by_id.remove(&oldest);
            kept.bytes -= removed.map_or(0, |icon| icon.data_uri().len());
        }
        Some(id)
    }

    /// Returns the icon with a digest, if it is in memory.
    pub fn find(&self, id: IconId) -> Option<Arc<Icon>> {
        let kept = lock(&self.0);
        kept.by_id.get(&id).cloned()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A PNG file of one red pixel.
    pub(crate) const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82";

    #[test]
    fn digests_are_printed_and_parsed() {
        let icons = Icons::default();
        let id = icons.insert(Icon::from_png(PNG).unwrap()).unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.path(), format!("/icon/{id}.png"));
        assert_eq!(icons.insert(Icon::from_png(PNG).unwrap()), Some(id));
        assert_eq!(icons.find(id).unwrap().to_png(), PNG);
        let upper = id.to_string().to_uppercase();
        for wrong in ["", "0", &upper, &format!("{id}0"), "+".repeat(32).as_str()] {
            assert_eq!(wrong.parse::<IconId>(), Err(NoIconId), "{wrong}");
        }
    }

    #[test]
    fn damaged_images_are_not_kept() {
        let icons = Icons::default();
        let cut = Icon::from_png(&PNG[..PNG.len() - 1]).unwrap();
        assert_eq!(icons.insert(cut), None);
        assert_eq!(icons.find(IconId([0; ID_BYTES])), None);
    }

    #[test]
    fn memory_is_limited() {
        let icons = Icons::default();
        let whole = PNG.to_vec();
        let end = whole.len() - 12;
        let icon = |number: u32| {
            // A chunk of text of 60 KiB before the end of the image.
            let mut text = b"tEXt".to_vec();
            text.extend(number.to_be_bytes());
            text.resize(60 << 10, 0);
            let length = (text.len() as u32 - 4).to_be_bytes();
            let checksum = crc32(&text).to_be_bytes();
            let parts = [&whole[..end], &length, &text, &checksum, &whole[end..]];
            Icon::from_png(&parts.concat()).unwrap()
        };
        let ids: Vec<IconId> = (0..600)
            .map(|number| icons.insert(icon(number)).unwrap())
            .collect();
        assert_eq!(icons.find(ids[0]), None);
        assert!(icons.find(ids[599]).is_some());
        assert!(icons.0.lock().unwrap().bytes <= MAX_TOTAL_BYTES);
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
            })
        };
        !bytes.iter().fold(u32::MAX, step)
    }
}
