//! Output of a sweep. Each thread of the sweep encodes its results, and one more thread writes them.
//!
//! ```text
//!   result ─► Encoder ─► buffer ─► queue ─► writer: output, then its checkpoint
//!        OutputPart of a thread       ▲      one more thread
//!   progress ─► Reporter ─► checkpoint┘
//! ```
//!
//! Limits: the queue is full with [`MAX_QUEUED_BUFFERS`] buffers or [`MAX_QUEUED_BYTES`] bytes. While it is
//! full, the sweep starts no new probes, but the replies to probes in flight still extend the
//! buffer, up to [`MAX_BUFFER_BYTES`]. Above that, the sweep waits for the writer.

use super::super::stop::StopRequest;
use super::checkpoint::{Checkpoint, Sweep};
use super::encoder::Encoder;
use super::progress::ProgressView;
use hailer::client::Transcript;
use hailer::sweep::{Counts, Position, ProbeResult, Progress, Sink};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Size in bytes at which a buffer is queued.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of queued buffers.
const MAX_QUEUED_BUFFERS: usize = 32;
/// Size of the queued buffers in bytes at which the queue is full. The sweep then starts no new
/// probes.
const MAX_QUEUED_BYTES: usize = MAX_QUEUED_BUFFERS * BATCH_BYTES;
/// Size of the buffer in bytes at which the sweep waits for the writer.
const MAX_BUFFER_BYTES: usize = 32 << 20;
/// Buffers with a larger capacity, in bytes, are freed after writing.
const MAX_SPARE_BYTES: usize = 4 * BATCH_BYTES;
/// Time between checks of a full queue.
const QUEUE_WAIT: Duration = Duration::from_millis(5);
/// Minimum time between checkpoints. Progress reports add up to 100 ms, so that the total is about
/// 1 s.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(900);

/// Configuration of an [`Output`].
pub(super) struct OutputConfig {
    /// An encoder for each thread of the sweep.
    pub(super) encoders: Vec<Encoder>,
    /// Whether failures are written too.
    pub(super) has_failures: bool,
    /// Destination, positioned at the next byte.
    pub(super) to: Box<dyn Write + Send>,
    /// Current length in bytes, if the destination is a file.
    pub(super) length: Option<u64>,
    /// Checkpoint file, and the sweep that it belongs to.
    pub(super) checkpoint: Option<(PathBuf, Sweep)>,
    /// Checkpoint of the earlier run that this one continues.
    pub(super) before: Option<Checkpoint>,
    pub(super) progress: ProgressView,
    pub(super) stop: Arc<StopRequest>,
}

/// Receives the results of a sweep, and writes them on a separate thread.
pub(super) struct Output {
    /// One for each thread of the sweep. There is at least one.
    pub(super) parts: Vec<OutputPart>,
    pub(super) reporter: Reporter,
}

/// Receives the results of one thread.
pub(super) struct OutputPart {
    encoder: Encoder,
    has_failures: bool,
    buffer: Vec<u8>,
    /// Text of the current target.
    target: String,
    batches: SyncSender<Batch>,
    spare: Arc<Mutex<Receiver<Vec<u8>>>>,
    shared: Arc<Shared>,
    stop: Arc<StopRequest>,
    /// Whether the results wait for a checkpoint.
    is_held: bool,
}

/// Shows the progress and writes checkpoints.
pub(super) struct Reporter {
    batches: SyncSender<Batch>,
    writer: JoinHandle<io::Result<()>>,
    shared: Arc<Shared>,
    stop: Arc<StopRequest>,
    progress: ProgressView,
    /// Identity of the sweep; `None` writes no checkpoints.
    checkpoints: Option<Sweep>,
    /// Time of the last checkpoint.
    last: Instant,
    /// Position in the last progress report after the request to stop.
    stopped_at: Option<Position>,
    before: (Counts, f64),
    started: Instant,
}

struct Batch {
    bytes: Vec<u8>,
    checkpoint: Option<Checkpoint>,
}

