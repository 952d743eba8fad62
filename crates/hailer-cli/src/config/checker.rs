//! Checks that types cannot express: keys that exclude or need each other, and named files.
//!
//! In: parsed tables, files that they name. Out: problems with line numbers.
//!
//! May import: `crate::config::reader`, `hailer`.

use super::reader::{Lines, Problem};
use hailer::proto::{Icon, Secret};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Limit of the bytes of an icon, as in [`Icon::from_png`].
const MAX_ICON_BYTES: u64 = 64 << 10;

/// Collects mistakes and warnings about one file.
pub(crate) struct Checker<'a> {
    /// Base of relative paths.
    pub(crate) folder: &'a Path,
    lines: &'a Lines,
    pub(crate) problems: Vec<Problem>,
    /// Accepted settings that are probably mistakes.
    pub(crate) warnings: Vec<Problem>,
}

impl<'a> Checker<'a> {
    /// Begins with the mistakes that the reader found.
    pub(crate) fn new(folder: &'a Path, lines: &'a Lines, problems: Vec<Problem>) -> Self {
        Self {
            folder,
            lines,
            problems,
            warnings: Vec::new(),
        }
    }

    /// Returns the line of a value, from 1.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.lines.at(span.start)
    }

    /// Records a mistake. Always returns `None`, for use with `?` and `return`.
    pub(crate) fn wrong<T>(&mut self, span: &Range<usize>, text: impl Into<String>) -> Option<T> {
        let line = self.line(span);
        let text = text.into();
        self.problems.push(Problem { line, text });
        None
    }

    pub(crate) fn warn(&mut self, span: &Range<usize>, text: impl Into<String>) {
        let line = self.line(span);
        let text = text.into();
        self.warnings.push(Problem { line, text });
    }

    /// Reads a token from the first line of a file. Errors never contain the token.
    pub(crate) fn token(
        &mut self,
        key: &str,
        file: &Spanned<PathBuf>,
        min_bytes: usize,
    ) -> Option<Secret> {
        let path = self.folder.join(file.get_ref());
        let shown = path.display();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                let fix = "expected the path of a file whose first line is the token";
                return self.wrong(&file.span(), format!("{key}: {shown}: {error}; {fix}"));
            }
        };
        if let Some(warning) = readable_by_all(&path) {
            self.warn(&file.span(), format!("{key}: {warning}"));
        }
        let token = text.lines().next().unwrap_or_default().trim();
        match token.len() {
            0 => self.wrong(
                &file.span(),
                format!("{key}: {shown}: the first line is empty; write the token there"),
            ),
            bytes if bytes < min_bytes => {
                let fix = "make a longer one, for example with `openssl rand -hex 16`";
                self.wrong(
                    &file.span(),
                    format!(
                        "{key}: {shown}: the token has {bytes} bytes, fewer than {min_bytes}; {fix}"
                    ),
                )
            }
            _ => Some(token.into()),
        }
    }

    /// Reads the icon of a status from a PNG file.
    pub(crate) fn icon(&mut self, file: &Spanned<PathBuf>) -> Option<Icon> {
        let path = self.folder.join(file.get_ref());
        read_icon(&path).map_or_else(
            |problem| {
                let fix = "expected the path of a PNG file of at most 64 KiB";
                let text = format!("status.icon: {}: {problem}; {fix}", path.display());
                self.wrong(&file.span(), text)
            },
            Some,
        )
    }

    /// Reads a PEM file for TLS. Errors never contain its content.
    #[cfg(feature = "redis")]
    pub(crate) fn pem(&mut self, key: &str, file: &Spanned<PathBuf>) -> Option<Vec<u8>> {
        let path = self.folder.join(file.get_ref());
        let shown = path.display();
        let problem = match std::fs::read(&path) {
            Ok(bytes) if bytes.windows(11).any(|window| window == b"-----BEGIN ") => {
                return Some(bytes);
            }
            Ok(_) => "no line begins with -----BEGIN".to_owned(),
            Err(error) => error.to_string(),
        };
        let fix = "expected the path of a PEM file";
        self.wrong(&file.span(), format!("{key}: {shown}: {problem}; {fix}"))
    }
}

/// Reads an icon.
fn read_icon(path: &Path) -> Result<Icon, String> {
    let mut bytes = Vec::new();
    // Do not read more than is needed to notice that the file is too large.
    let read = File::open(path).and_then(|file| {
        let limit = MAX_ICON_BYTES + 1;
        file.take(limit).read_to_end(&mut bytes)
    });
    read.map_err(|error| error.to_string())?;
    Icon::from_png(&bytes).map_err(|error| error.to_string())
}

/// Returns a warning if every user of the machine can read a file with a secret.
pub(crate) fn readable_by_all(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = std::fs::metadata(path).ok()?.mode();
        (mode & 0o004 != 0).then(|| {
            let path = path.display();
            format!("every user of this machine can read {path}; run `chmod 600 {path}`")
        })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Keys of a Redis connection, shared by `[cluster]` and `network`.
#[cfg(feature = "redis")]
pub(crate) struct RedisKeys<'a> {
    pub(crate) user: &'a Option<Spanned<String>>,
    pub(crate) password_file: &'a Option<Spanned<PathBuf>>,
    pub(crate) ca_file: &'a Option<Spanned<PathBuf>>,
    pub(crate) certificate_file: &'a Option<Spanned<PathBuf>>,
    pub(crate) key_file: &'a Option<Spanned<PathBuf>>,
}

#[cfg(feature = "redis")]
impl RedisKeys<'_> {
    /// Applies user, password and certificates to a Redis configuration.
    pub(crate) fn apply(
        &self,
        table: &str,
        redis: &mut hailer::support::link::RedisConfig,
        checker: &mut Checker<'_>,
    ) -> Option<()> {
        match (self.user, self.password_file) {
            (user, Some(file)) => {
                let password = checker.token(&format!("{table}.password-file"), file, 1)?;
                let user = user.as_ref().map(|user| user.get_ref().as_str());
                redis.log_in(user, password.reveal());
            }
            (Some(user), None) => {
                let text = format!("{table}.user: needs password-file as well");
                return checker.wrong(&user.span(), text);
            }
            (None, None) => {}
        }
        if let Some(file) = self.ca_file {
            redis.authorities = Some(checker.pem(&format!("{table}.ca-file"), file)?);
        }
        match (self.certificate_file, self.key_file) {
            (Some(certificate), Some(key)) => {
                let certificate = checker.pem(&format!("{table}.certificate-file"), certificate)?;
                let key = checker.pem(&format!("{table}.key-file"), key)?;
                redis.identity = Some((certificate, key));
            }
            (Some(one), None) | (None, Some(one)) => {
                let text = format!("{table}: certificate-file and key-file need each other");
                return checker.wrong(&one.span(), text);
            }
            (None, None) => {}
        }
        Some(())
    }
}

/// Formats the mistakes of a file as lines such as `FILE:3: server.listen: …`, sorted and without
/// duplicates.
pub(crate) fn lines_of(name: &str, problems: Vec<Problem>) -> String {
    let unique: BTreeSet<Problem> = problems.into_iter().collect();
    let line = |problem: &Problem| format!("{name}:{}: {}", problem.line, problem.text);
    unique.iter().map(line).collect::<Vec<_>>().join("\n")
}
