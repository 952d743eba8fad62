//! Verification of a source by an echo.
//!
//! A source that receives the replies to its address can repeat bytes of them; a forger who only
//! sends cannot. A datagram verifies its source if it contains at least [`ECHO_BYTES`] consecutive
//! bytes that were sent to the source, that the source had not sent before, and that no other
//! source was sent. So neither reflected bytes nor constants of the protocol count. Connection ids of
//! QUIC, cookies of RakNet and challenges of Source satisfy this.
//!
//! | limit | value |
//! | --- | --- |
//! | examined bytes at the start of a reply and of a datagram | 128 |
//! | remembered replies of a session | 4 |
//! | new windows of a reply that may verify | 32, so that guesses at encrypted replies are futile |
//! | datagrams examined after each reply | 8 |
//! | bytes that a source sent and that are compared exactly | 6 KiB; of more, some bytes of replies are taken for reflected |
//! | memory of an unverified session | 9 KiB |
//! | windows known to be sent to a source | 16,384 in 320 KiB |
//!
//! A *window* is four consecutive bytes. The replies to the first source after a start can be
//! compared with no others, so a constant may verify it. It loses the verification when two other sources are sent the same
//! bytes.

/// Bytes of an echo. A random datagram contains them with a probability of at most 1 in 250,000.
const ECHO_BYTES: usize = 4;
/// Bytes of an echo in digits, which are easier to guess, and of sources in a network with too many
/// attempts.
const LONG_ECHO_BYTES: usize = 8;
const EXAMINED_BYTES: usize = 128;
const MAX_WINDOWS: usize = EXAMINED_BYTES - ECHO_BYTES + 1;
const REPLIES: usize = 4;
const MAX_NEW_WINDOWS: u32 = 32;
const MAX_EXAMINED: u8 = 8;
/// Five first datagrams of QUIC.
const MAX_EXACT_BYTES: usize = 6 << 10;
/// A window is a constant of a kind of replies if at least this share of the sessions with the most
/// common window of the reply were sent it, as a divisor, and at least this number. A byte of a
/// challenge next to a constant reaches neither by chance.
const CONSTANT_SHARE: u32 = 4;
const CONSTANT_SESSIONS: u32 = 3;

/// A session by its slot. The serial number distinguishes it from a later session in the same slot.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) slot: u32,
    /// Serial number of the session; 0 marks an empty entry.
    pub(crate) serial: u32,
}

/// Bytes of an unverified source, and the last replies to it.
pub(crate) struct EchoMemory {
    /// Bloom filter of all windows that the source sent. Bits are never cleared.
    sent: [u64; Self::FILTER_WORDS],
    /// All datagrams of the source, which tell false hits of the filter from true ones. `None` if they
    /// are too long.
    exact: Option<Vec<u8>>,
    replies: [SentReply; REPLIES],
    /// Number of replies so far; the next one replaces the oldest.
    count: usize,
    /// Number of datagrams that are still examined.
    left: u8,
}

#[derive(Clone, Copy)]
struct SentReply {
    bytes: [u8; EXAMINED_BYTES],
    length: u8,
    /// One bit for each window that the source had sent before.
    reflected: u128,
}

impl EchoMemory {
    const FILTER_WORDS: usize = 256;

    pub(crate) fn new() -> Self {
        Self {
            sent: [0; Self::FILTER_WORDS],
            exact: Some(Vec::new()),
            replies: [SentReply {
                bytes: [0; EXAMINED_BYTES],
                length: 0,
                reflected: 0,
            }; REPLIES],
            count: 0,
            left: 0,
        }
    }

    /// Returns the words and bits of a window.
    fn bits(window: u32, factor: u64) -> [(usize, u64); 2] {
        let hash = u64::from(window).wrapping_mul(factor);
        [hash >> 50, hash >> 36 & 0x3FFF].map(|at| ((at >> 6) as usize, 1 << (at & 63)))
    }

    /// Records a datagram from the source. `factor`: a secret odd number.
    pub(crate) fn record_request(&mut self, bytes: &[u8], factor: u64) {
        for window in windows(bytes) {
            for (word, bit) in Self::bits(window, factor) {
                self.sent[word] |= bit;
            }
        }
        self.exact = self
            .exact
            .take()
            .filter(|exact| exact.len() + bytes.len() <= MAX_EXACT_BYTES);
        if let Some(exact) = &mut self.exact {
            exact.extend_from_slice(bytes);
        }
    }

