//! Probe source for a list that is read while it is written, and may never end.
//!
//! The index of a probe depends only on its place in the input: a range takes one index for each of
//! its probes; an invalid, duplicate or excluded target takes one. An index therefore means the
//! same in every run over the same input with the same seed, at whatever speed it arrives, and a
//! sweep can be continued by reading the input again.
//!
//! The order is less certain. Probes are drawn at random from a window of 65,536, which spreads
//! neighbors. If the writer pauses, the window is drawn from without waiting for more.
//!
//! Limits: 65,536 probes in the window, 32 chunks of 256 between the threads, and at least 917,504
//! remembered targets to detect duplicates.

use super::collector::{Destination, Digest, Entry, Item, Name, item};
use super::list::SourceConfig;
use super::lookups::Lookups;
use super::order::{Order, Shard, mix};
use super::target_lines::{Line, Lines};
use crate::error::Error;
use crate::sweep::engine::services::{DefaultKinds, KindNumber, Service, TargetKind};
use crate::sweep::{Exclusions, ListError, Next, Position, ProbeSource, Skipped};
use crate::target::TargetError;
use siphasher::sip::SipHasher13;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of probes to draw from: about 4 MB, or 256 networks of a sorted list.
const WINDOW: usize = 1 << 16;
/// A window that is not full is drawn from if nothing arrived for this long or [`HOLD`] is over.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest time that a window that is not full is held back.
const HOLD: Duration = Duration::from_secs(1);
/// Largest chunk of probes that the reader sends.
const CHUNK: usize = 256;
/// Largest number of chunks that wait between the threads.
const CHUNKS: usize = 32;
/// Most names to take from the window in one call of `next`.
const NAMES_AT_ONCE: usize = 64;
/// Size of each of the two generations of remembered probes, which take 20 MB together. Duplicates
/// farther apart are not detected.
const MEMORY: usize = 7 << 17;

/// Source of probes from an input that is read while it arrives.
///
/// Lines have the same form as in a list. Invalid ones are reported as failures. Ranges are walked
/// through in random order and never expanded in memory. A duplicate is removed if it follows the
/// first by fewer than 750,000 other probes. A separate thread reads the input, so
/// [`next`](ProbeSource::next) never blocks on it.
pub struct StreamSource {
    messages: Receiver<Message>,
    pool: Vec<Question>,
    held: Option<HeldWindow>,
    is_over: bool,
    /// Above all indices received so far.
    came: u64,
    /// Where an earlier sweep stopped, with its unfinished indices ascending.
    from: Arc<Position>,
    total: Option<u64>,
    draws: u64,
    lookups: Lookups,
    shared: Arc<ReaderState>,
    digest: u64,
}

impl fmt::Debug for StreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// The window is held back. Without this, it is drawn from until it is empty.
#[derive(Clone, Copy)]
struct HeldWindow {
    since: Instant,
    /// When the last probe arrived.
    came: Instant,
}

/// State shared by the two threads.
#[derive(Default)]
struct ReaderState {
    /// Whether the source was dropped.
    is_gone: AtomicBool,
    skipped: Mutex<Skipped>,
}

enum Message {
    Questions(Vec<Question>),
    /// The input has ended. Contains the number of its probes.
    End(u64),
}

struct Question {
    index: u64,
    what: StreamItem,
}

enum StreamItem {
    Address(SocketAddr, TargetKind),
    Name(Box<Name>),
    Wrong(Box<TargetError>),
}

