//! Icons of servers.

use alloc::boxed::Box;
use alloc::string::String;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use core::fmt;

/// Longest icon, in bytes. Icons of 64 × 64 pixels have at most about 16 KiB.
const MAX_ICON_BYTES: usize = 64 * 1024;
const PNG_START: &[u8] = b"\x89PNG\r\n\x1a\n";
const DATA_URI_START: &str = "data:image/png;base64,";
/// The usual alphabet, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Icon of a server: an image in PNG format of at most 64 KiB. Only its first bytes are checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Icon(Box<[u8]>);

/// Reason why bytes or a text are no icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IconError {
    /// The text does not start with `data:image/png;base64,`.
    NotDataUri,
    /// The text after the start is not in base64.
    NotBase64,
    /// The image does not start like a PNG file.
    NotPng,
    /// The image has more than 64 KiB.
    TooLarge,
}

impl fmt::Display for IconError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDataUri => "the icon does not start with data:image/png;base64,",
            Self::NotBase64 => "the icon is not in base64",
            Self::NotPng => "the icon is not a PNG image",
            Self::TooLarge => "the icon has more than 64 KiB",
        })
    }
}

impl core::error::Error for IconError {}

impl Icon {
    /// Creates an icon from a PNG file.
    ///
    /// # Errors
    ///
    /// The bytes do not start like a PNG file, or are more than 64 KiB.
    pub fn from_png(bytes: &[u8]) -> Result<Self, IconError> {
        if bytes.len() > MAX_ICON_BYTES {
            Err(IconError::TooLarge)
        } else if bytes.starts_with(PNG_START) {
            Ok(Self(bytes.into()))
        } else {
            Err(IconError::NotPng)
        }
    }

    /// Parses a `data:` URI. Line feeds in the base64 text, which old servers send, are ignored.
    ///
    /// # Errors
    ///
    /// The text has another format, or its content is not an icon.
    pub fn from_data_uri(text: &str) -> Result<Self, IconError> {
        let encoded = text
            .strip_prefix(DATA_URI_START)
            .ok_or(IconError::NotDataUri)?;
        if encoded.len() > MAX_ICON_BYTES * 2 {
            return Err(IconError::TooLarge);
        }
        // Few icons have line ends, and removing none costs more than decoding.
        let bytes = if memchr::memchr2(b'\r', b'\n', encoded.as_bytes()).is_some() {
            BASE64.decode(encoded.replace(['\r', '\n'], ""))
        } else {
            BASE64.decode(encoded)
        };
        let bytes = bytes.map_err(|_| IconError::NotBase64)?;
        Self::from_png(&bytes)
    }

    /// Returns the PNG file.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the icon as a `data:` URI.
    pub fn data_uri(&self) -> String {
        let mut text = String::from(DATA_URI_START);
        BASE64.encode_string(&self.0, &mut text);
        text
    }
}

impl fmt::Debug for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Icon of {} bytes", self.0.len())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Icon {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.data_uri())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn data_uris_are_reversible() {
        for length in 0..10 {
            let png: Vec<u8> = PNG_START.iter().copied().chain(0..length).collect();
            let icon = Icon::from_png(&png).unwrap();
            let text = icon.data_uri();
            assert_eq!(text.len() % 4, DATA_URI_START.len() % 4);
            assert_eq!(Icon::from_data_uri(&text), Ok(icon.clone()));
            let unpadded = text.trim_end_matches('=');
            assert_eq!(Icon::from_data_uri(unpadded), Ok(icon.clone()));
            let (start, end) = text.split_at(30);
            let folded = [start, "\n", end, "\n"].concat();
            assert_eq!(Icon::from_data_uri(&folded), Ok(icon));
        }
        assert_eq!(
            Icon::from_png(b"\x89PNG\r\n\x1a\nAB").unwrap().data_uri(),
            "data:image/png;base64,iVBORw0KGgpBQg=="
        );
    }

    #[test]
    fn other_texts_are_no_icons() {
        for (text, error) in [
            ("iVBORw0KGgo=", IconError::NotDataUri),
            ("data:image/png;base64,", IconError::NotPng),
            ("data:image/png;base64,R0lGODlhAQABAA==", IconError::NotPng),
            ("data:image/png;base64,iVBORw0KGgo!", IconError::NotBase64),
            ("data:image/png;base64,iVBORw0KGgpBQ", IconError::NotBase64),
        ] {
            assert_eq!(Icon::from_data_uri(text), Err(error), "{text}");
        }
        let large = [PNG_START, &[0; MAX_ICON_BYTES]].concat();
        assert_eq!(Icon::from_png(&large), Err(IconError::TooLarge));
        let long = [DATA_URI_START, &"A".repeat(MAX_ICON_BYTES * 2 + 1)].concat();
        assert_eq!(Icon::from_data_uri(&long), Err(IconError::TooLarge));
    }
}