    /// Returns one bit for each window at the start of a reply that the source has sent.
    pub(crate) fn reflected(&self, reply: &[u8], factor: u64) -> u128 {
        let reply = start(reply);
        let is_in_filter = |window| {
            let mut bits = Self::bits(window, factor).into_iter();
            bits.all(|(word, bit)| self.sent[word] & bit != 0)
        };
        let reflected = mask(windows(reply).map(is_in_filter));
        let Some(exact) = self.exact.as_ref().filter(|_| reflected != 0) else {
            return reflected;
        };
        let set = WindowSet::new(reply);
        let mut is_sent = [false; MAX_WINDOWS];
        for window in windows(exact) {
            if let Some(is_sent) = set.find(window).and_then(|at| is_sent.get_mut(at)) {
                *is_sent = true;
            }
        }
        let is_sent = |window| set.find(window).is_some_and(|at| is_sent[at]);
        reflected & mask(windows(reply).map(is_sent))
    }

    /// Records a reply that is sent to the source.
    pub(crate) fn record_reply(&mut self, reply: &[u8], reflected: u128) {
        let bytes = start(reply);
        let place = &mut self.replies[self.count % REPLIES];
        place.bytes[..bytes.len()].copy_from_slice(bytes);
        place.length = bytes.len() as u8;
        place.reflected = reflected;
        self.count += 1;
        self.left = MAX_EXAMINED;
    }

    /// Returns whether another datagram may be examined for an echo.
    pub(crate) fn may_examine(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// Looks for an echo in a datagram from the source, and returns its first window. `is_long`: only
    /// an echo of [`LONG_ECHO_BYTES`] counts.
    pub(crate) fn find_echo(
        &self,
        datagram: &[u8],
        shared: &SharedWindows,
        is_long: bool,
    ) -> Option<u32> {
        let datagram = start(datagram);
        let set = WindowSet::new(datagram);
        let mut replies = self.replies.iter().take(self.count);
        replies.find_map(|reply| {
            let bytes = &reply.bytes[..usize::from(reply.length)];
            let hits = mask(windows(bytes).map(|window| set.find(window).is_some()));
            if hits == 0 {
                return None;
            }
            let new = first_bits(reply.new_windows(shared), MAX_NEW_WINDOWS);
            let echo_at = |at: usize| {
                let window = bytes.get(at..at + ECHO_BYTES)?;
                let is_long = is_long || window.iter().all(u8::is_ascii_hexdigit);
                let length = if is_long { LONG_ECHO_BYTES } else { ECHO_BYTES };
                let wanted = bytes.get(at..at + length)?;
                let all = ((1 << (length - ECHO_BYTES + 1)) - 1) << at;
                (distinct(window) > 2
                    && new & all == all
                    && datagram.windows(length).any(|found| found == wanted))
                .then(|| windows(window).next())?
            };
            (0..MAX_WINDOWS)
                .filter(|at| hits >> at & 1 == 1)
                .find_map(echo_at)
        })
    }
}

impl SentReply {
    /// Returns one bit for each window that only this session was sent, and that overlaps neither a
    /// constant nor bytes that the source sent before. With three known bytes, only one would have to
    /// be guessed.
    fn new_windows(&self, shared: &SharedWindows) -> u128 {
        let bytes = &self.bytes[..usize::from(self.length)];
        let mut sessions = [0; MAX_WINDOWS];
        for (count, window) in sessions.iter_mut().zip(windows(bytes)) {
            *count = shared.sessions(window);
        }
        let most = sessions.iter().copied().max().unwrap_or_default();
        let constant = CONSTANT_SESSIONS.min(most).max(most / CONSTANT_SHARE);
        let is_known = |(window, count): (u32, &u32)| {
            let is_constant = *count > 1 && *count >= constant;
            is_constant || distinct(&window.to_be_bytes()) == 1
        };
        let known = self.reflected | mask(windows(bytes).zip(&sessions).map(is_known));
        let near = (1..ECHO_BYTES).fold(known, |near, by| near | known << by | known >> by);
        let own = mask(windows(bytes).zip(&sessions).map(|(_, count)| *count <= 1));
        own & !near
    }
}

/// The windows of at most [`EXAMINED_BYTES`] bytes.
struct WindowSet {
    /// Most windows that are not in the set have no bit here.
    filter: [u64; Self::FILTER_WORDS],
    sorted: [u32; MAX_WINDOWS],
    count: usize,
}

impl WindowSet {
    const FILTER_WORDS: usize = 64;