impl StreamSource {
    /// Starts to read `input`, whose name appears in errors. `defaults`: what targets without a game
    /// or protocol are queried in. Continues an earlier sweep over the same input with the same
    /// [`digest`](Self::digest), or begins at the start.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot start.
    pub fn new(
        name: &str,
        input: impl Read + Send + 'static,
        defaults: DefaultKinds,
        exclusions: Arc<Exclusions>,
        walk: &SourceConfig,
        from: &Position,
    ) -> Result<Self, ListError> {
        let mut digest = Digest::new("stream");
        walk.digest(&mut digest, &exclusions);
        for number in &defaults.numbers {
            digest.kind(*number);
        }

        let mut from = from.clone();
        from.unfinished
            .retain(|index| *index < from.next && walk.shard.holds(*index));
        from.unfinished.sort_unstable();
        from.unfinished.dedup();
        let from = Arc::new(from);
        let shared = Arc::new(ReaderState::default());
        let (sender, messages) = mpsc::sync_channel(CHUNKS);
        let reader = Reader {
            sender,
            chunk: Vec::new(),
            steps: 0,
            index: 0,
            questions: 0,
            seen: DuplicateFilter::new(walk.seed, MEMORY),
            skipped: Skipped::default(),
            seed: walk.seed,
            shard: walk.shard,
            exclusions: exclusions.clone(),
            from: from.clone(),
            shared: shared.clone(),
        };
        let file: Arc<str> = name.into();
        let name = file.clone();
        let lines = Lines::new(input);
        // A blocking read cannot be interrupted, so the thread is detached.
        let thread = std::thread::Builder::new().name("targets".into());
        // `SourceDropped` only means that the source was dropped.
        thread
            .spawn(move || drop(reader.run(&name, lines, &defaults)))
            .map_err(|cause| ListError::Read { file, cause })?;
        Ok(Self {
            messages,
            pool: Vec::new(),
            held: None,
            is_over: false,
            came: 0,
            from,
            total: None,
            draws: walk.seed,
            lookups: Lookups::new(walk.name_server, walk.lookups, exclusions),
            shared,
            digest: digest.end(),
        })
    }

    /// Returns the targets that were read and skipped so far, over all shares.
    pub fn skipped(&self) -> Skipped {
        *self
            .shared
            .skipped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a digest of everything but the input that maps indices to probes: protocols,
    /// exclusions, seed and share.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Moves received probes into the window while it has room.
    fn fill(&mut self) {
        while !self.is_over && self.pool.len() < WINDOW {
            match self.messages.try_recv() {
                Ok(Message::Questions(questions)) => {
                    let now = Instant::now();
                    if self.pool.is_empty() {
                        self.held = Some(HeldWindow {
                            since: now,
                            came: now,
                        });
                    } else if let Some(held) = &mut self.held {
                        held.came = now;
                    }
                    self.came = questions.last().map_or(self.came, |last| last.index + 1);
                    self.pool.extend(questions);
                }
                Ok(Message::End(total)) => {
                    self.total = Some(total);
                    self.is_over = true;
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.is_over = true,
            }
        }
    }

    /// Draws a probe from the window if it is full, will get no fuller or was held long enough.
    fn draw(&mut self) -> Option<Question> {
        if self.pool.is_empty() {
            return None;
        }
        if let Some(HeldWindow { since, came }) = self.held
            && !self.is_over
            && self.pool.len() < WINDOW
        {
            let now = Instant::now();
            if now.duration_since(came) < PAUSE && now.duration_since(since) < HOLD {
                return None;
            }
        }
        self.held = None;
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let at = (u128::from(mix(self.draws)) * self.pool.len() as u128) >> 64;
        Some(self.pool.swap_remove(at as usize))
    }
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        self.shared.is_gone.store(true, Ordering::Relaxed);
    }
}

impl ProbeSource for StreamSource {
    fn next(&mut self) -> Next {
        if let Some(next) = self.lookups.next() {
            return next;
        }
        for _ in 0..NAMES_AT_ONCE {
            self.fill();
            if self.lookups.is_full() {
                return Next::Pending;
            }
            let Some(Question { index, what }) = self.draw() else {
                let is_end = self.is_over && self.pool.is_empty() && self.lookups.is_empty();
                return if is_end { Next::Done } else { Next::Pending };
            };
            match what {
                StreamItem::Address(address, kind) => return Next::address(index, address, kind),
                StreamItem::Name(name) => self.lookups.ask(index, *name),
                StreamItem::Wrong(error) => {
                    return Next::Failed {
                        index,
                        target: error.text().into(),
                        error: Error::Target(*error),
                    };
                }
            }
        }
        Next::Pending
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    fn position(&self) -> Position {
        // Unfinished indices that the reader has not reached yet are still to come.
        let Position { next, unfinished } = &*self.from;
        let to_come = unfinished.partition_point(|index| *index < self.came);
        let here = self
            .pool
            .iter()
            .map(|question| question.index)
            .chain(self.lookups.indices());
        let mut unfinished: Vec<u64> = here.chain(unfinished[to_come..].iter().copied()).collect();
        unfinished.sort_unstable();
        Position {
            next: self.came.max(*next),
            unfinished,
        }
    }
}

/// State of the thread that reads the input.
struct Reader {
    sender: SyncSender<Message>,
    chunk: Vec<Question>,
    /// Probes since the last check whether the source was dropped.
    steps: usize,
    /// Index of the next probe.
    index: u64,
    questions: u64,
    seen: DuplicateFilter,
    skipped: Skipped,
    seed: u64,
    shard: Shard,
    exclusions: Arc<Exclusions>,
    from: Arc<Position>,
    shared: Arc<ReaderState>,
}

/// The source was dropped.
struct SourceDropped;

impl Reader {
    fn run<R: Read>(
        mut self,
        name: &str,
        mut lines: Lines<R>,
        defaults: &DefaultKinds,
    ) -> Result<(), SourceDropped> {
        loop {
            // Before a read that may block, send what is buffered.
            if !lines.is_ready() {
                self.flush()?;
            }
            match lines.next() {
                Ok(None) => break,
                Ok(Some(Line::Blank)) => {}
                Ok(Some(Line::Word(word))) => match Entry::parse(word, defaults) {
                    Ok(entry) => self.entry(&entry, entry.kinds(defaults))?,
                    Err(error) => self.wrong(error)?,
                },
                Ok(Some(Line::Wrong(error))) => self.wrong(error)?,
                Err(cause) => {
                    self.wrong(TargetError::new(name, format!("cannot be read: {cause}")))?;
                    break;
                }
            }
        }
        self.flush()?;
        self.sender
            .send(Message::End(self.questions))
            .map_err(|_| SourceDropped)
    }

