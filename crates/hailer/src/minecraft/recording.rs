//! Recordings: text files with the decrypted packets of one connection, one per line.
//!
//! ```text
//! # hailer session 1
//! # build 1.3.2
//! > 0.000000 0227…      to the server, seconds since the beginning, the packet's bytes
//! < 0.041250 fd…        to the client
//! ```
//!
//! Tools such as `grep` and `diff` can read the text. If a session is interrupted, only its last
//! line is lost. Lines that begin with `#` are comments.

use hailer_minecraft::stream::MAX_PACKET;
use hailer_minecraft::{Build, PacketDirection};
use hailer_proto::wire::hexadecimal;
use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

/// First line of every recording.
const MAGIC: &str = "# hailer session 1";
/// Maximum length of a line, in bytes: the longest packet in hexadecimal, plus direction and time.
const MAX_LINE: u64 = 2 * MAX_PACKET as u64 + 64;

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
}

impl<W: Write> Recorder<W> {
    /// Starts a recording.
    ///
    /// # Errors
    /// Writing the header failed.
    pub fn start(mut out: W, build: Build) -> io::Result<Self> {
        writeln!(out, "{MAGIC}\n# build {build}")?;
        Ok(Self { out })
    }

    /// Writes a packet that was transferred `at` after the start.
    ///
    /// # Errors
    /// Writing failed.
    pub fn packet(
        &mut self,
        at: Duration,
        direction: PacketDirection,
        bytes: &[u8],
    ) -> io::Result<()> {
        let arrow = if direction == PacketDirection::ToServer {
            '>'
        } else {
            '<'
        };
        let line = format!(
            "{arrow} {}.{:06} {}\n",
            at.as_secs(),
            at.subsec_micros(),
            hexadecimal(bytes)
        );
        // One write, so that readers of the growing file see complete lines.
        self.out.write_all(line.as_bytes())
    }

    /// Writes buffered lines to the file.
    ///
    /// # Errors
    /// Writing failed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One packet of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedPacket {
    /// Time since the start.
    pub at: Duration,
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// Bytes of the packet, decrypted.
    pub bytes: Vec<u8>,
}

/// Error in a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// Reading the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        problem: String,
    },
}

/// Reads a recording line by line.
#[derive(Debug)]
pub struct Recording<R> {
    input: R,
    build: Build,
    line: usize,
}

impl<R: BufRead> Recording<R> {
    /// Returns whether a file with these first bytes is a recording.
    pub fn is_one(start: &[u8]) -> bool {
        start.starts_with(MAGIC.as_bytes())
    }

    /// Reads the header.
    ///
    /// # Errors
    /// The header is invalid, or reading failed.
    pub fn open(input: R) -> Result<Self, RecordingError> {
        let mut recording = Self {
            input,
            build: Build::LATEST,
            line: 0,
        };
        let wrong = |line, problem: String| RecordingError::Line { line, problem };
        let magic = recording.next_line()?.unwrap_or_default();
        if magic.trim_end() != MAGIC {
            return Err(wrong(
                1,
                format!("not a recording; the first line must be {MAGIC:?}"),
            ));
        }
        let head = recording.next_line()?.unwrap_or_default();
        let build = head.trim_end().strip_prefix("# build ");
        let build =
            build.ok_or_else(|| wrong(2, "must name the build, such as `# build 1.3.2`".into()))?;
        recording.build = build
            .parse()
            .map_err(|error| wrong(2, format!("{error}")))?;
        Ok(recording)
    }

    /// Returns the build that the session used.
    pub fn build(&self) -> Build {
        self.build
    }

    fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.line += 1;
        let length = self.input.by_ref().take(MAX_LINE).read_line(&mut line)?;
        Ok((length > 0).then_some(line))
    }

    fn entry(&self, text: &str) -> Result<RecordedPacket, RecordingError> {
        let wrong = |problem: &str| RecordingError::Line {
            line: self.line,
            problem: problem.into(),
        };
        let mut words = text.split_ascii_whitespace();
        let direction = match words.next() {
            Some(">") => PacketDirection::ToServer,
            Some("<") => PacketDirection::ToClient,
            _ => {
                return Err(wrong(
                    "must begin with `>` (to the server), `<` (to the client) or `#`",
                ));
            }
        };
        let seconds = words.next().and_then(|word| word.parse().ok());
        let at = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let at = at.ok_or_else(|| wrong("the second word must be a time in seconds"))?;
        let digits = words.next().unwrap_or_default().as_bytes();
        let (pairs, odd) = digits.as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        match bytes {
            Some(bytes) if odd.is_empty() && !bytes.is_empty() => Ok(RecordedPacket {
                at,
                direction,
                bytes,
            }),
            _ => Err(wrong("the third word must be a packet in hexadecimal")),
        }
    }
}

impl<R: BufRead> Iterator for Recording<R> {
    type Item = Result<RecordedPacket, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.next_line() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error.into())),
            };
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Some(self.entry(text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_recordings() {
        let mut file = Vec::new();
        let mut recorder = Recorder::start(&mut file, Build::W17a).unwrap();
        recorder
            .packet(
                Duration::from_micros(1_500_001),
                PacketDirection::ToServer,
                &[0xFE],
            )
            .unwrap();
        recorder
            .packet(
                Duration::from_secs(2),
                PacketDirection::ToClient,
                &[0xFF, 0, 0],
            )
            .unwrap();
        assert!(Recording::<&[u8]>::is_one(&file));
        let recording = Recording::open(&file[..]).unwrap();
        assert_eq!(recording.build(), Build::W17a);
        let entries: Vec<RecordedPacket> = recording.map(Result::unwrap).collect();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0],
            RecordedPacket {
                at: Duration::from_micros(1_500_001),
                direction: PacketDirection::ToServer,
                bytes: vec![0xFE]
            }
        );
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| match Recording::open(text.as_bytes()) {
            Ok(recording) => recording
                .filter_map(Result::err)
                .map(|error| error.to_string())
                .next(),
            Err(error) => Some(error.to_string()),
        };
        let head = "# hailer session 1\n# build 39\n";
        assert!(
            error("nonsense")
                .unwrap()
                .starts_with("line 1: not a recording")
        );
        assert!(
            error("# hailer session 1\n# build 2.0\n")
                .unwrap()
                .starts_with("line 2: \"2.0\" is no build")
        );
        for line in ["? 0 fe", "> soon fe", "> 0 f", "> 0", "> 0 zz", "> -1 fe"] {
            assert!(
                error(&format!("{head}\n{line}\n"))
                    .unwrap()
                    .starts_with("line 4: "),
                "{line}"
            );
        }
        assert_eq!(error(&format!("{head}# note\n\n< 1 ff0000")), None);
    }
}