    fn new(bytes: &[u8]) -> Self {
        let mut set = Self {
            filter: [0; Self::FILTER_WORDS],
            sorted: [0; MAX_WINDOWS],
            count: 0,
        };
        for (place, window) in set.sorted.iter_mut().zip(windows(bytes)) {
            *place = window;
            let (word, bit) = Self::bit(window);
            set.filter[word] |= bit;
            set.count += 1;
        }
        set.sorted[..set.count].sort_unstable();
        set
    }

    fn bit(window: u32) -> (usize, u64) {
        let hash = window.wrapping_mul(0x9E37_79B1) >> 20;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    /// Returns the place of a window in the set.
    fn find(&self, window: u32) -> Option<usize> {
        let (word, bit) = Self::bit(window);
        if self.filter[word] & bit == 0 {
            return None;
        }
        let at = self.sorted[..self.count].partition_point(|other| *other < window);
        (self.sorted[..self.count].get(at) == Some(&window)).then_some(at)
    }
}

pub(crate) fn start(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(EXAMINED_BYTES)]
}

pub(crate) fn windows(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let windows = bytes.windows(ECHO_BYTES);
    windows.map(|window| u32::from_be_bytes([window[0], window[1], window[2], window[3]]))
}

/// Returns a number whose bits are these values, from the lowest on.
fn mask(values: impl Iterator<Item = bool>) -> u128 {
    let bits = values.take(MAX_WINDOWS).enumerate();
    bits.fold(0, |mask, (at, value)| mask | u128::from(value) << at)
}

/// Returns the lowest `count` ones of a number.
fn first_bits(mut bits: u128, count: u32) -> u128 {
    let all = bits;
    for _ in 0..count {
        bits &= bits.wrapping_sub(1);
    }
    all & !bits
}

/// Returns the number of different bytes.
fn distinct(bytes: &[u8]) -> usize {
    let is_first = |(at, byte): &(usize, &u8)| !bytes[..*at].contains(byte);
    bytes.iter().enumerate().filter(is_first).count()
}

/// Windows that the game server sent recently, each with its sessions. In rows of fixed size: windows
/// of one session are evicted first.
pub(crate) struct SharedWindows {
    rows: Box<[[SharedWindow; Self::ENTRIES]]>,
    /// Secret odd number.
    factor: u64,
}

#[derive(Clone, Copy, Default)]
struct SharedWindow {
    window: u32,
    /// The first session that was sent this window.
    owner: Ticket,
    /// Serial number of the last other one, or 0.
    last: u32,
    /// Number of sessions.
    sessions: u32,
}

impl SharedWindows {
    const ENTRIES: usize = 4;
    const ROWS: usize = 1 << 12;

    pub(crate) fn new(factor: u64) -> Self {
        Self {
            rows: Box::default(),
            factor,
        }
    }

    fn row(&self, window: u32) -> usize {
        let hash = u64::from(window).wrapping_mul(self.factor);
        (hash >> (u64::BITS - Self::ROWS.ilog2())) as usize
    }

    /// Returns the number of sessions that were sent this window, as far as it is remembered.
    fn sessions(&self, window: u32) -> u32 {
        let row = self.rows.get(self.row(window));
        let found = |entry: &&SharedWindow| entry.window == window;
        let entry = row.and_then(|row| row.iter().find(found));
        entry.map_or(0, |entry| entry.sessions)
    }