    fn entry(&mut self, entry: &Entry, kinds: &[KindNumber]) -> Result<(), SourceDropped> {
        match entry.destination {
            Destination::Addresses(span) => {
                let ways = kinds.len() as u64;
                // Cannot overflow: ranges are limited to 2^40 addresses.
                let order = Order::new(span.len() as u64 * ways, self.seed ^ mix(self.index));
                for at in (0..order.length()).filter_map(|place| order.at(place)) {
                    let service = entry.service(kinds[(at % ways) as usize]);
                    self.address(service, span.first + u128::from(at / ways))?;
                }
                Ok(())
            }
            Destination::Name { .. } => {
                let mut is_repeat = false;
                for mut name in kinds.iter().filter_map(|number| entry.name(*number)) {
                    let index = self.step()?;
                    if !self.seen.is_new(name.service(), name.host().as_bytes(), 1) {
                        self.skipped.duplicates += 1;
                    } else if self.is_wanted(index) {
                        if is_repeat {
                            name.set_repeat();
                        }
                        is_repeat = true;
                        self.push(index, StreamItem::Name(Box::new(name)))?;
                    }
                }
                Ok(())
            }
        }
    }

    fn address(&mut self, service: Service, ip: u128) -> Result<(), SourceDropped> {
        let index = self.step()?;
        if !self.seen.is_new(service, &ip.to_le_bytes(), 0) {
            self.skipped.duplicates += 1;
        } else if let Some(ban) = self.exclusions.ban(ip) {
            self.skipped.add(ban);
        } else if self.is_wanted(index) {
            let Item::Address(address, kind) = item((service, ip)) else {
                return Ok(());
            };
            self.push(index, StreamItem::Address(address, kind))?;
        }
        Ok(())
    }

    fn wrong(&mut self, error: TargetError) -> Result<(), SourceDropped> {
        let index = self.step()?;
        if self.is_wanted(index) {
            self.push(index, StreamItem::Wrong(Box::new(error)))
        } else {
            Ok(())
        }
    }

