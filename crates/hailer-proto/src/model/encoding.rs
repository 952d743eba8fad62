//! Character sets of texts whose protocol declares none: the one that the user names, or a guess by
//! the content of all texts of a status.
//!
//! Parsers decode such a text as UTF-8 if it is valid, and otherwise in a code page with a character
//! for each byte. The bytes can therefore be restored, and decoded anew, once the whole status is
//! there.

use crate::model::{Extra, Status, Text};
use crate::wire::codepage::{self, CodePage};
use crate::wire::{Field, Notes};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use compact_str::CompactString;
use core::fmt;
use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
use memchr::memmem;

/// Key of the extra with the name of the character set.
pub const EXTRA: &str = "charset";
/// Character sets that a guess can have besides Windows-1252.
const GUESSES: [&Encoding; 5] = [GBK, BIG5, SHIFT_JIS, EUC_KR, WINDOWS_1251];
/// First bytes of the syllables of Korean in EUC-KR.
const HANGUL: core::ops::RangeInclusive<u8> = 0xB0..=0xC8;
/// Symbols of Windows-1252.
const SYMBOLS: core::ops::RangeInclusive<u8> = 0xA0..=0xBF;
/// Number of Latin letters for each symbol, from which a text is Western.
const LETTERS_PER_SYMBOL: usize = 2;
/// Bytes of a text in which each character has two, from which it is no Western text.
const DOUBLE_BYTES: usize = 4;

/// A character set in which ASCII characters are themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl Charset {
    /// Error for a name that [`find`](Self::find) does not know.
    pub const EXPECTED: &str = "expected a character set such as GBK, Big5, Shift_JIS, EUC-KR, windows-1251 or windows-1252";

    /// Returns the character set with a name of the Encoding Standard, such as `GBK`, `big5`,
    /// `shift_jis`, `windows-1251` or `cp1252`.
    pub fn find(name: &str) -> Option<Self> {
        let found = Encoding::for_label_no_replacement(name.trim().as_bytes())?;
        found.is_ascii_compatible().then_some(Self(found))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Guesses the character set of bytes that are not UTF-8: GBK, Big5, Shift-JIS, EUC-KR,
    /// Windows-1251 or Windows-1252.
    pub fn guess(bytes: &[u8]) -> Self {
        if is_decorated(bytes) {
            return Self(WINDOWS_1252);
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, true);
        let guess = detector.guess(None, Utf8Detection::Deny);
        Self(if GUESSES.contains(&guess) {
            guess
        } else if guess == EUC_JP {
            // Game servers do not run on systems with EUC-JP, whose bytes are GBK too.
            GBK
        } else if is_double(bytes) {
            let mut pairs = pairs(bytes);
            let is_korean = pairs.all(|pair| pair.first().is_some_and(|it| HANGUL.contains(it)));
            if is_korean { EUC_KR } else { GBK }
        } else if codepage::is_cyrillic(bytes) && guess != WINDOWS_1252 {
            WINDOWS_1251
        } else {
            WINDOWS_1252
        })
    }

    /// Decodes bytes. Returns `None` if some are invalid.
    pub fn decode(self, bytes: &[u8]) -> Option<String> {
        let text = self
            .0
            .decode_without_bom_handling_and_without_replacement(bytes)?;
        Some(text.into_owned())
    }

    /// Decodes bytes. Invalid ones become U+FFFD.
    fn decode_lossy(self, bytes: &[u8]) -> String {
        self.0.decode_without_bom_handling(bytes).0.into_owned()
    }
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charset({})", self.name())
    }
}

/// Returns whether a text consists of Latin letters with symbols of Windows-1252 between them, which
/// look like characters of two bytes: `R·A·C·E`.
fn is_decorated(bytes: &[u8]) -> bool {
    let symbols = bytes.iter().filter(|byte| !byte.is_ascii());
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic());
    let are_symbols = symbols.clone().all(|byte| SYMBOLS.contains(byte));
    are_symbols && letters.count() >= LETTERS_PER_SYMBOL * symbols.count()
}

/// Returns the pairs of bytes of the runs outside of ASCII.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let runs = bytes.split(u8::is_ascii);
    runs.flat_map(|run| run.chunks(2))
}

/// Returns whether a text has no Latin letters, and characters of two bytes each, as in EUC-KR and
/// in the most common part of GBK.
fn is_double(bytes: &[u8]) -> bool {
    let is_pair = |pair: &[u8]| pair.len() == 2 && pair.iter().all(|byte| *byte > 0xA0);
    let count = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    count >= DOUBLE_BYTES && !bytes.iter().any(u8::is_ascii_alphabetic) && pairs(bytes).all(is_pair)
}

