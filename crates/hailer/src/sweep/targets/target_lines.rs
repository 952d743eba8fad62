//! Lists of targets and exclusions, line by line.

use crate::sweep::ListError;
use crate::target::TargetError;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// Longest target, in bytes.
const MAX_LINE: usize = 1024;

/// Reads lines one by one while they arrive.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    is_first: bool,
}

/// A line of a list.
pub(crate) enum Line<'a> {
    /// Only white space or a comment.
    Blank,
    /// First word of the line.
    Word(&'a str),
    /// Invalid UTF-8, or too long for a target.
    Wrong(TargetError),
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(1 << 16, input),
            line: Vec::new(),
            is_first: true,
        }
    }

    /// Returns whether a full line is buffered, so that the next read cannot block.
    pub(crate) fn is_ready(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// Returns the next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut limited = (&mut self.input).take(MAX_LINE as u64 + 1);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let is_whole = self.line.ends_with(b"\n") || self.line.len() <= MAX_LINE;
        if !is_whole {
            self.input.skip_until(b'\n')?;
        }
        if std::mem::replace(&mut self.is_first, false) && self.line.starts_with(b"\xEF\xBB\xBF") {
            self.line.drain(..3);
        }
        let Some(word) = word(&self.line) else {
            return Ok(Some(Line::Blank));
        };
        // A long comment is allowed. A word that may continue is not.
        let is_cut = !is_whole && self.line.ends_with(word);
        Ok(Some(match std::str::from_utf8(word) {
            _ if is_cut => Line::Wrong(TargetError::new(
                &String::from_utf8_lossy(word),
                format!("longer than {MAX_LINE} bytes"),
            )),
            Ok(word) => Line::Word(word),
            Err(_) => Line::Wrong(TargetError::new(
                &String::from_utf8_lossy(word),
                "not text in UTF-8".into(),
            )),
        }))
    }
}

/// Passes the first word of each line to `each`, and the errors to `wrong`.
pub(crate) fn read_lines(
    name: &str,
    input: impl Read,
    mut each: impl FnMut(&str) -> Result<(), TargetError>,
    mut wrong: impl FnMut(ListError) -> Result<(), ListError>,
) -> Result<(), ListError> {
    let file: Arc<str> = name.into();
    let mut lines = Lines::new(input);
    for number in 1.. {
        let result = match lines.next() {
            Ok(None) => break,
            Ok(Some(Line::Blank)) => Ok(()),
            Ok(Some(Line::Word(word))) => each(word),
            Ok(Some(Line::Wrong(error))) => Err(error),
            Err(cause) => return Err(ListError::Read { file, cause }),
        };
        if let Err(error) = result {
            wrong(ListError::Line {
                file: file.clone(),
                line: number,
                error,
            })?;
        }
    }
    Ok(())
}

/// Returns the first word of a line before any comment.
fn word(line: &[u8]) -> Option<&[u8]> {
    let text = line.split(|byte| *byte == b'#').next()?;
    text.split(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())
}
