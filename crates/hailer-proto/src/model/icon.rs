//! Icons of servers.

use crate::wire::crc32;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use core::fmt;

/// Longest icon, in bytes. Icons of 64 × 64 pixels have at most about 16 KiB.
const MAX_ICON_BYTES: usize = 64 * 1024;
/// Largest width and height of an image that [`Icon::image_size`] accepts, in pixels. Larger ones
/// take more than 1 MiB once decoded.
const MAX_IMAGE_PIXELS: u32 = 512;
const PNG_START: &[u8] = b"\x89PNG\r\n\x1a\n";
const DATA_URI_START: &str = "data:image/png;base64,";
/// The usual alphabet, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Start of every PNG file in base64. The next letter has four more bits of it.
const ENCODED_START: &[u8] = b"iVBORw0KGg";
const ENCODED_NEXT: core::ops::RangeInclusive<u8> = b'o'..=b'r';

/// Icon of a server: an image in PNG format of at most 64 KiB. Only its first bytes are checked.
///
/// Kept as a `data:` URI, the form of most protocols and outputs: a sweep passes many icons on and
/// looks into none.
#[derive(Clone, PartialEq, Eq)]
pub struct Icon(Box<str>);

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
    /// A part of the PNG file is damaged, missing or in the wrong place.
    Damaged,
    /// The image has more than 512 × 512 pixels, or none.
    Dimensions,
}

impl fmt::Display for IconError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDataUri => "the icon does not start with data:image/png;base64,",
            Self::NotBase64 => "the icon is not in base64",
            Self::NotPng => "the icon is not a PNG image",
            Self::TooLarge => "the icon has more than 64 KiB",
            Self::Damaged => "the icon is a damaged PNG image",
            Self::Dimensions => "the icon must have 1 to 512 pixels in each direction",
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
            let mut text = String::from(DATA_URI_START);
            BASE64.encode_string(bytes, &mut text);
            Ok(Self(text.into()))
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
        // Almost all icons have the form that would be written again.
        if let Some(length) = usual_length(encoded.as_bytes())
            && length <= MAX_ICON_BYTES
        {
            return Ok(Self(text.into()));
        }
        let bytes = BASE64.decode(encoded.replace(['\r', '\n'], ""));
        Self::from_png(&bytes.map_err(|_| IconError::NotBase64)?)
    }

    /// Returns the PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        let encoded = self.0.strip_prefix(DATA_URI_START).unwrap_or_default();
        BASE64.decode(encoded).unwrap_or_default()
    }

    /// Checks the structure of the PNG file and returns width and height in pixels. Do not pass an
    /// icon that fails to a program that decodes images.
    ///
    /// Every chunk must have its checksum. The header comes first, then at least one chunk of image
    /// data, and nothing follows the end. The image data is not decompressed.
    ///
    /// # Errors
    ///
    /// The file is damaged, or the image has more than 512 × 512 pixels.
    pub fn image_size(&self) -> Result<(u32, u32), IconError> {
        let png = self.to_png();
        let mut rest = png.get(PNG_START.len()..).unwrap_or_default();
        let mut size = None;
        let mut has_data = false;
        loop {
            let (kind, data, after) = chunk(rest).ok_or(IconError::Damaged)?;
            rest = after;
            match (kind, size) {
                (b"IHDR", None) => size = Some(header(data)?),
                (_, None) | (b"IHDR", Some(_)) => return Err(IconError::Damaged),
                (b"IDAT", _) => has_data = true,
                (b"IEND", Some(size)) if has_data && data.is_empty() && rest.is_empty() => {
                    return Ok(size);
                }
                (b"IEND", _) => return Err(IconError::Damaged),
                _ => {}
            }
        }
    }

    /// Returns the icon as a `data:` URI.
    pub fn data_uri(&self) -> &str {
        &self.0
    }
}

/// Splits the first chunk off: kind, data and the bytes after it. `None` if it is cut short or its
/// checksum is wrong.
fn chunk(bytes: &[u8]) -> Option<(&[u8; 4], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (checked, rest) = rest.split_at_checked(length.checked_add(4)?)?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (kind, data) = checked.split_first_chunk::<4>()?;
    (crc32(checked) == u32::from_be_bytes(*checksum)).then_some((kind, data, rest))
}

/// Returns the size in the header of an image.
fn header(data: &[u8]) -> Result<(u32, u32), IconError> {
    let [w0, w1, w2, w3, h0, h1, h2, h3, depth, color, 0, 0, 0 | 1] = *data else {
        return Err(IconError::Damaged);
    };
    let is_known = match color {
        0 => [1, 2, 4, 8, 16].contains(&depth),
        3 => [1, 2, 4, 8].contains(&depth),
        2 | 4 | 6 => [8, 16].contains(&depth),
        _ => false,
    };
    if !is_known {
        return Err(IconError::Damaged);
    }
    let width = u32::from_be_bytes([w0, w1, w2, w3]);
    let height = u32::from_be_bytes([h0, h1, h2, h3]);
    let is_fit = |pixels: u32| (1..=MAX_IMAGE_PIXELS).contains(&pixels);
    if is_fit(width) && is_fit(height) {
        Ok((width, height))
    } else {
        Err(IconError::Dimensions)
    }
}