/// Decodes the texts of a status anew that are not UTF-8, and adds the extra [`EXTRA`] with the
/// name of the character set: `charset`, or else a guess. Does nothing if all texts are UTF-8. It is
/// for protocols that do not [declare](crate::Info::declares_charset) their character set.
pub fn decode(status: &mut Status, charset: Option<Charset>) {
    let mut bytes = Vec::new();
    let names = status.players.list.iter().map(|player| &player.name);
    for text in status.name.iter().chain(&status.motd).chain(names) {
        if text.is_single_byte() {
            bytes.extend_from_slice(&text.bytes());
            bytes.push(b'\n');
        }
    }
    if bytes.is_empty() && charset.is_none() {
        return;
    }
    let mut decoder = Decoder {
        charset: charset.unwrap_or_else(|| Charset::guess(&bytes)),
        is_guess: charset.is_none(),
        has_found: !bytes.is_empty(),
    };
    decoder.status(status);
    if decoder.has_found {
        status.extra.retain(|extra| extra.key != EXTRA);
        status.extra.push(Extra::new(EXTRA, decoder.charset.name()));
    }
}

/// Decodes the texts of an explained message anew, like [`decode`], by a guess from all of them.
/// Parsers format such a text with [`Debug`](fmt::Debug).
pub fn decode_fields(notes: &mut Notes, message: &[u8]) {
    let texts = |field: &Field| {
        let bytes = CodePage::bytes_of(&unquoted(&field.value)?)?;
        let raw = message.get(field.range.clone())?;
        let is_text = core::str::from_utf8(&bytes).is_err() && memmem::find(raw, &bytes).is_some();
        is_text.then_some(bytes)
    };
    let texts: Vec<_> = notes.fields().iter().map(texts).collect();
    let all: Vec<_> = texts.iter().flatten().map(Vec::as_slice).collect();
    if all.is_empty() {
        return;
    }
    let charset = Charset::guess(&all.join(&b'\n'));
    for (field, bytes) in notes.fields_mut().iter_mut().zip(&texts) {
        if let Some(text) = bytes.as_ref().and_then(|bytes| charset.decode(bytes)) {
            field.value = format!("{text:?}");
        }
    }
}

/// Returns a text that was formatted with [`Debug`](fmt::Debug); `None` for other values, and if it
/// is ASCII.
fn unquoted(value: &str) -> Option<String> {
    let mut chars = value.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let digits = chars.by_ref().skip(1).take_while(|c| *c != '}');
                    let code = u32::from_str_radix(&digits.collect::<String>(), 16).ok()?;
                    char::from_u32(code)?
                }
                other => other,
            },
            c => c,
        });
    }
    (!text.is_ascii()).then_some(text)
}

struct Decoder {
    charset: Charset,
    is_guess: bool,
    /// Whether a text is not UTF-8.
    has_found: bool,
}

impl Decoder {
    fn status(&mut self, status: &mut Status) {
        for text in status.name.iter_mut().chain(&mut status.motd) {
            self.text(text);
        }
        for player in &mut status.players.list {
            self.text(&mut player.name);
        }
        status.visit_strings(&mut |text| self.string(text));
    }

    /// Decodes bytes. A guess leaves a text alone that it does not fit.
    fn decode(&self, bytes: &[u8]) -> Option<String> {
        if self.is_guess {
            self.charset.decode(bytes)
        } else {
            Some(self.charset.decode_lossy(bytes))
        }
    }

    fn text(&self, text: &mut Text) {
        if text.is_single_byte()
            && let Some(decoded) = text.decoded_with(|bytes| self.decode(bytes))
        {
            // Texts in Windows-1252 keep their bytes.
            *text = decoded.from_single_byte(self.charset.0 == WINDOWS_1252);
        }
    }

