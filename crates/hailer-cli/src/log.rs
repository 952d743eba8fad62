//! Log of the commands that run as services, on standard error, for people or programs.
//!
//! ```text
//!   warning: source: status.json:2: EOF while parsing a string      --log-format text
//!   {"timestamp":"…","level":"WARN","fields":{"message":"…"}}       --log-format json
//! ```
//!
//! Callers use a [`limiter`] for lines that peers can cause.

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::fmt;
use std::num::NonZeroU32;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Level and format of the log.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Lowest severity of the messages to log
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    log_level: LogLevel,
    /// Log human-readable lines, or one JSON object per line
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LogArgs {
    /// Starts the log of this process. Earlier events are lost.
    pub(crate) fn start(self) {
        let level = match self.log_level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        // Messages of the database driver are for its authors. Failures are reported in our words.
        let of_driver = match self.log_level {
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Error | LogLevel::Warn | LogLevel::Info => LevelFilter::OFF,
        };
        let filter = Targets::new()
            .with_default(level)
            .with_target("sqlx", of_driver);
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(StandardError::new);
        // This fails only on a second start in one process. The first log then stays in use.
        let _ = match self.log_format {
            LogFormat::Text => log.event_format(Text).finish().with(filter).try_init(),
            LogFormat::Json => log.json().finish().with(filter).try_init(),
        };
    }
}

/// Writer to standard error. Removes colors unless that is a terminal, and ignores a closed pipe.
struct StandardError(anstream::Stderr);

impl StandardError {
    fn new() -> Self {
        Self(anstream::stderr())
    }
}

impl std::io::Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// The format `warning: MESSAGE key=value`. The service manager adds the time.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (start, level) = match *event.metadata().level() {
            Level::ERROR => ("\x1b[1;31m", "error"),
            Level::WARN => ("\x1b[33m", "warning"),
            Level::INFO => ("\x1b[2m", "info"),
            _ => ("\x1b[2m", "debug"),
        };
        write!(writer, "{start}{level}:\x1b[0m ")?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Limits lines to an average of `per_second`, with bursts of at most `burst`.
pub(crate) fn limiter(per_second: NonZeroU32, burst: NonZeroU32) -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(per_second).allow_burst(burst))
}
