//! Chat components ⇄ [`Text`] (spec/minecraft-status.md#6).
//!
//! Limits: 64 levels, 10,000 components, 64 KiB of text with its codes, 4 MiB to look at.

use super::deviation::*;
use super::english;
use crate::model::{Codes, Style, Text, TextBuilder, TextColor};
use crate::wire::json::{self, Item, Kind};
use crate::wire::{Error, ErrorKind, Notes};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum depth of nested components.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of components.
pub const MAX_COMPONENTS: usize = 10_000;
/// Maximum length of the text with its codes, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of bytes to look at. A translation can show an argument any number of times, so
/// this can be more than the bytes received.
pub const MAX_WORK_BYTES: usize = 4 << 20;
/// Bytes that a key counts as, at least.
const KEY_BYTES: usize = 16;

/// Parses a component of any form.
///
/// # Errors
///
/// Names the component that exceeds a limit, with its offset.
pub fn read(item: Item<'_, '_>, field: &'static str, notes: &mut Notes) -> Result<Text, Error> {
    // Most descriptions are one text. Its codes stay as they were received.
    let only = only_text(item);
    if let Some(text) = only.text() {
        note_utf8(only, notes);
        return if text.len() <= MAX_TEXT_BYTES {
            Ok(Text::legacy(&*text))
        } else {
            Err(too_many(item, field, MAX_TEXT_BYTES, "bytes"))
        };
    }
    let mut flattener = Flattener {
        out: TextBuilder::default(),
        components: 0,
        work: 0,
        field,
        notes,
    };
    flattener.component(item, Style::default(), 0)?;
    Ok(flattener.out.finish())
}

/// Returns the value of an object whose only key is `text`, or the component itself.
fn only_text<'n, 'a>(item: Item<'n, 'a>) -> Item<'n, 'a> {
    let mut entries = item.entries();
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) if key.bytes() == b"text" => value,
        _ => item,
    }
}

/// Records a text with invalid UTF-8.
pub(super) fn note_utf8(item: Item<'_, '_>, notes: &mut Notes) {
    if item.kind() == Kind::Text && !item.is_utf8() {
        notes.deviation(&INVALID_UTF8, item.at());
    }
}

fn too_many(item: Item<'_, '_>, field: &'static str, limit: usize, unit: &'static str) -> Error {
    Error {
        field,
        at: item.at(),
        kind: ErrorKind::TooMany { limit, unit },
    }
}

struct Flattener<'n> {
    out: TextBuilder,
    components: usize,
    work: usize,
    field: &'static str,
    notes: &'n mut Notes,
}

/// Keys of a component with content, in the order in which the game looks for them. An empty key
/// is that of a text in a list of mixed types.
const CONTENT: [&str; 8] = [
    "text",
    "translate",
    "keybind",
    "score",
    "selector",
    "nbt",
    "object",
    "",
];

/// The values of an object that matter for its text.
#[derive(Default)]
struct Parts<'j, 'a> {
    content: [Option<Item<'j, 'a>>; CONTENT.len()],
    fallback: Option<Item<'j, 'a>>,
    with: Option<Item<'j, 'a>>,
    extra: Option<Item<'j, 'a>>,
}

