//! Hexadecimal input: plain, with spaces or colons, with `0x` or `\x`, or from a dump with offsets
//! and text.

use super::input::InputDatagram;

/// Parses the bytes of one datagram.
///
/// # Errors
/// A word is not hexadecimal, or has an odd number of digits.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let text = text
        .replace("0x", " ")
        .replace("0X", " ")
        .replace("\\x", " ");
    let mut bytes = Vec::new();
    for word in text
        .split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';'))
        .filter(|word| !word.is_empty())
    {
        if let Some(wrong) = word.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("{wrong:?} is not a hexadecimal digit"));
        }
        // A single digit is one byte. Any other odd number of digits is an error.
        match word.len() {
            1 => bytes.push(u8::from_str_radix(word, 16).unwrap_or_default()),
            odd if odd % 2 == 1 => return Err(format!("{word}: an odd number of digits")),
            length => {
                for at in (0..length).step_by(2) {
                    bytes.push(u8::from_str_radix(&word[at..at + 2], 16).unwrap_or_default());
                }
            }
        }
    }
    Ok(bytes)
}

/// Parses one datagram per line. Lines of a dump begin with an offset and form one datagram until
/// the offset is 0 again.
///
/// # Errors
/// A line is not hexadecimal. The error names the line.
pub(super) fn lines(text: &str) -> Result<Vec<InputDatagram>, String> {
    let mut found: Vec<InputDatagram> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line
            .split('#')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_start_matches(['<', '>', ' ']);
        if line.is_empty() {
            continue;
        }
        let (offset, digits) =
            dump_line(line).map_or((None, line), |(offset, digits)| (Some(offset), digits));
        let bytes = bytes(digits).map_err(|problem| format!("line {number}: {problem}"))?;
        match (offset, found.last_mut()) {
            (Some(offset @ 1..), Some(last)) if last.bytes.len() == offset => {
                last.bytes.extend(bytes);
            }
            _ if bytes.is_empty() => {}
            _ => found.push(InputDatagram {
                place: format!("line {number}"),
                ends: None,
                bytes,
            }),
        }
    }
    Ok(found)
}

/// Returns offset and digits of a line such as `00000010: 6669 7273  text` (xxd) or `0010  66 69 72
/// text` (tcpdump, Wireshark).
fn dump_line(line: &str) -> Option<(usize, &str)> {
    let line = line.strip_prefix("0x").unwrap_or(line);
    let end = line.find(|c: char| !c.is_ascii_hexdigit())?;
    let (offset, rest) = line.split_at(end);
    let rest = match rest.strip_prefix(':') {
        Some(rest) => rest.trim_start(),
        None => rest.strip_prefix("  ")?.trim_start(),
    };
    if !(4..=8).contains(&offset.len()) {
        return None;
    }
    // Two spaces separate the digits from the text, but also the halves of a row. A word that is
    // not hexadecimal begins the text.
    let mut end = 0;
    for word in rest.split(' ') {
        let is_text = !word.is_empty()
            && (word.len() % 2 == 1 || !word.bytes().all(|b| b.is_ascii_hexdigit()));
        let after_gap = rest[..end].ends_with("  ");
        if is_text || after_gap && bytes(&rest[..end]).is_ok_and(|bytes| bytes.len() >= 16) {
            break;
        }
        end = (end + word.len() + 1).min(rest.len());
    }
    Some((usize::from_str_radix(offset, 16).ok()?, &rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_notation() {
        let expected = Ok(vec![0xFE, 0xFD, 0x09, 0x00]);
        for text in [
            "fefd0900",
            "FE FD 09 00",
            "fe:fd:09:00",
            "0xfe, 0xfd, 0x09, 0x00",
            "\\xfe\\xfd\\x09\\x00",
            "fe fd 9 0",
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert!(bytes("fef").unwrap_err().contains("odd"));
        assert!(bytes("xyz").unwrap_err().contains("not a hexadecimal"));
    }

    #[test]
    fn joins_the_lines_of_a_dump() {
        let xxd = "00000000: fefd 0900 0000 0100 0102 0304 0506 0708  ................\n00000010: aabb                                     ..\n\
                   00000000: 4142 43                                  ABC\n";
        let found = lines(xxd).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].bytes.len(), 18);
        assert_eq!(found[1].bytes, b"ABC");
        let canonical = "00000000  fe fd 09 00 00 00 01 00  01 02 03 04 05 06 07 08  |................|\n00000010  aa bb  |..|\n";
        assert_eq!(lines(canonical).unwrap()[0].bytes.len(), 18);
    }

    #[test]
    fn parses_one_datagram_per_line() {
        let found = lines("# request\n> fefd0900000001\n< 090000000131 00\n\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].place, "line 3");
        assert!(lines("fefd\nzz").is_err_and(|problem| problem.starts_with("line 2")));
    }
}
