//! Parser for metrics in the OpenMetrics text format, as strict as our own output.

use std::collections::{BTreeMap, BTreeSet};

/// Name of a sample and its labels.
pub type Series = (String, BTreeMap<String, String>);

/// Returns the value of each sample. Panics on text that is not OpenMetrics 1.0, on time stamps, and
/// on values that are negative or not finite.
pub fn parse(text: &str) -> BTreeMap<Series, f64> {
    let text = text.strip_suffix("# EOF\n").expect("an end marker");
    assert!(text.is_empty() || text.ends_with('\n'));
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut sample_name = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect(line);
            assert!(
                is_name(name) && words.ends_with('.') && !words.contains('\\'),
                "{line}"
            );
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let (typed, kind) = kind.and_then(|kind| kind.split_once(' ')).expect(line);
            assert_eq!(typed, name, "type of another family");
            let suffix = match kind {
                "counter" => "_total",
                "gauge" => "",
                "info" => "_info",
                _ => panic!("{kind}: unknown type"),
            };
            let has_suffix = ["_total", "_info", "_count", "_sum", "_bucket", "_created"]
                .iter()
                .any(|suffix| name.ends_with(suffix));
            assert!(!has_suffix, "{name}: the suffix belongs to the sample");
            assert!(families.insert(name), "{name} twice");
            sample_name = format!("{name}{suffix}");
            continue;
        }
        let end = line.find(['{', ' ']).expect(line);
        assert_eq!(&line[..end], sample_name, "a sample outside of its family");
        let (labels, value) = parse_labels(&line[end..]);
        let value: f64 = value.strip_prefix(' ').expect(line).parse().expect(line);
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let is_new = samples
            .insert((sample_name.clone(), labels), value)
            .is_none();
        assert!(is_new, "a series twice: {line}");
    }
    samples
}

/// Returns the value of one series.
pub fn value(samples: &BTreeMap<Series, f64>, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut series = (name.to_owned(), BTreeMap::new());
    for (label, value) in labels {
        series.1.insert((*label).to_owned(), (*value).to_owned());
    }
    samples.get(&series).copied()
}

fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_word) && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// Splits the labels from the rest of a line.
fn parse_labels(line: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let Some(mut rest) = line.strip_prefix('{') else {
        return (labels, line);
    };
    loop {
        let (label, value) = rest.split_once("=\"").expect(line);
        assert!(
            !label.is_empty() && is_name(label) && !label.starts_with("__"),
            "{line}"
        );
        let mut text = String::new();
        let mut chars = value.char_indices();
        let end = loop {
            match chars.next().expect("an open label") {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => text.push(c),
                    _ => panic!("invalid escape in {line}"),
                },
                (_, c) => text.push(c),
            }
        };
        let is_new = labels.insert(label.to_owned(), text).is_none();
        assert!(is_new, "{label} twice in {line}");
        rest = &value[end + 1..];
        if let Some(end) = rest.strip_prefix('}') {
            return (labels, end);
        }
        rest = rest.strip_prefix(',').expect(line);
    }
}
