//! Where the ends of a sweep go: encoded on the thread that sweeps, written by one of its own.
//!
//! ```text
//!   end ─► Encoder ─► buffer ─► queue of full ones ─► writer: output, then the checkpoint that speaks of it
//!           sweep's thread      at most QUEUE          its own thread
//! ```
//!
//! Bounds: the queue holds [`QUEUE`] buffers of [`BATCH`] bytes and what the last end took beyond. If the reader of our output
//! is slow the queue fills, the sink says so, and the sweep asks nobody new; the buffer then grows by the answers of those who
//! were asked, and by no more.

use super::checkpoint::{Checkpoint, Sweep};
use super::progress::Progress;
use super::stop::Stop;
use super::tally;
use crate::print::csv::Csv;
use crate::print::fields::{Field, Record};
use crate::print::{lines, ndjson};
use hailer::Asked;
use hailer::sweep::{Beat, Counts, End, Position, Sink};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// A buffer is full with so many bytes.
const BATCH: usize = 256 << 10;
/// Full buffers that wait to be written.
const QUEUE: usize = 8;
/// From one checkpoint to the next.
const CHECKPOINTS: Duration = Duration::from_secs(1);

/// How an end becomes bytes.
pub(super) enum Encoder {
    /// The documented line of JSON.
    Whole,
    /// JSON of chosen fields.
    Flat(Vec<&'static Field>),
    Csv(Csv),
    /// For people; whether with the names of players.
    Lines(bool),
}

impl Encoder {
    /// What stands before the first record.
    fn header(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Csv(csv) => csv.header(out),
            Self::Lines(_) => lines::header(out),
            Self::Whole | Self::Flat(_) => {}
        }
    }

    fn record(&mut self, out: &mut Vec<u8>, target: &str, end: &End) {
        let at = match self {
            Self::Whole | Self::Lines(_) => SystemTime::UNIX_EPOCH,
            Self::Flat(_) | Self::Csv(_) => SystemTime::now(),
        };
        let record = Record { target, at, result: &end.result };
        match self {
            Self::Whole => ndjson::whole(out, &record),
            Self::Flat(fields) => ndjson::flat(out, fields, &record),
            Self::Csv(csv) => csv.record(out, &record),
            Self::Lines(listed) => lines::record(out, &record, *listed),
        }
    }
}

/// What to write, and where.
pub(super) struct Plan {
    pub(super) encoder: Encoder,
    /// Failures too.
    pub(super) failed: bool,
    /// Where the bytes go; at the place where the next one belongs.
    pub(super) to: Box<dyn Write + Send>,
    /// Bytes that are there already, if it is a file.
    pub(super) length: Option<u64>,
    /// Where checkpoints go, and of which sweep they are.
    pub(super) checkpoint: Option<(PathBuf, Sweep)>,
    /// How far the sweep had come, if this continues one.
    pub(super) before: Option<Checkpoint>,
    pub(super) progress: Progress,
    pub(super) stop: Arc<Stop>,
}

/// The sink.
pub(super) struct Output {
    encoder: Encoder,
    failed: bool,
    buffer: Vec<u8>,
    /// Text of the target at work.
    target: String,
    batches: SyncSender<Batch>,
    writer: JoinHandle<io::Result<()>>,
    shared: Arc<Shared>,
    stop: Arc<Stop>,
    progress: Progress,
    /// Of which sweep, if there are any.
    checkpoints: Option<Sweep>,
    /// When the last was made.
    last: Instant,
    /// How far it came, as of the last beat since it was told to stop.
    stopped_at: Option<Position>,
    before: (Counts, f64),
    started: Instant,
}

struct Batch {
    bytes: Vec<u8>,
    checkpoint: Option<Checkpoint>,
}

/// What the two threads know of each other.
#[derive(Default)]
struct Shared {
    /// Batches that wait, the one at work included.
    waiting: AtomicUsize,
    /// The writer ended: nobody reads, or an error that it returns.
    over: AtomicBool,
}

impl Output {
    /// Starts the writer, with the header of a new output.
    pub(super) fn new(plan: Plan) -> io::Result<Self> {
        let Plan { mut encoder, failed, to, length, checkpoint, before, progress, stop } = plan;
        let (path, checkpoints) = checkpoint.unzip();
        let (batches, receiver) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let writer = Writer { to, length, path, shared: shared.clone(), progress: progress.clone() };
        let writer = std::thread::Builder::new().name("writer".into()).spawn(move || writer.run(&receiver))?;
        let mut buffer = Vec::with_capacity(BATCH + BATCH / 4);
        if before.is_none() {
            encoder.header(&mut buffer);
        }
        let (is_new, now) = (before.is_none(), Instant::now());
        let mut output = Self {
            encoder,
            failed,
            buffer,
            target: String::new(),
            batches,
            writer,
            shared,
            stop,
            progress,
            checkpoints,
            last: now,
            stopped_at: None,
            before: before.map(|it| (it.counts, it.seconds)).unwrap_or_default(),
            started: now,
        };
        if is_new {
            // There is one before the first question is asked.
            let checkpoint = output.checkpoint(Position::default(), &Counts::default());
            output.hand_over(checkpoint);
        }
        Ok(output)
    }