    /// Returns the next index. Checks now and then whether the source was dropped, which otherwise
    /// only a send would detect.
    fn step(&mut self) -> Result<u64, SourceDropped> {
        self.steps += 1;
        if self.steps == 4096 {
            self.steps = 0;
            self.flush()?;
            if self.shared.is_gone.load(Ordering::Relaxed) {
                return Err(SourceDropped);
            }
        }
        self.index += 1;
        Ok(self.index - 1)
    }

    /// Returns whether a probe is in our share and not finished by an earlier sweep.
    fn is_wanted(&mut self, index: u64) -> bool {
        let is_ours = self.shard.holds(index);
        self.questions += u64::from(is_ours);
        is_ours && (index >= self.from.next || self.from.unfinished.binary_search(&index).is_ok())
    }

    fn push(&mut self, index: u64, what: StreamItem) -> Result<(), SourceDropped> {
        self.chunk.push(Question { index, what });
        if self.chunk.len() == CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), SourceDropped> {
        *self
            .shared
            .skipped
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.skipped;
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.sender
            .send(Message::Questions(chunk))
            .map_err(|_| SourceDropped)
    }
}

/// Detects duplicates by 64-bit hashes, in two generations. A collision does not happen in a
/// million sweeps.
struct DuplicateFilter {
    memory: usize,
    new: Hashes,
    old: Hashes,
    key: SipHasher13,
}

type Hashes = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

impl DuplicateFilter {
    /// Creates an empty set. The hash key depends only on the seed, so that the same input always
    /// skips the same duplicates.
    fn new(seed: u64, memory: usize) -> Self {
        let key = SipHasher13::new_with_keys(mix(seed), mix(!seed));
        Self {
            memory,
            new: Hashes::default(),
            old: Hashes::default(),
            key,
        }
    }

    fn is_new(&mut self, service: Service, destination: &[u8], form: u8) -> bool {
        let mut hasher = self.key;
        hasher.write(destination);
        hasher.write(&[form]);
        hasher.write(&service.kind.to_le_bytes());
        hasher.write(&service.port.to_le_bytes());
        let hash = hasher.finish();
        if self.old.contains(&hash) || !self.new.insert(hash) {
            return false;
        }
        if self.new.len() == self.memory {
            self.old = std::mem::take(&mut self.new);
        }
        true
    }
}

/// Hasher for values that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::{self, Cursor};

    fn stream(
        input: impl Read + Send + 'static,
        walk: &SourceConfig,
        from: &Position,
    ) -> StreamSource {
        let mut exclusions = Exclusions::default();
        exclusions.add("192.0.2.250-192.0.2.255").unwrap();
        let defaults = DefaultKinds::new(&[]).unwrap();
        StreamSource::new("input", input, defaults, exclusions.into(), walk, from).unwrap()
    }