impl Flattener<'_> {
    /// Appends a component and returns its style, which its children inherit.
    fn component(
        &mut self,
        item: Item<'_, '_>,
        inherited: Style,
        depth: usize,
    ) -> Result<Style, Error> {
        self.components += 1;
        if self.components > MAX_COMPONENTS {
            return Err(too_many(item, self.field, MAX_COMPONENTS, "components"));
        }
        if depth > MAX_DEPTH {
            return Err(too_many(item, self.field, MAX_DEPTH, "levels of nesting"));
        }
        match item.kind() {
            Kind::Null => Ok(inherited),
            Kind::Text | Kind::Number | Kind::Bool(_) => {
                self.primitive(item, inherited)?;
                Ok(inherited)
            }
            Kind::List => {
                let mut items = item.items();
                let Some(first) = items.next() else {
                    return Ok(inherited);
                };
                let style = self.component(first, inherited, depth + 1)?;
                for child in items {
                    self.component(child, style, depth + 1)?;
                }
                Ok(style)
            }
            Kind::Object => self.object(item, inherited, depth),
        }
    }

    fn object(
        &mut self,
        item: Item<'_, '_>,
        inherited: Style,
        depth: usize,
    ) -> Result<Style, Error> {
        let (parts, style) = self.parts(item, inherited)?;
        let content = CONTENT.iter().zip(parts.content);
        if let Some((key, content)) = content
            .filter_map(|(key, content)| Some((key, content?)))
            .next()
        {
            match *key {
                "translate" => self.translation(content, &parts, style, depth)?,
                "score" => {
                    let mut entries = content.entries();
                    if let Some((_, value)) = entries.find(|(key, _)| key.bytes() == b"value") {
                        self.primitive(value, style)?;
                    }
                }
                // A sprite has no text.
                "object" => {}
                _ => self.primitive(content, style)?,
            }
        }
        match parts.extra {
            Some(extra) if extra.kind() == Kind::List => {
                for child in extra.items() {
                    self.component(child, style, depth + 1)?;
                }
            }
            Some(extra) => {
                self.component(extra, style, depth + 1)?;
            }
            None => {}
        }
        Ok(style)
    }

    /// Finds the keys of an object, and its style on top of the inherited one.
    fn parts<'j, 'a>(
        &mut self,
        item: Item<'j, 'a>,
        inherited: Style,
    ) -> Result<(Parts<'j, 'a>, Style), Error> {
        let mut parts = Parts::default();
        let mut style = inherited;
        // One bit for each known key found.
        let mut found = 0u32;
        for (key, value) in item.entries() {
            self.work(item, KEY_BYTES)?;
            let name = key.text().unwrap_or_default();
            let content = CONTENT.iter().position(|content| *content == name);
            let flag = match &*name {
                "bold" => Some((0, &mut style.is_bold)),
                "italic" => Some((1, &mut style.is_italic)),
                "underlined" => Some((2, &mut style.is_underlined)),
                "strikethrough" => Some((3, &mut style.is_struck)),
                "obfuscated" => Some((4, &mut style.is_obfuscated)),
                _ => None,
            };
            let bit = match (&*name, content, flag) {
                (_, Some(index), _) => {
                    if let Some(slot) = parts.content.get_mut(index) {
                        *slot = Some(value);
                    }
                    16 + index
                }
                (_, _, Some((bit, flag))) => {
                    if let Some(is_on) = boolean(value) {
                        *flag = is_on;
                    }
                    bit
                }
                ("color", ..) => {
                    self.color(value, &mut style);
                    5
                }
                ("fallback", ..) => {
                    parts.fallback = Some(value);
                    6
                }
                ("with", ..) => {
                    parts.with = Some(value);
                    7
                }
                ("extra", ..) => {
                    parts.extra = Some(value);
                    8
                }
                _ => continue,
            };
            if found >> bit & 1 == 1 {
                self.notes.deviation(&DUPLICATE_KEYS, key.at());
            }
            found |= 1 << bit;
        }
        Ok((parts, style))
    }

    fn work(&mut self, item: Item<'_, '_>, bytes: usize) -> Result<(), Error> {
        self.work += bytes;
        if self.work <= MAX_WORK_BYTES {
            Ok(())
        } else {
            Err(too_many(
                item,
                self.field,
                MAX_WORK_BYTES,
                "bytes of arguments",
            ))
        }
    }

    fn color(&mut self, item: Item<'_, '_>, style: &mut Style) {
        let name = item.text().unwrap_or_default();
        let known = match name.strip_prefix('#') {
            Some(digits) => TextColor::from_hex(digits)
                .filter(|_| digits.len() == 6)
                .map(Some),
            None if name == "reset" => Some(None),
            None => NAMES
                .iter()
                .position(|known| *known == name)
                .map(|code| Some(TextColor::Legacy(code as u8))),
        };
        match known {
            Some(color) => style.color = color,
            None => self.notes.deviation(&UNKNOWN_COLOR, item.at()),
        }
    }

    /// Appends a text, number or Boolean.
    fn primitive(&mut self, item: Item<'_, '_>, style: Style) -> Result<(), Error> {
        match item.kind() {
            Kind::Text => {
                note_utf8(item, self.notes);
                self.push(item, style, &item.text().unwrap_or_default())
            }
            Kind::Number => self.push(item, style, item.number().unwrap_or_default()),
            Kind::Bool(true) => self.push(item, style, "true"),
            Kind::Bool(false) => self.push(item, style, "false"),
            _ => Ok(()),
        }
    }

    fn push(&mut self, item: Item<'_, '_>, style: Style, text: &str) -> Result<(), Error> {
        self.work(item, text.len())?;
        if self.out.push(style, text) <= MAX_TEXT_BYTES {
            Ok(())
        } else {
            Err(too_many(item, self.field, MAX_TEXT_BYTES, "bytes"))
        }
    }

    /// Appends a translation. The template is the English text of the game if it is a
    /// [common one](english), else the fallback, or else the key, as in the game.
    fn translation(
        &mut self,
        key: Item<'_, '_>,
        parts: &Parts<'_, '_>,
        style: Style,
        depth: usize,
    ) -> Result<(), Error> {
        let args: Vec<Item<'_, '_>> = match parts.with {
            Some(with) if with.kind() == Kind::List => with.items().collect(),
            Some(with) => Vec::from([with]),
            None => Vec::new(),
        };
        let key_text = key.text().unwrap_or_default();
        let english = english::text(&key_text).map(Cow::Borrowed);
        let known = english.or_else(|| parts.fallback.and_then(Item::text));
        let is_known = known.is_some();
        let template = known.unwrap_or(key_text);
        self.work(key, template.len() + args.len() * KEY_BYTES)?;
        if template.contains('%') {
            return self.template(key, &template, &args, style, depth);
        }
        self.push(key, style, &template)?;
        // A text without a place for an argument has none to show.
        if !is_known && !args.is_empty() {
            for (i, arg) in args.into_iter().enumerate() {
                self.push(key, style, if i == 0 { "[" } else { ", " })?;
                self.component(arg, style, depth + 1)?;
            }
            self.push(key, style, "]")?;
        }
        Ok(())
    }

    /// Appends a template with its arguments in the places of `%s`, `%1$s` and so on.
    fn template(
        &mut self,
        key: Item<'_, '_>,
        template: &str,
        args: &[Item<'_, '_>],
        style: Style,
        depth: usize,
    ) -> Result<(), Error> {
        let mut next = 0;
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('%') {
            self.push(key, style, before)?;
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, conversion) = after.split_at(digits);
            let conversion = conversion.strip_prefix('$').unwrap_or(conversion);
            let index = match (after.as_bytes().first(), conversion.as_bytes().first()) {
                (Some(b'%'), _) => {
                    self.push(key, style, "%")?;
                    rest = after.get(1..).unwrap_or_default();
                    continue;
                }
                (_, Some(b's' | b'd')) if number.is_empty() => {
                    next += 1;
                    next - 1
                }
                (_, Some(b's' | b'd')) => number.parse::<usize>().unwrap_or(0).wrapping_sub(1),
                _ => {
                    self.push(key, style, "%")?;
                    rest = after;
                    continue;
                }
            };
            if let Some(arg) = args.get(index) {
                self.component(*arg, style, depth + 1)?;
            }
            rest = conversion.get(1..).unwrap_or_default();
        }
        self.push(key, style, rest)
    }
}