    /// Writes what is left and waits until it is written. Returns what happened, earlier parts of the sweep included, and how
    /// long it took.
    pub(super) fn finish(mut self, counts: &Counts) -> io::Result<(Counts, Duration)> {
        let checkpoint = self.stopped_at.take().and_then(|position| self.checkpoint(position, counts));
        let Self { buffer, batches, writer, progress, before, started, .. } = self;
        // If the writer has ended, it says why.
        let _ = batches.send(Batch { bytes: buffer, checkpoint });
        drop(batches);
        let written = writer.join();
        progress.finish();
        written.unwrap_or_else(|_| Err(io::Error::other("the writer broke off")))?;
        let took = started.elapsed() + Duration::try_from_secs_f64(before.1).unwrap_or_default();
        Ok((tally::sum(&before.0, counts), took))
    }

    fn checkpoint(&self, position: Position, counts: &Counts) -> Option<Checkpoint> {
        let kind = self.checkpoints.clone()?;
        let mut counts = tally::sum(&self.before.0, counts);
        // Those in between are asked again.
        counts.asked = counts.asked.saturating_sub(position.unfinished.len() as u64);
        let seconds = self.before.1 + self.started.elapsed().as_secs_f64();
        Some(Checkpoint { kind, length: None, position, counts, seconds })
    }

    /// Gives the buffer to the writer, if the queue has room; else it stays. Returns whether it is gone.
    fn hand_over(&mut self, checkpoint: Option<Checkpoint>) -> bool {
        // Counted first, so that it is never less than what the writer takes off.
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        let bytes = std::mem::take(&mut self.buffer);
        match self.batches.try_send(Batch { bytes, checkpoint }) {
            Ok(()) => {
                self.buffer = Vec::with_capacity(BATCH + BATCH / 4);
                true
            }
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                self.buffer = batch.bytes;
                false
            }
        }
    }
}

impl Sink for Output {
    fn end(&mut self, end: End) {
        if end.result.is_err() && !self.failed || self.shared.over.load(Ordering::Relaxed) {
            return;
        }
        let asked = match &end.result {
            Ok(answer) => Some(&answer.asked),
            Err(error) => error.asked(),
        };
        let target = match (&end.name, asked) {
            (Some(name), _) => name,
            (None, Some(asked)) => {
                self.target.clear();
                url(&mut self.target, asked);
                self.target.as_str()
            }
            (None, None) => "",
        };
        self.encoder.record(&mut self.buffer, target, &end);
        // What is over is tried again when as much has come again, so that a full queue costs nothing.
        if self.buffer.len() >= BATCH && !self.is_full() {
            self.hand_over(None);
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= BATCH && self.shared.waiting.load(Ordering::Acquire) >= QUEUE
    }

    fn beat(&mut self, beat: &Beat<'_>) {
        self.progress.beat(beat, &self.before.0);
        let stopping = self.stop.cause().is_some();
        if stopping {
            self.stopped_at = Some((beat.position)());
        }
        let due = self.checkpoints.is_some() && !stopping && self.last.elapsed() >= CHECKPOINTS;
        if !due && self.buffer.is_empty() || self.shared.waiting.load(Ordering::Acquire) >= QUEUE {
            return;
        }
        let checkpoint = due.then(|| self.checkpoint((beat.position)(), beat.counts)).flatten();
        if self.hand_over(checkpoint) && due {
            self.last = Instant::now();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.cause().is_some() || self.shared.over.load(Ordering::Relaxed)
    }
}

/// `protocol://address`.
fn url(out: &mut String, asked: &Asked) {
    // Writing to a text cannot fail.
    let _ = write!(out, "{}://{}", asked.protocol.id, asked.address);
}

/// The thread that writes.
struct Writer {
    to: Box<dyn Write + Send>,
    length: Option<u64>,
    path: Option<PathBuf>,
    shared: Arc<Shared>,
    progress: Progress,
}

impl Writer {
    fn run(mut self, batches: &Receiver<Batch>) -> io::Result<()> {
        let end = batches.iter().try_for_each(|batch| self.write(batch));
        self.shared.over.store(true, Ordering::Relaxed);
        end
    }

    fn write(&mut self, batch: Batch) -> io::Result<()> {
        let Self { to, length, path, shared, progress } = self;
        if !batch.bytes.is_empty() {
            progress.suspend(|| {
                to.write_all(&batch.bytes)?;
                to.flush()
            })?;
        }
        *length = length.map(|length| length + batch.bytes.len() as u64);
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
        match (path, batch.checkpoint) {
            (Some(path), Some(checkpoint)) => Checkpoint { length: *length, ..checkpoint }.save(path),
            _ => Ok(()),
        }
    }
}