/// State shared by the two threads.
#[derive(Default)]
struct Shared {
    /// Number of queued batches, including the one being written.
    waiting: AtomicUsize,
    /// Size of these batches in bytes.
    waiting_bytes: AtomicUsize,
    /// Whether the writer has ended, because of a closed pipe or another error, which it returns.
    over: AtomicBool,
}

impl Output {
    /// Starts the writer. A new output begins with its header.
    ///
    /// # Errors
    /// The first checkpoint cannot be written, or the thread cannot be started.
    pub(super) fn new(config: OutputConfig) -> io::Result<Self> {
        let OutputConfig {
            encoders,
            has_failures,
            to,
            length,
            checkpoint,
            before,
            progress,
            stop,
        } = config;
        if let (None, Some((path, kind))) = (&before, &checkpoint) {
            // Save the first checkpoint before the first probe and the first byte.
            let (position, counts) = Default::default();
            Checkpoint {
                kind: kind.clone(),
                length,
                position,
                counts,
                seconds: 0.0,
            }
            .save(path)?;
        }
        let (path, checkpoints) = checkpoint.unzip();
        // The queue is full with fewer batches, so that there is room for one more of each thread.
        let (batches, receiver) = sync_channel(MAX_QUEUED_BUFFERS + 2 * encoders.len());
        let shared = Arc::new(Shared::default());
        let (used, spare) = sync_channel(MAX_QUEUED_BUFFERS);
        let writer = Writer {
            to,
            length,
            path,
            used,
            shared: shared.clone(),
            progress: progress.clone(),
        };
        let writer = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&receiver))?;
        let is_new = length.map_or(before.is_none(), |length| length == 0);
        let spare = Arc::new(Mutex::new(spare));
        let mut parts = Vec::new();
        for mut encoder in encoders {
            let mut buffer = room();
            if is_new && parts.is_empty() {
                encoder.header(&mut buffer);
            }
            parts.push(OutputPart {
                encoder,
                has_failures,
                buffer,
                target: String::new(),
                batches: batches.clone(),
                spare: spare.clone(),
                shared: shared.clone(),
                stop: stop.clone(),
                is_held: false,
            });
        }
        // Before the other threads can write.
        if is_new && let Some(first) = parts.first_mut() {
            first.hand_over();
        }
        let now = Instant::now();
        Ok(Self {
            parts,
            reporter: Reporter {
                batches,
                writer,
                shared,
                stop,
                progress,
                checkpoints,
                last: now,
                stopped_at: None,
                before: before
                    .map(|totals| (totals.counts, totals.seconds))
                    .unwrap_or_default(),
                started: now,
            },
        })
    }

    /// Writes the remaining results and waits for the writer. Returns the counts and the duration,
    /// both including earlier runs.
    ///
    /// # Errors
    /// The writer could not write the output or a checkpoint.
    pub(super) fn finish(self, counts: &Counts) -> io::Result<(Counts, Duration)> {
        for part in self.parts {
            // A writer that has ended returns its error below.
            let _ = part.batches.send(Batch {
                bytes: part.buffer,
                checkpoint: None,
            });
        }
        let mut reporter = self.reporter;
        let checkpoint = reporter
            .stopped_at
            .take()
            .and_then(|position| reporter.checkpoint(position, counts));
        let _ = reporter.batches.send(Batch {
            bytes: Vec::new(),
            checkpoint,
        });
        let Reporter {
            batches,
            writer,
            progress,
            before,
            started,
            ..
        } = reporter;
        drop(batches);
        let written = writer.join();
        progress.finish();
        written.unwrap_or_else(|_| Err(io::Error::other("the writer broke off")))?;
        let took = started.elapsed() + Duration::try_from_secs_f64(before.1).unwrap_or_default();
        let mut sum = before.0;
        sum.add(counts);
        Ok((sum, took))
    }
}

impl Shared {
    /// Returns whether the queue is full.
    fn is_queue_full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= MAX_QUEUED_BUFFERS
            || self.waiting_bytes.load(Ordering::Acquire) >= MAX_QUEUED_BYTES
    }
}