/// Returns a Boolean, also one that is a text.
fn boolean(item: Item<'_, '_>) -> Option<bool> {
    match item.kind() {
        Kind::Bool(value) => Some(value),
        Kind::Text => match item.bytes() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Names of the colors, in the order of their codes.
const NAMES: [&str; 16] = [
    "black",
    "dark_blue",
    "dark_green",
    "dark_aqua",
    "dark_red",
    "dark_purple",
    "gold",
    "gray",
    "dark_gray",
    "blue",
    "green",
    "aqua",
    "red",
    "light_purple",
    "yellow",
    "white",
];

/// Appends a text as a component: its codes, if the game knows all of them, or else a component
/// for each run. NULs are left out.
pub fn write(text: &Text, limit: usize, out: &mut Vec<u8>) {
    let raw = text.raw();
    let has_rgb = text
        .runs()
        .any(|(style, _)| matches!(style.color, Some(TextColor::Rgb(..))));
    let is_foreign = text.has_codes() && text.codes() != Codes::Legacy;
    if !has_rgb && !is_foreign {
        out.extend(*b"{\"text\":");
        json::write_text(&clean(super::message::cut_units(raw, limit)), out);
        out.push(b'}');
        return;
    }
    out.extend(*b"{\"text\":\"\",\"extra\":[");
    let mut left = limit;
    let mut is_first = true;
    for (style, piece) in text.runs() {
        let piece = clean(super::message::cut_units(piece, left));
        let piece = if is_foreign {
            Cow::Owned(piece.replace('\u{A7}', ""))
        } else {
            piece
        };
        left -= piece.encode_utf16().count().min(left);
        if piece.is_empty() {
            continue;
        }
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        out.extend(*b"{\"text\":");
        json::write_text(&piece, out);
        write_style(style, out);
        out.push(b'}');
    }
    out.extend(*b"]}");
}

/// Removes NULs, which old clients do not accept.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', ""))
    } else {
        Cow::Borrowed(text)
    }
}