/// Returns the length of a PNG file in base64 that has the usual form: padded, without white space,
/// and with zeros after the last byte. `None` for other texts.
fn usual_length(encoded: &[u8]) -> Option<usize> {
    let (letters, last) = match encoded {
        [letters @ .., b'=', b'='] => (letters, &b"AQgw"[..]),
        [letters @ .., b'='] => (letters, &b"AEIMQUYcgkosw048"[..]),
        letters => (letters, &b""[..]),
    };
    let has_start = letters
        .strip_prefix(ENCODED_START)
        .is_some_and(|rest| rest.first().is_some_and(|next| ENCODED_NEXT.contains(next)));
    let is_padded = letters.len() == encoded.len() || last.contains(letters.last()?);
    // Without a branch for each letter, several letters are compared together.
    let are_letters = letters.chunks(64).all(|letters| {
        letters.iter().fold(true, |are, letter| {
            are & (letter.is_ascii_alphanumeric() | matches!(letter, b'+' | b'/'))
        })
    });
    let is_usual = has_start && is_padded && are_letters && encoded.len().is_multiple_of(4);
    is_usual.then_some(letters.len() * 3 / 4)
}

impl fmt::Debug for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Icon of {} bytes", self.to_png().len())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Icon {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.data_uri())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Icon {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = serde::Deserialize::deserialize(deserializer)?;
        Self::from_data_uri(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_uris_are_reversible() {
        for length in 0..10 {
            let png: Vec<u8> = PNG_START.iter().copied().chain(0..length).collect();
            let icon = Icon::from_png(&png).unwrap();
            let text = icon.data_uri();
            assert_eq!(text.len() % 4, DATA_URI_START.len() % 4);
            assert_eq!(icon.to_png(), png);
            assert_eq!(Icon::from_data_uri(text), Ok(icon.clone()));
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
    fn only_the_usual_form_needs_no_decoding() {
        for length in 0..10 {
            let png: Vec<u8> = PNG_START
                .iter()
                .copied()
                .chain(length..2 * length)
                .collect();
            let icon = Icon::from_png(&png).unwrap();
            let encoded = icon.data_uri().strip_prefix(DATA_URI_START).unwrap();
            assert_eq!(usual_length(encoded.as_bytes()), Some(png.len()));
            for at in 0..encoded.len() {
                for byte in 0..=u8::MAX {
                    let mut other = Vec::from(encoded);
                    other[at] = byte;
                    let decoded = BASE64.decode(&other).ok();
                    let is_usual = decoded.as_ref().is_some_and(|bytes| {
                        bytes.starts_with(PNG_START) && BASE64.encode(bytes).as_bytes() == other
                    });
                    let expected = decoded.filter(|_| is_usual).map(|bytes| bytes.len());
                    assert_eq!(usual_length(&other), expected, "{at}: {byte:#04x}");
                }
            }
        }
        let png = [PNG_START, &[7; MAX_ICON_BYTES - 8]].concat();
        let longest = Icon::from_png(&png).unwrap();
        assert_eq!(Icon::from_data_uri(longest.data_uri()), Ok(longest.clone()));
        let text = [DATA_URI_START, &BASE64.encode([&png[..], b"x"].concat())].concat();
        assert_eq!(Icon::from_data_uri(&text), Err(IconError::TooLarge));
    }

    fn chunk_of(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let checked = [&kind[..], data].concat();
        let length = (data.len() as u32).to_be_bytes();
        [&length[..], &checked, &crc32(&checked).to_be_bytes()].concat()
    }

    fn header_of(width: u32, height: u32, depth: u8, color: u8) -> Vec<u8> {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        chunk_of(b"IHDR", &[&size[..], &[depth, color, 0, 0, 0]].concat())
    }

    fn size_of_parts(parts: &[&[u8]]) -> Result<(u32, u32), IconError> {
        let png = [PNG_START, &parts.concat()].concat();
        Icon::from_png(&png).unwrap().image_size()
    }

    #[test]
    fn only_whole_images_have_a_size() {
        let header = header_of(64, 32, 8, 6);
        let data = chunk_of(b"IDAT", &[1, 2, 3]);
        let text = chunk_of(b"tEXt", b"a");
        let end = chunk_of(b"IEND", b"");
        let whole = [&header[..], &text, &data, &data, &end].concat();
        assert_eq!(size_of_parts(&[&whole]), Ok((64, 32)));
        for length in 0..whole.len() {
            assert_eq!(size_of_parts(&[&whole[..length]]), Err(IconError::Damaged));
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert_eq!(size_of_parts(&[&other]), Err(IconError::Damaged), "{at}");
        }
        for parts in [
            &[&data[..], &header, &end][..],
            &[&header, &end],
            &[&header, &header, &data, &end],
            &[&header, &data, &end, &end],
            &[&header, &data, &end, b"<script>"],
            &[&header, &data, &chunk_of(b"IEND", b"x")],
            &[&header_of(64, 64, 3, 6), &data, &end],
            &[&header_of(64, 64, 16, 3), &data, &end],
            &[&header_of(64, 64, 8, 5), &data, &end],
            &[&chunk_of(b"IHDR", &[0; 12]), &data, &end],
        ] {
            assert_eq!(size_of_parts(parts), Err(IconError::Damaged), "{parts:?}");
        }
        for (width, height, size) in [
            (512, 1, Ok((512, 1))),
            (513, 1, Err(IconError::Dimensions)),
            (0, 64, Err(IconError::Dimensions)),
            (64, u32::MAX, Err(IconError::Dimensions)),
        ] {
            let header = header_of(width, height, 8, 2);
            assert_eq!(size_of_parts(&[&header, &data, &end]), size);
        }
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