    /// Returns the next probes, at most `most`, by index. Fails if `Pending` lasts too long.
    fn take(stream: &mut StreamSource, most: usize) -> Vec<(u64, String)> {
        let mut taken = Vec::new();
        let mut progress = Instant::now();
        while taken.len() < most {
            match stream.next() {
                Next::Probe(probe) => {
                    taken.push((
                        probe.index,
                        format!("{}://{}", probe.protocol.info().id, probe.address),
                    ));
                }
                Next::Failed {
                    index,
                    target,
                    error,
                } => taken.push((index, format!("{} {target}", error.kind()))),
                Next::Repeat { .. } => panic!("no names are looked up"),
                Next::Done => break,
                Next::Pending => {
                    assert!(
                        progress.elapsed() < Duration::from_secs(10),
                        "nothing comes"
                    );
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
            progress = Instant::now();
        }
        taken
    }

    const INPUT: &str = "192.0.2.7\nugp://192.0.2.0/24\nugp://192.0.2.3\nbad..name\n# nothing\n192.0.2.7:22000\n\
                         ugp://2001:db8::/123\nhost:0\nugp://198.51.100.1-198.51.100.9:1\n224.0.0.1\n";

    /// Returns a few bytes at a time, with pauses. How the input is split must not matter.
    struct Trickle(Cursor<&'static [u8]>, usize);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            std::thread::sleep(Duration::from_micros(200));
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn yields_each_target_once_and_no_excluded_one() {
        let mut stream = stream(
            INPUT.as_bytes(),
            &SourceConfig::default(),
            &Position::default(),
        );
        let taken = take(&mut stream, usize::MAX);
        let destination: BTreeSet<&str> = taken
            .iter()
            .map(|(_, destination)| destination.as_str())
            .collect();
        let indices: BTreeSet<u64> = taken.iter().map(|(index, _)| *index).collect();
        assert_eq!(
            (destination.len(), indices.len()),
            (taken.len(), taken.len()),
            "doubles in {taken:?}"
        );
        // Six of the 256 are excluded, and one is a duplicate.
        assert_eq!(taken.len(), 3 + 249 + 1 + 2 + 32 + 1 + 9);
        assert_eq!(stream.total(), Some(taken.len() as u64));
        assert_eq!(
            stream.skipped(),
            Skipped {
                duplicates: 1 + 1 + 1,
                excluded: 6,
                reserved: 3
            }
        );
        assert!(destination.contains("target bad..name") && destination.contains("target host:0"));
        assert!(!destination.contains("ugp://192.0.2.250:22000"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn nothing_is_lost_or_doubled_by_a_cut(
            seed: u64,
            (number, of) in (1_u64..4).prop_flat_map(|of| (1..=of, Just(of))),
            cuts in prop::collection::vec((0_usize..200, any::<u64>(), 20_usize..200), 0..4),
        ) {
            let walk = SourceConfig { seed, shard: Shard::new(number, of).unwrap(), ..SourceConfig::default() };
            let mut position = Position::default();
            let mut finished = BTreeMap::new();
            for (cut, ends, drop) in cuts.into_iter().chain([(usize::MAX, u64::MAX, 50)]) {
                position.unfinished.sort_unstable();
                let mut stream = stream(Trickle(Cursor::new(INPUT.as_bytes()), drop), &walk, &position);
                prop_assert_eq!(stream.position(), position);
                let given = take(&mut stream, cut);
                position = stream.position();
                for (index, destination) in given {
                    prop_assert!(index < position.next && !position.unfinished.contains(&index));
                    match ends >> (index % 64) & 1 {
                        1 => prop_assert!(finished.insert(index, destination).is_none(), "{} twice", index),
                        _ => position.unfinished.push(index),
                    }
                }
            }
            let mut whole = stream(INPUT.as_bytes(), &walk, &Position::default());
            let whole: BTreeMap<_, _> = take(&mut whole, usize::MAX).into_iter().collect();
            prop_assert_eq!(finished, whole);
        }
    }

    #[test]
    fn shares_of_one_input_are_all_of_it_once() {
        let share = |number| {
            let walk = SourceConfig {
                shard: Shard::new(number, 3).unwrap(),
                ..SourceConfig::default()
            };
            take(
                &mut stream(INPUT.as_bytes(), &walk, &Position::default()),
                usize::MAX,
            )
        };
        let mut all: Vec<_> = (1..=3).flat_map(share).collect();
        let mut whole = take(
            &mut stream(
                INPUT.as_bytes(),
                &SourceConfig::default(),
                &Position::default(),
            ),
            usize::MAX,
        );
        all.sort_unstable();
        whole.sort_unstable();
        assert_eq!(all, whole);
    }

    /// The writer neither writes nor closes.
    #[test]
    fn does_not_wait_for_a_slow_writer() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut stream = stream(reader, &SourceConfig::default(), &Position::default());
        assert!(matches!(stream.next(), Next::Pending));
        io::Write::write_all(
            &mut writer,
            b"ugp://192.0.2.1\nugp://192.0.2.2\nugp://192.0.2.3",
        )
        .unwrap();
        let mut destinations: Vec<String> = take(&mut stream, 2)
            .into_iter()
            .map(|(_, destination)| destination)
            .collect();
        destinations.sort_unstable();
        // The third line has no line break, so it may continue.
        assert_eq!(
            destinations,
            ["ugp://192.0.2.1:22000", "ugp://192.0.2.2:22000"]
        );
        assert!(matches!(stream.next(), Next::Pending));
        assert_eq!(
            stream.position(),
            Position {
                next: 2,
                unfinished: vec![]
            }
        );
        assert_eq!(stream.total(), None);
        let started = Instant::now();
        drop(stream);
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    /// Unfinished probes of an earlier sweep stay unfinished until the source has returned them
    /// again.
    #[test]
    fn future_periods_are_unfinished() {
        let (reader, mut writer) = io::pipe().unwrap();
        let from = Position {
            next: 5,
            unfinished: vec![0, 3],
        };
        let mut stream = stream(reader, &SourceConfig::default(), &from);
        io::Write::write_all(&mut writer, b"ugp://192.0.2.1\nugp://192.0.2.2\n").unwrap();
        assert_eq!(take(&mut stream, 1), [(0, "ugp://192.0.2.1:22000".into())]);
        assert_eq!(
            stream.position(),
            Position {
                next: 5,
                unfinished: vec![3]
            }
        );
        io::Write::write_all(
            &mut writer,
            b"host:0\nhost:1:2\na..b\nugp://192.0.2.6\nugp://192.0.2.7\n",
        )
        .unwrap();
        drop(writer);
        let indices: BTreeSet<u64> = take(&mut stream, usize::MAX)
            .iter()
            .map(|(index, _)| *index)
            .collect();
        assert_eq!(indices, [3, 5, 6].into());
        assert_eq!(
            stream.position(),
            Position {
                next: 7,
                unfinished: vec![]
            }
        );
    }

    /// The reader stops when the channel is full, and ends when the source is dropped.
    #[test]
    fn an_endless_input_is_bounded() {
        struct Endless(#[expect(dead_code, reason = "is counted")] Arc<()>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let line = b"ugp://10.0.0.0/8\n";
                buffer[..line.len()].copy_from_slice(line);
                Ok(line.len())
            }
        }
        let alive = Arc::new(());
        let mut stream = stream(
            Endless(alive.clone()),
            &SourceConfig::default(),
            &Position::default(),
        );
        let taken = take(&mut stream, 1000);
        assert!(stream.pool.len() <= WINDOW + CHUNK);
        // The range is spread from the start, although a stream is walked through in order.
        let networks: BTreeSet<&str> = taken
            .iter()
            .map(|(_, destination)| destination.rsplit_once('.').unwrap().0)
            .collect();
        assert!(networks.len() > 900, "{} networks", networks.len());
        drop(stream);
        let started = Instant::now();
        while Arc::strong_count(&alive) > 1 {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "the reader lives on"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_sorted_list_is_spread_within_the_window() {
        let lines: String = (0..16_384)
            .map(|n| format!("ugp://10.1.{}.{}\n", n / 256, n % 256))
            .collect();
        let mut stream = stream(
            Cursor::new(lines),
            &SourceConfig::default(),
            &Position::default(),
        );
        let started = Instant::now();
        while !stream.is_over {
            assert!(started.elapsed() < Duration::from_secs(10), "no end comes");
            stream.fill();
        }
        let taken = take(&mut stream, 256);
        let networks: BTreeSet<&str> = taken
            .iter()
            .map(|(_, destination)| destination.rsplit_once('.').unwrap().0)
            .collect();
        assert!(networks.len() > 50, "{} networks", networks.len());
    }

    #[test]
    fn duplicate_filter_is_bounded_and_long_enough() {
        let mut seen = DuplicateFilter::new(1, 1000);
        let service = Service { kind: 0, port: 1 };
        let mut is_new = |number: u64| seen.is_new(service, &number.to_le_bytes(), 0);
        let count = 2999_u64;
        assert!((0..count).all(&mut is_new));
        assert!(
            (count - 1000..count).all(|number| !is_new(number)),
            "the last ones are remembered"
        );
        assert!(is_new(0), "the first ones were dropped");
        assert!(seen.new.len() + seen.old.len() <= 2000);
    }
}