fn write_style(style: Style, out: &mut Vec<u8>) {
    let color: String = match style.color {
        None => String::new(),
        Some(TextColor::Rgb(r, g, b)) => alloc::format!("#{r:02x}{g:02x}{b:02x}"),
        Some(TextColor::Legacy(code)) => NAMES
            .get(usize::from(code))
            .copied()
            .unwrap_or_default()
            .into(),
    };
    if !color.is_empty() {
        out.extend(*b",\"color\":");
        json::write_text(&color, out);
    }
    for (is_on, key) in [
        (style.is_bold, "bold"),
        (style.is_italic, "italic"),
        (style.is_underlined, "underlined"),
        (style.is_struck, "strikethrough"),
        (style.is_obfuscated, "obfuscated"),
    ] {
        if is_on {
            out.extend(alloc::format!(",\"{key}\":true").bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Json;
    use alloc::format;
    use alloc::string::ToString;

    fn flatten(text: &str) -> Result<(Text, Vec<&'static str>), String> {
        let json = Json::parse(text.as_bytes(), 0..text.len(), "JSON").unwrap();
        let mut notes = Notes::default();
        let text = read(json.root(), "description", &mut notes).map_err(|e| e.to_string())?;
        Ok((text, notes.met().map(|met| met.name).collect()))
    }

    #[test]
    fn flags_can_be_texts() {
        let json = r#"{"text":"a","bold":"true","extra":[{"text":"b","bold":"false"},"c"]}"#;
        let (text, _) = flatten(json).unwrap();
        let bold: String = text
            .runs()
            .filter(|(style, _)| style.is_bold)
            .map(|(_, piece)| piece)
            .collect();
        assert_eq!(bold, "ac");
    }

    #[test]
    fn every_form_has_its_plain_text() {
        for (component, plain) in [
            (r#""plain""#, "plain"),
            ("\"\u{A7}aA\u{A7}lB\u{A7}rC\"", "ABC"),
            (
                r#"{"text":"a","extra":["b",{"text":"c","extra":[{"text":"d"}]}]}"#,
                "abcd",
            ),
            (r#"["a",{"text":"b"},["c","d"]]"#, "abcd"),
            (
                r#"{"translate":"multiplayer.status.pinging"}"#,
                "Pinging...",
            ),
            (
                r#"{"translate":"disconnect.spam","fallback":"x","with":["y"]}"#,
                "Kicked for spamming",
            ),
            (
                r#"{"translate":"multiplayer.disconnect.banned.reason","with":[{"text":"spam"}]}"#,
                "You are banned from this server.\nReason: spam",
            ),
            (r#"{"translate":"x.y","fallback":"Hello"}"#, "Hello"),
            (
                r#"{"translate":"x.y","fallback":"Hello","with":["p"]}"#,
                "Hello",
            ),
            (
                r#"{"translate":"x.y","with":["p",{"text":"q"}]}"#,
                "x.y[p, q]",
            ),
            (
                r#"{"translate":"x.y","fallback":"%2$s, %s and %s: 100%% %x %9$s%","with":["p",{"text":"q"}]}"#,
                "q, p and q: 100% %x %",
            ),
            (r#"{"translate":"%s joined","with":"Alex"}"#, "Alex joined"),
            (r#"{"extra":["only extra"]}"#, "only extra"),
            (r#"{"extra":"no list"}"#, "no list"),
            (
                "{\"text\":\"\",\"extra\":[{\"text\":\"\u{A7}x\u{A7}f\u{A7}f\u{A7}0\u{A7}0\u{A7}0\u{A7}0red\"}]}",
                "red",
            ),
            ("\"\u{A7}#F1AEFFpink\"", "pink"),
            (
                r#"{"text":"h","hoverEvent":{"action":"show_text","value":"z"}}"#,
                "h",
            ),
            (r#"{"keybind":"key.jump"}"#, "key.jump"),
            (
                r#"{"score":{"name":"Alex","objective":"o","value":"7"}}"#,
                "7",
            ),
            (r#"{"selector":"@p"}"#, "@p"),
            (r#"{"nbt":"a.b","block":"1 2 3"}"#, "a.b"),
            (
                r#"{"object":"atlas","sprite":"s","extra":["after"]}"#,
                "after",
            ),
            (r#"{"":"unnamed"}"#, "unnamed"),
            (r#"{"text":7,"extra":[true,1.5e3,null]}"#, "7true1.5e3"),
            ("42", "42"),
            ("{}", ""),
            ("[]", ""),
            ("null", ""),
        ] {
            let (text, met) = flatten(component).unwrap();
            assert_eq!(
                (text.plain().as_str(), met),
                (plain, Vec::new()),
                "{component}"
            );
        }
    }

    #[test]
    fn styles_are_inherited_and_undone() {
        for (component, raw) in [
            (
                r##"{"text":"a","color":"red","bold":true,"extra":["b",{"text":"c","bold":false,"italic":true},{"text":"d","color":"#ff8800"}]}"##,
                "\u{A7}c\u{A7}lab\u{A7}c\u{A7}oc\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0\u{A7}ld",
            ),
            (
                r#"[{"text":"a","color":"gold"},"b",{"text":"c","color":"reset"}]"#,
                "\u{A7}6ab\u{A7}rc",
            ),
            // The codes of a text end with it.
            (
                "{\"text\":\"\u{A7}aA\",\"color\":\"blue\",\"extra\":[\"B\u{A7}lC\u{A7}rD\"]}",
                "\u{A7}aA\u{A7}9B\u{A7}lC\u{A7}9D",
            ),
            (
                r#"{"extra":[{"text":"late","underlined":true}],"color":"dark_aqua","strikethrough":"true"}"#,
                "\u{A7}3\u{A7}m\u{A7}nlate",
            ),
        ] {
            let (text, met) = flatten(component).unwrap();
            assert_eq!((text.raw(), met), (raw, Vec::new()), "{component}");
        }
    }

    #[test]
    fn a_single_text_keeps_its_codes_as_received() {
        for component in [
            "\"\u{A7}l\u{A7}aA\u{A7}zB\u{A7}\"",
            "{\"text\":\"\u{A7}l\u{A7}aA\u{A7}zB\u{A7}\"}",
        ] {
            let (text, _) = flatten(component).unwrap();
            assert_eq!(text.raw(), "\u{A7}l\u{A7}aA\u{A7}zB\u{A7}");
        }
    }

    #[test]
    fn deviations_are_named() {
        for (component, met) in [
            (r#"{"text":"a","color":"ash"}"#, &["unknown-color"][..]),
            (r##"{"text":"a","color":"#12345"}"##, &["unknown-color"]),
            (r##"{"text":"a","color":"#1234567"}"##, &["unknown-color"]),
            (r#"{"text":"b","text":"a"}"#, &["duplicate-keys"]),
            (
                r#"{"text":"a","bold":true,"bold":false}"#,
                &["duplicate-keys"],
            ),
        ] {
            let (text, found) = flatten(component).unwrap();
            assert_eq!((text.raw(), &*found), ("a", met), "{component}");
        }
    }

    #[test]
    fn arguments_are_one_level_deeper() {
        for template in ["x.y", "%s"] {
            let nested = |depth: usize| {
                let open = format!(r#"{{"translate":"{template}","with":["#);
                let text = format!("{}{}{}", open.repeat(depth), 7, "]}".repeat(depth));
                flatten(&text).is_ok()
            };
            // Lists of arguments count as a level of JSON only.
            assert!(nested(60), "{template}");
            assert!(nested(63), "{template}");
        }
    }

    #[test]
    fn every_key_is_distinguished_from_the_others() {
        let keys = [
            "text",
            "translate",
            "keybind",
            "score",
            "selector",
            "nbt",
            "object",
            "",
            "bold",
            "italic",
            "underlined",
            "strikethrough",
            "obfuscated",
            "color",
            "fallback",
            "with",
            "extra",
        ];
        let object = |keys: &[&str]| {
            let entries: Vec<String> = keys.iter().map(|key| format!("\"{key}\":null")).collect();
            format!("{{{}}}", entries.join(","))
        };
        let (_, met) = flatten(&object(&keys)).unwrap();
        assert_eq!(met, ["unknown-color"], "each key once");
        for key in keys {
            let (_, met) = flatten(&object(&[key, "font", key])).unwrap();
            assert!(met.contains(&"duplicate-keys"), "{key:?}: {met:?}");
        }
        let (_, met) = flatten(&object(&["font", "insertion", "font"])).unwrap();
        assert_eq!(met, [""; 0], "keys without a meaning");
    }

    #[test]
    fn depth_number_and_length_have_limits() {
        let nested = |depth| {
            format!(
                "{}\"x\"{}",
                r#"{"extra":["#.repeat(depth),
                "]}".repeat(depth)
            )
        };
        assert_eq!(flatten(&nested(MAX_DEPTH / 2)).unwrap().0.plain(), "x");
        assert_eq!(
            flatten(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap_err(),
            "description at offset 65: more than 64 levels of nesting"
        );
        let many = format!("[{}1]", "1,".repeat(MAX_COMPONENTS));
        assert_eq!(
            flatten(&many).unwrap_err(),
            "description at offset 19999: more than 10000 components"
        );
        let long = format!("[{:?}]", "x".repeat(MAX_TEXT_BYTES + 1));
        assert_eq!(
            flatten(&long).unwrap_err(),
            "description at offset 1: more than 65536 bytes"
        );
        assert_eq!(
            flatten(long.trim_matches(['[', ']'])).unwrap_err(),
            "description at offset 0: more than 65536 bytes"
        );
        // One argument in many places must not multiply it without limit.
        let bomb = format!(
            r#"{{"translate":"{0}","with":[{{"translate":"{0}","with":[{{"translate":"{0}","with":["x"]}}]}}]}}"#,
            "%1$s".repeat(1_000)
        );
        assert!(flatten(&bomb).unwrap_err().contains("more than"));
        // Nor one without visible text.
        let codes = format!(
            r#"{{"translate":"{}","with":["{}"]}}"#,
            "%1$s".repeat(9_000),
            "\u{A7}a".repeat(300_000)
        );
        assert!(flatten(&codes).unwrap_err().contains("more than"));
    }

    #[test]
    fn texts_survive_components() {
        for raw in [
            "plain",
            "\u{A7}l\u{A7}6Gold\nline \"quoted\" \\",
            "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0RGB\u{A7}r\u{A7}o \u{A7}aeasy",
            "",
        ] {
            let mut out = Vec::new();
            write(&Text::legacy(raw), 2_000, &mut out);
            let (text, met) = flatten(core::str::from_utf8(&out).unwrap()).unwrap();
            assert_eq!((text, met), (Text::legacy(raw), Vec::new()), "{raw:?}");
        }
    }
}