    /// Records a window of a reply to a session. If it is the third one with this window, returns
    /// the first one.
    pub(crate) fn record(&mut self, window: u32, session: Ticket) -> Option<Ticket> {
        if self.rows.is_empty() {
            self.rows = vec![Default::default(); Self::ROWS].into();
        }
        let at = self.row(window);
        let row = &mut self.rows[at];
        let found = |entry: &SharedWindow| entry.window == window && entry.sessions > 0;
        let Some(found) = row.iter().position(found) else {
            let unshared = row.iter().rposition(|entry| entry.sessions <= 1);
            let place = unshared.unwrap_or(Self::ENTRIES - 1);
            row[..=place].rotate_right(1);
            row[0] = SharedWindow {
                window,
                owner: session,
                last: 0,
                sessions: 1,
            };
            return None;
        };
        row[..=found].rotate_right(1);
        let entry = &mut row[0];
        if entry.owner == session || entry.last == session.serial {
            return None;
        }
        entry.last = session.serial;
        entry.sessions = entry.sessions.saturating_add(1);
        (entry.sessions == 3).then_some(entry.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

    fn ticket(serial: u32) -> Ticket {
        Ticket {
            slot: serial - 1,
            serial,
        }
    }

    /// A relay's memory with any number of sources.
    struct Scene {
        shared: SharedWindows,
        sources: Vec<EchoMemory>,
    }

    impl Scene {
        fn new(sources: usize) -> Self {
            Self {
                shared: SharedWindows::new(FACTOR),
                sources: (0..sources).map(|_| EchoMemory::new()).collect(),
            }
        }

        /// Returns whether the datagram verifies its source.
        fn send(&mut self, source: usize, bytes: &[u8]) -> bool {
            let memory = &mut self.sources[source];
            let echo =
                memory.may_examine() && memory.find_echo(bytes, &self.shared, false).is_some();
            memory.record_request(bytes, FACTOR);
            echo
        }

        fn reply(&mut self, source: usize, bytes: &[u8]) {
            let memory = &mut self.sources[source];
            let reflected = memory.reflected(bytes, FACTOR);
            for (at, window) in windows(start(bytes)).enumerate() {
                if reflected >> at & 1 == 0 {
                    self.shared.record(window, ticket(source as u32 + 1));
                }
            }
            memory.record_reply(bytes, reflected);
        }

        /// Replies to sources 1 and 2, so that their constants are known.
        fn baseline(&mut self, reply: impl Fn(u32) -> Vec<u8>) {
            for source in [1, 2] {
                self.reply(source, &reply(0x5A17_0000 + 0x1357 * source as u32));
            }
        }
    }

    /// A reply with a constant of 21 bytes, four bytes of a challenge, and zeros.
    fn challenge(nonce: u32) -> Vec<u8> {
        let mut reply = b"\xFF\xFF\xFF\xFFAconstant of game".to_vec();
        reply.extend(nonce.to_be_bytes());
        reply.extend([0; 40]);
        reply
    }

    #[test]
    fn four_bytes_that_only_a_receiver_knows_verify_a_source() {
        let mut scene = Scene::new(3);
        scene.baseline(challenge);
        assert!(!scene.send(0, b"hello"));
        scene.reply(0, &challenge(0xC0FF_EE11));
        assert!(scene.send(0, b"join \xC0\xFF\xEE\x11"));
    }

    #[test]
    fn constants_and_guesses_of_single_bytes_do_not_count() {
        let mut scene = Scene::new(3);
        scene.baseline(challenge);
        scene.send(0, b"hello");
        scene.reply(0, &challenge(0xC0FF_EE11));
        assert!(!scene.send(0, b"\xFF\xFF\xFF\xFFAconstant of game"));
        assert!(!scene.send(0, &[0; 64]));
        // One, two or three bytes of the challenge next to the constant.
        assert!(!scene.send(0, b"game\xC0"));
        assert!(!scene.send(0, b"of game\xC0\xFF\xEE"));
        assert!(!scene.send(0, b"\x11\0\0\0\0\0"));
        assert!(!scene.send(0, b"\xFF\xEE\x11\0\0"));
    }

    /// With many players, each byte next to a constant has been sent to several of them.
    #[test]
    fn challenges_of_many_players_stay_new() {
        let mut scene = Scene::new(2_003);
        scene.baseline(challenge);
        let mut failed = 0;
        for player in 3..2_003 {
            let nonce = (player as u32).wrapping_mul(0x9E37_79B1) ^ 0x5C5C_0000;
            scene.send(player, b"hello");
            scene.reply(player, &challenge(nonce));
            failed +=
                u32::from(!scene.send(player, &[b"join ", &nonce.to_be_bytes()[..]].concat()));
        }
        assert!(failed <= 10, "{failed} of 2,000");
    }

    #[test]
    fn reflected_bytes_do_not_count() {
        let mut scene = Scene::new(3);
        scene.baseline(challenge);
        let mut long = vec![7; 1_400];
        long.extend(b"\xC0\xFF\xEE\x11");
        scene.send(0, &long);
        scene.reply(0, &challenge(0xC0FF_EE11));
        assert!(!scene.send(0, b"join \xC0\xFF\xEE\x11"));
    }

    /// A filter alone takes one in ten windows of an encrypted reply for reflected.
    #[test]
    fn long_requests_do_not_hide_an_echo() {
        let mut scene = Scene::new(3);
        scene.baseline(challenge);
        let mut state = 1_u64;
        let mut random = |length: usize| -> Vec<u8> {
            let byte = |_| {
                state = state.wrapping_mul(FACTOR).wrapping_add(12_345);
                (state >> 56) as u8
            };
            (0..length).map(byte).collect()
        };
        for number in 0..100 {
            scene.sources[0] = EchoMemory::new();
            for _ in 0..4 {
                scene.send(0, &random(1_200));
            }
            let reply = random(1_200);
            scene.reply(0, &reply);
            assert!(
                scene.send(0, &[b"\x40", &reply[15..19]].concat()),
                "{number}"
            );
        }
    }

    #[test]
    fn digits_count_from_eight_on() {
        let text = |number: u32| {
            format!("\u{7}\u{7}\u{7}\u{7}challenge {number:010} p=34,35").into_bytes()
        };
        let mut scene = Scene::new(3);
        scene.baseline(text);
        scene.send(0, b"getchallenge");
        scene.reply(0, &text(1_792_853_461));
        assert!(!scene.send(0, b"connect 1792 8534 61"));
        assert!(!scene.send(0, b"connect 34 7928534"));
        assert!(scene.send(0, b"connect 34 1792853461"));
    }

    #[test]
    fn an_encrypted_reply_verifies_by_its_first_new_bytes_only() {
        let random = |seed: u64| -> Vec<u8> {
            let mut state = seed;
            let byte = |_| {
                state = state.wrapping_mul(FACTOR).wrapping_add(12_345);
                (state >> 56) as u8
            };
            (0..1_200).map(byte).collect()
        };
        let mut scene = Scene::new(3);
        scene.baseline(|number| random(number.into()));
        scene.send(0, &random(5));
        let reply = random(6);
        scene.reply(0, &reply);
        assert!(!scene.send(0, &reply[40..120]));
        assert!(!scene.send(0, &reply[200..300]));
        let mut first = vec![0x40; 9];
        first.extend(&reply[6..14]);
        assert!(scene.send(0, &first));
    }

    #[test]
    fn an_echo_far_from_the_start_or_long_after_the_reply_does_not_count() {
        let mut scene = Scene::new(3);
        scene.baseline(challenge);
        scene.send(0, b"hello");
        scene.reply(0, &challenge(0xC0FF_EE11));
        let mut far = vec![b'a'; EXAMINED_BYTES - 3];
        far.extend(b"\xC0\xFF\xEE\x11");
        assert!(!scene.send(0, &far));
        let late = scene.sources[0].may_examine();
        assert!(late);
        for _ in 0..MAX_EXAMINED {
            scene.send(0, b"nothing");
        }
        assert!(!scene.send(0, b"\xC0\xFF\xEE\x11"));
    }

    #[test]
    fn the_third_session_with_a_window_names_the_first() {
        let mut shared = SharedWindows::new(FACTOR);
        let of = |serial| ticket(serial);
        assert!(shared.record(0x0102_0304, of(1)).is_none());
        assert!(shared.record(0x0102_0304, of(1)).is_none());
        assert_eq!(shared.sessions(0x0102_0304), 1);
        assert!(shared.record(0x0102_0304, of(2)).is_none());
        assert_eq!(shared.sessions(0x0102_0304), 2);
        assert!(shared.record(0x0102_0304, of(2)).is_none());
        assert!(shared.record(0x0102_0304, of(3)) == Some(of(1)));
        assert!(shared.record(0x0102_0304, of(4)).is_none(), "only once");
    }

    #[test]
    fn constants_stay_known_in_a_flood_of_other_windows() {
        let mut shared = SharedWindows::new(FACTOR);
        shared.record(7, ticket(1));
        shared.record(7, ticket(2));
        for number in 0..1_000_000_u32 {
            shared.record(number.wrapping_mul(0x9E37_79B1) | 8, ticket(3 + number % 5));
        }
        assert_eq!(shared.sessions(7), 2);
        assert_eq!(shared.rows.len() * SharedWindows::ENTRIES, 16_384);
    }

    #[test]
    fn takes_the_lowest_bits() {
        assert_eq!(first_bits(0b1011_0100, 2), 0b0001_0100);
        assert_eq!(first_bits(0b1011_0100, 9), 0b1011_0100);
        assert_eq!(first_bits(0, 3), 0);
        assert_eq!(distinct(&[1, 1, 2, 1]), 2);
    }
}