impl Reporter {
    fn checkpoint(&self, position: Position, counts: &Counts) -> Option<Checkpoint> {
        let kind = self.checkpoints.clone()?;
        let mut counts = counts.clone();
        counts.add(&self.before.0);
        // Unfinished probes are repeated, and counted then.
        counts.probes = counts.ended().saturating_sub(counts.unresolved);
        let seconds = self.before.1 + self.started.elapsed().as_secs_f64();
        Some(Checkpoint {
            kind,
            length: None,
            position,
            counts,
            seconds,
        })
    }

    /// Queues a checkpoint of the output so far.
    fn save(&mut self, position: Position, counts: &Counts) {
        let checkpoint = self.checkpoint(position, counts);
        let batch = Batch {
            bytes: Vec::new(),
            checkpoint,
        };
        // Count before queueing, so that the writer never subtracts more than was added.
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        if self.batches.try_send(batch).is_ok() {
            self.last = Instant::now();
        } else {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        self.checkpoints.is_some()
            && self.stop.cause().is_none()
            && self.last.elapsed() >= CHECKPOINT_INTERVAL
    }
}

/// Follows a sweep with several threads.
impl Sink for Reporter {
    /// The results go to the parts.
    fn record(&mut self, _: ProbeResult) {}

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.progress.report_progress(progress, &self.before.0);
        let Some(position) = (progress.position)() else {
            return;
        };
        if self.stop.cause().is_some() {
            self.stopped_at = Some(position);
        } else if self.is_checkpoint_due() {
            self.save(position, progress.counts);
        }
    }

    fn is_position_due(&self) -> bool {
        self.is_checkpoint_due() && !self.shared.is_queue_full()
    }
}

impl OutputPart {
    /// Queues the buffer for the writer and returns whether the queue accepted it.
    fn hand_over(&mut self) -> bool {
        if self.buffer.is_empty() {
            return true;
        }
        // Count before queueing, so that the writer never subtracts more than was added.
        let length = self.buffer.len();
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        self.shared
            .waiting_bytes
            .fetch_add(length, Ordering::AcqRel);
        let batch = Batch {
            bytes: std::mem::take(&mut self.buffer),
            checkpoint: None,
        };
        match self.batches.try_send(batch) {
            Ok(()) => {
                let spare = self.spare.try_lock().ok();
                let spare = spare.and_then(|spare| spare.try_recv().ok());
                self.buffer = spare.unwrap_or_else(room);
                true
            }
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                self.shared
                    .waiting_bytes
                    .fetch_sub(length, Ordering::AcqRel);
                self.buffer = batch.bytes;
                false
            }
        }
    }

    /// Returns whether the writer takes no buffer of this thread now.
    fn is_blocked(&self) -> bool {
        self.is_held || self.shared.is_queue_full()
    }
}

impl Sink for OutputPart {
    fn record(&mut self, end: ProbeResult) {
        if end.result.is_err() && !self.has_failures || self.shared.over.load(Ordering::Relaxed) {
            return;
        }
        let transcript = match &end.result {
            Ok(answer) => Some(&answer.transcript),
            Err(error) => error.transcript(),
        };
        let target = match (&end.name, transcript) {
            (Some(name), _) => name,
            (None, Some(transcript)) => {
                self.target.clear();
                url(&mut self.target, transcript);
                self.target.as_str()
            }
            (None, None) => "",
        };
        self.encoder.record(&mut self.buffer, target, &end);
        // Replies to probes in flight arrive even if the queue is full. Limit their size too. A
        // thread that holds its results must not wait, since others may wait for it.
        while self.buffer.len() >= MAX_BUFFER_BYTES
            && !self.is_held
            && self.shared.is_queue_full()
            && !self.is_stopped()
        {
            std::thread::sleep(QUEUE_WAIT);
        }
        if self.buffer.len() >= BATCH_BYTES && !self.is_blocked() {
            self.hand_over();
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= BATCH_BYTES && self.is_blocked()
    }

    /// Passes on the results, so that they are written as they arrive.
    fn report_progress(&mut self, _: &Progress<'_>) {
        if !self.is_blocked() {
            self.hand_over();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.cause().is_some() || self.shared.over.load(Ordering::Relaxed)
    }

    fn hold(&mut self) {
        // There is room for one more buffer of each thread, unless the writer is slow.
        while !self.hand_over() && !self.shared.over.load(Ordering::Relaxed) {
            std::thread::sleep(QUEUE_WAIT);
        }
        self.is_held = true;
    }

    fn release(&mut self) {
        self.is_held = false;
    }
}

/// Receives everything in a sweep with one thread.
impl Sink for Output {
    fn record(&mut self, end: ProbeResult) {
        if let Some(part) = self.parts.first_mut() {
            part.record(end);
        }
    }

    fn is_full(&self) -> bool {
        self.parts.first().is_some_and(Sink::is_full)
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        let reporter = &mut self.reporter;
        reporter
            .progress
            .report_progress(progress, &reporter.before.0);
        if reporter.stop.cause().is_some() {
            reporter.stopped_at = (progress.position)();
        }
        if reporter.shared.is_queue_full() {
            return;
        }
        let has_passed = self.parts.iter_mut().all(OutputPart::hand_over);
        if has_passed
            && reporter.is_checkpoint_due()
            && let Some(position) = (progress.position)()
        {
            reporter.save(position, progress.counts);
        }
    }

    fn is_stopped(&self) -> bool {
        self.parts.first().is_some_and(Sink::is_stopped)
    }
}

fn room() -> Vec<u8> {
    Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 4)
}

/// Formats a target as `protocol://address`.
fn url(out: &mut String, transcript: &Transcript) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{}://{}", transcript.protocol.id, transcript.address);
}

