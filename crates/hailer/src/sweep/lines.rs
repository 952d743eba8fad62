//! Lists of targets and exclusions, line by line.

use crate::catalog::CatalogError;
use crate::target::TargetError;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// Largest number of probes in a sweep and of addresses in a range. At 400 probes per second they
/// take 87 years.
pub(super) const MAX_PROBES: u64 = 1 << 40;
/// Largest number of protocols and games that one process can sweep with.
pub(super) const MAX_KINDS: usize = 1 << 13;
/// Longest target, in bytes.
const MAX_LINE: usize = 1024;

/// Errors of target lists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A line is invalid.
    #[error("{file}:{line}: {error}")]
    Line {
        /// Name of the list.
        file: Arc<str>,
        /// Line number, from 1.
        line: u64,
        /// Problem with the line.
        error: TargetError,
    },
    /// The list cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    Read {
        /// Name of the list.
        file: Arc<str>,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The process has used too many protocols and games.
    #[error("a process can sweep with at most {MAX_KINDS} protocols and games")]
    TooManyKinds,
    /// Servers of the game cannot be queried.
    #[error(transparent)]
    Game(CatalogError),
    /// Servers of the protocol or game are queried over HTTP only.
    #[error(
        "{0} is queried over HTTP, which a sweep does not do; use `hailer query` or `hailer monitor`"
    )]
    Http(&'static str),
    /// More than 2^40 probes.
    #[error("{0} questions are too many: a sweep asks at most {MAX_PROBES}; split the ranges")]
    TooMany(u128),
}

/// Reads lines one by one while they arrive.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    is_first: bool,
}

/// A line of a list.
pub(super) enum Line<'a> {
    /// Only white space or a comment.
    Blank,
    /// First word of the line.
    Word(&'a str),
    /// Invalid UTF-8, or too long for a target.
    Wrong(TargetError),
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(1 << 16, input),
            line: Vec::new(),
            is_first: true,
        }
    }

    /// Returns whether a full line is buffered, so that the next read cannot block.
    pub(super) fn is_ready(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// Returns the next line, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
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
pub(super) fn read_lines(
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