    /// Decodes a text that does not know whether it was UTF-8. It is left alone if its bytes in a
    /// code page would be valid UTF-8, as which they would have been read.
    fn string(&mut self, text: &mut CompactString) {
        if text.is_ascii() {
            return;
        }
        let bytes = CodePage::bytes_of(text);
        if let Some(bytes) = bytes.filter(|bytes| core::str::from_utf8(bytes).is_err())
            && let Some(decoded) = self.decode(&bytes)
        {
            self.has_found = true;
            *text = decoded.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Carets, Player, Rule};
    use alloc::vec;

    #[test]
    fn names_of_the_encoding_standard_are_found() {
        for (name, found) in [
            ("gbk", Some("GBK")),
            (" Big5 ", Some("Big5")),
            ("sjis", Some("Shift_JIS")),
            ("cp1251", Some("windows-1251")),
            ("latin1", Some("windows-1252")),
            ("utf-8", Some("UTF-8")),
            ("utf-16", None),
            ("iso-2022-jp", None),
            ("iso-2022-kr", None),
            ("klingon", None),
        ] {
            assert_eq!(Charset::find(name).map(Charset::name), found, "{name}");
        }
    }

    #[test]
    fn symbols_between_letters_are_western() {
        for name in [
            &b"\xAB\xAB FAST LANES [CLASSIC R\xB7A\xB7C\xB7E\xB7S]"[..],
            b"\xA4 Alpha \xA4",
            b"Clan\xAE",
        ] {
            assert_eq!(Charset::guess(name).name(), "windows-1252", "{name:?}");
        }
    }

    /// A status as its parser leaves it, with texts in GBK.
    fn chinese() -> Status {
        let name = b"\xbd\xc7\xc9\xab\xb0\xe7\xd1\xdd";
        let mut status = Status {
            name: Some(Text::western_carets(
                &[b"^1", &name[..], b" RP"].concat(),
                Carets::Digit,
            )),
            mode: Some(codepage::decode(name)),
            version: Some("\u{4E2D}".into()),
            ..Status::default()
        };
        status.players.list = vec![Player::named(Text::by_content("Zo\u{EB}".as_bytes()))];
        status.rules.push(Rule {
            key: "weburl".into(),
            value: codepage::decode(b"\xd6\xd0\xce\xc4"),
        });
        status
    }

    #[test]
    fn a_guess_decodes_all_texts_that_are_not_utf8() {
        let mut status = chinese();
        decode(&mut status, None);
        let name = status.name.as_ref().unwrap();
        assert_eq!(name.plain(), "\u{89D2}\u{8272}\u{626E}\u{6F14} RP");
        assert_eq!(name.raw(), "^1\u{89D2}\u{8272}\u{626E}\u{6F14} RP");
        assert_eq!(
            status.mode.as_deref(),
            Some("\u{89D2}\u{8272}\u{626E}\u{6F14}")
        );
        assert_eq!(status.rules[0].value, "\u{4E2D}\u{6587}");
        assert_eq!(status.version.as_deref(), Some("\u{4E2D}"));
        assert_eq!(status.players.list[0].name.raw(), "Zo\u{EB}");
        assert_eq!(status.extra(EXTRA), Some(&"GBK".into()));
    }

    #[test]
    fn an_explained_message_has_the_same_guess() {
        let name = b"\xbd\xc7\xc9\xab\xb0\xe7\xd1\xdd \\ \"";
        let message = [name, "caf\u{E9}".as_bytes()].concat();
        let mut notes = Notes::explaining();
        notes.field(0..name.len(), "name", || {
            format!("{:?}", codepage::decode(name))
        });
        notes.field(name.len()..message.len(), "mode", || {
            format!("{:?}", "caf\u{E9}")
        });
        notes.field(0..1, "letter", || format!("{:?}", '\u{BD}'));
        decode_fields(&mut notes, &message);
        let values: Vec<_> = notes.fields().iter().map(|field| &*field.value).collect();
        assert_eq!(
            values,
            [
                "\"\u{89D2}\u{8272}\u{626E}\u{6F14} \\\\ \\\"\"",
                "\"caf\u{E9}\"",
                "'\u{BD}'"
            ]
        );
    }

    #[test]
    fn the_charset_of_the_user_decides() {
        let mut status = chinese();
        decode(&mut status, Charset::find("windows-1251"));
        let name = status.name.as_ref().unwrap();
        assert_eq!(
            name.plain(),
            "\u{405}\u{417}\u{419}\u{AB}\u{B0}\u{437}\u{421}\u{42D} RP"
        );
        assert_eq!(status.extra(EXTRA), Some(&"windows-1251".into()));
    }

    #[test]
    fn texts_in_utf8_stay() {
        let mut status = Status {
            name: Some(Text::by_content("caf\u{E9}".as_bytes())),
            ..Status::default()
        };
        let before = status.clone();
        decode(&mut status, None);
        assert_eq!(status, before);
        status.name = Some(Text::western(b"caf\xE9 \x93a\x94"));
        decode(&mut status, None);
        let name = status.name.as_ref().unwrap();
        assert_eq!(name.raw(), "caf\u{E9} \u{201C}a\u{201D}");
        assert_eq!(&*name.bytes(), b"caf\xE9 \x93a\x94");
        assert_eq!(status.extra(EXTRA), Some(&"windows-1252".into()));
    }
}