/// The thread that writes batches and checkpoints.
struct Writer {
    to: Box<dyn Write + Send>,
    length: Option<u64>,
    path: Option<PathBuf>,
    /// Channel that returns written buffers for reuse, since touching new memory costs as much as
    /// filling it.
    used: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
    progress: ProgressView,
}

impl Writer {
    fn run(mut self, batches: &Receiver<Batch>) -> io::Result<()> {
        let end = batches.iter().try_for_each(|batch| self.write(batch));
        self.shared.over.store(true, Ordering::Relaxed);
        end
    }

    fn write(&mut self, batch: Batch) -> io::Result<()> {
        let Self {
            to,
            length,
            path,
            used,
            shared,
            progress,
        } = self;
        let Batch {
            mut bytes,
            checkpoint,
        } = batch;
        if !bytes.is_empty() {
            progress.suspend(|| {
                to.write_all(&bytes)?;
                to.flush()
            })?;
        }
        *length = length.map(|length| length + bytes.len() as u64);
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
        shared
            .waiting_bytes
            .fetch_sub(bytes.len(), Ordering::AcqRel);
        if bytes.capacity() <= MAX_SPARE_BYTES {
            bytes.clear();
            // If enough buffers are spare, free this one.
            let _ = used.try_send(bytes);
        }
        match (path, checkpoint) {
            (Some(path), Some(checkpoint)) => Checkpoint {
                length: *length,
                ..checkpoint
            }
            .save(path),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::tests::{answer, failure};
    use std::sync::Condvar;
    use std::sync::mpsc::{Sender, channel};

    /// Writer that blocks until it is opened, and stores all bytes.
    #[derive(Clone, Default)]
    struct Gate(Arc<Inner>);

    #[derive(Default)]
    struct Inner {
        is_open: Mutex<bool>,
        opened: Condvar,
        written: Mutex<Vec<u8>>,
    }

    impl Gate {
        fn open(&self) {
            *self.0.is_open.lock().unwrap() = true;
            self.0.opened.notify_all();
        }

        fn written(&self) -> String {
            String::from_utf8(self.0.written.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(
                self.0
                    .opened
                    .wait_while(self.0.is_open.lock().unwrap(), |is_open| !*is_open)
                    .unwrap(),
            );
            // Accept partial writes, as a pipe does.
            let taken = bytes.len().min(70_000);
            self.0
                .written
                .lock()
                .unwrap()
                .extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output(to: impl Write + Send + 'static) -> Output {
        Output::new(OutputConfig {
            encoders: vec![Encoder::Whole],
            has_failures: false,
            to: Box::new(to),
            length: None,
            checkpoint: None,
            before: None,
            progress: ProgressView::new(false, false),
            stop: Arc::default(),
        })
        .unwrap()
    }

    fn end(index: u64) -> ProbeResult {
        ProbeResult {
            index,
            name: Some(format!("{index}.example.com").into()),
            result: answer("Hello"),
        }
    }

    fn progress(output: &mut Output) {
        let counts = Counts::default();
        output.report_progress(&Progress {
            counts: &counts,
            total: None,
            in_flight: 0,
            position: &|| Some(Position::default()),
        });
    }

    #[test]
    fn a_slow_reader_gets_every_line_once_and_holds_up_the_sweep() {
        let gate = Gate::default();
        let mut output = output(gate.clone());
        let mut ends = 0;
        while !output.is_full() {
            output.record(end(ends));
            progress(&mut output);
            ends += 1;
            assert!(ends < 100_000, "it takes without end");
        }
        // Replies to probes in flight are accepted and not lost.
        for _ in 0..1_000 {
            output.record(end(ends));
            progress(&mut output);
            ends += 1;
        }
        assert!(output.is_full() && !output.is_stopped());
        gate.open();
        let started = Instant::now();
        while output.is_full() {
            assert!(started.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        output.record(end(ends));
        output.finish(&Counts::default()).unwrap();
        let targets = gate
            .written()
            .lines()
            .zip(0..)
            .fold(0, |count, (line, index)| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["target"], format!("{index}.example.com"));
                count + 1
            });
        assert_eq!(targets, ends + 1);
    }

    /// Writer that fails like a pipe without a reader.
    struct Closed(Sender<()>);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(());
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn ends_when_the_reader_is_gone() {
        let (sender, receiver) = channel();
        let mut output = output(Closed(sender));
        output.record(end(0));
        assert!(!output.is_stopped());
        progress(&mut output);
        receiver.recv().unwrap();
        let started = Instant::now();
        while !output.is_stopped() {
            assert!(started.elapsed() < Duration::from_secs(10));
        }
        (0..10_000).for_each(|index| output.record(end(index)));
        assert!(
            output.parts[0].buffer.len() < BATCH_BYTES,
            "nothing is buffered without a reader"
        );
        assert_eq!(
            output.finish(&Counts::default()).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn failures_are_written_if_wanted_and_addresses_are_targets() {
        for failed in [false, true] {
            let gate = Gate::default();
            gate.open();
            let mut output = output(gate.clone());
            output.parts[0].has_failures = failed;
            output.record(ProbeResult {
                index: 0,
                name: None,
                result: failure(),
            });
            output.finish(&Counts::default()).unwrap();
            let written = gate.written();
            assert_eq!(written.starts_with("{\"schema\""), failed);
            assert!(!failed || written.contains("\"minecraft-query://192.0.2.7:25565\""));
        }
    }

    #[test]
    fn writes_the_checkpoint_last_when_stopped() {
        let path =
            std::env::temp_dir().join(format!("hailer-output-{}.checkpoint", std::process::id()));
        let gate = Gate::default();
        gate.open();
        let mut first = Output::new(OutputConfig {
            encoders: vec![Encoder::Whole],
            has_failures: false,
            to: Box::new(gate.clone()),
            length: Some(0),
            checkpoint: Some((path.clone(), Sweep::default())),
            before: None,
            progress: ProgressView::new(false, false),
            stop: Arc::default(),
        })
        .unwrap();
        first.record(end(0));
        first.reporter.stop.set(crate::command::stop::Cause::Signal);
        assert!(first.is_stopped());
        let mut counts = Counts::default();
        counts.probes = 3;
        counts.answered = 1;
        let position = || {
            Some(Position {
                next: 3,
                unfinished: vec![1, 2],
            })
        };
        first.report_progress(&Progress {
            counts: &counts,
            total: None,
            in_flight: 2,
            position: &position,
        });
        first.finish(&counts).unwrap();
        let checkpoint = Checkpoint::load(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Some(checkpoint.position), position());
        assert_eq!(
            (checkpoint.counts.probes, checkpoint.counts.answered),
            (1, 1)
        );
        assert_eq!(checkpoint.length, Some(gate.written().len() as u64));
    }
}
