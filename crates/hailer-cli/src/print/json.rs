//! One line of JSON. Control characters are escaped even where JSON does not require it.

use hailer::proto::model::is_control;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Result, Serializer};
use std::io::{self, Write};

/// Serializes a value to one line.
pub(crate) fn line(value: &impl Serialize) -> Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, EscapingFormatter))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Serializes a value to several lines, indented by two spaces.
pub(crate) fn lines(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Line breaks of texts are escaped: this one ends a line.
        if c == '\n' || !is_control(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        }
    }
    Ok(out)
}

/// Compact formatter that writes every character that could control a terminal as `\uXXXX`.
struct EscapingFormatter;

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut shown = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_control(*c)) {
            writer.write_all(&fragment.as_bytes()[shown..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            shown = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[shown..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_control_characters_without_loss() {
        let text = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202E}é名\u{0}\"\\\n👩";
        let json = line(&text).unwrap();
        assert_eq!(
            json,
            r#""a\u001b[2J\u009b31m\u007f\u202eé名\u0000\"\\\n👩""#
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        assert_eq!(
            line(&serde_json::json!({"a": [1, null, ""]})).unwrap(),
            r#"{"a":[1,null,""]}"#
        );
        let several = lines(&serde_json::json!({ "a": [text] })).unwrap();
        let value: serde_json::Value = serde_json::from_str(&several).unwrap();
        assert_eq!(value["a"][0], text);
        assert_eq!(several.lines().count(), 5);
        assert!(several.lines().all(|line| !line.contains(is_control)));
    }
}
