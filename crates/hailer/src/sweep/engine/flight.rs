//! Probes in flight, found by address and woken by time. Each takes a slot of 34 bytes and, with
//! the free places of the hash table, about 8 bytes of the index by address: 42 together.
//!
//! ```text
//!   by address: hash table of slot numbers, 5 bytes each
//!   by time:    timer wheel of linked lists of slots
//! ```
//!
//! The timer wheel has 2^16 places, one for each tick of 8 ms. A slot therefore stores only the low
//! 16 bits of its tick, and never moves between wheels. Wake times are at most 268 s ahead.

use super::services::{KindNumber, is_stream};
use hailer_proto::Cookie;
use hashbrown::HashTable;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// Number of a slot.
pub(crate) type Id = u32;

const NONE: Id = Id::MAX;
/// Length of a tick, in microseconds.
const TICK_MICROS: u64 = 8_192;
pub(crate) const TICK: Duration = Duration::from_micros(TICK_MICROS);
const TICKS: usize = 1 << 16;
/// Longest time until a wake-up, in ticks. Half a turn, so that past and future ticks are
/// distinguishable.
const HORIZON: u64 = TICKS as u64 / 2;

/// A probe in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    /// IPv4 address, or index of an IPv6 address in `wide`.
    ip: u32,
    /// Time of the last datagram in microseconds, modulo 2^32 (71 minutes). If the server has
    /// replied, the index of its driver.
    pub(crate) sent_or_driver: u32,
    /// Time of the first datagram, in milliseconds.
    pub(crate) began: u32,
    before: Id,
    after: Id,
    index_low: u32,
    due: u16,
    port: u16,
    index_high: u8,
    /// Number of resent datagrams.
    pub(crate) resends: u8,
    /// One bit each, and the number of forgiven losses in two bits.
    flags: u8,
}

const _: () = assert!(size_of::<Slot>() == 32);

const WIDE: u8 = 1;
const ANSWERED: u8 = 2;
const WAITING: u8 = 4;
const FREE: u8 = 8;
/// Two bits.
const FORGIVEN: u8 = 16;
const STREAM: u8 = 64;
const OVERDUE: u8 = 128;
const MAX_FORGIVEN: u8 = 3;

impl Slot {
    pub(crate) fn index(&self) -> u64 {
        u64::from(self.index_high) << 32 | u64::from(self.index_low)
    }

    /// Returns whether the server has replied. If so, the probe has a driver.
    pub(crate) fn has_answered(&self) -> bool {
        self.flags & ANSWERED != 0
    }

    /// Returns whether the probe waits for a rate limit and nothing was sent yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.flags & WAITING != 0
    }

    /// Returns whether the protocol of the probe uses streams.
    pub(crate) fn is_stream(&self) -> bool {
        self.flags & STREAM != 0
    }

    pub(crate) fn set_answered(&mut self, driver: u32) {
        self.flags |= ANSWERED;
        self.sent_or_driver = driver;
    }

    /// Forgives a loss that was our own fault. Returns `false` if [`MAX_FORGIVEN`] losses were
    /// forgiven before.
    pub(crate) fn forgive(&mut self) -> bool {
        let may = self.flags / FORGIVEN % (MAX_FORGIVEN + 1) < MAX_FORGIVEN;
        self.flags += if may { FORGIVEN } else { 0 };
        may
    }
}

/// All probes in flight.
#[derive(Debug)]
pub(crate) struct ProbeTable {
    slots: Vec<Slot>,
    /// For each slot, the number of its protocol and game.
    kinds: Vec<KindNumber>,
    free: Id,
    table: HashTable<Id>,
    wide: Vec<SocketAddrV6>,
    wide_free: Vec<u32>,
    wheel: Box<[Id]>,
    /// All slots due before this tick have been woken.
    cursor: u64,
    length: usize,
    waiting: usize,
    overdue: usize,
    seed: u64,
}

impl ProbeTable {
    /// Creates an empty table. The seed prevents authors of target lists from choosing hash
    /// collisions.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            kinds: Vec::new(),
            free: NONE,
            table: HashTable::new(),
            wide: Vec::new(),
            wide_free: Vec::new(),
            wheel: vec![NONE; TICKS].into(),
            cursor: 0,
            length: 0,
            waiting: 0,
            overdue: 0,
            seed,
        }
    }

    /// Returns the number of probes in flight, including those that wait for a rate limit.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the number of probes that wait for a rate limit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of probes that count toward the window: those that wait for a rate limit
    /// have not started, and those that are overdue hardly cause traffic.
    pub(crate) fn in_window(&self) -> usize {
        self.length - self.waiting - self.overdue
    }

    pub(crate) fn slot(&self, id: Id) -> &Slot {
        &self.slots[id as usize]
    }

    pub(crate) fn slot_mut(&mut self, id: Id) -> &mut Slot {
        &mut self.slots[id as usize]
    }

    /// Returns the number of the protocol and game of a probe.
    pub(crate) fn kind(&self, id: Id) -> KindNumber {
        self.kinds[id as usize]
    }

    /// Returns whether a number belongs to a probe in flight that does not wait for a rate limit.
    pub(crate) fn has_started(&self, id: Id) -> bool {
        let slot = self.slots.get(id as usize);
        slot.is_some_and(|slot| slot.flags & (FREE | WAITING) == 0)
    }

    /// Adds a probe that waits for a rate limit.
    pub(crate) fn insert(
        &mut self,
        address: SocketAddr,
        kind: KindNumber,
        index: u64,
        now: Duration,
        due: Duration,
    ) -> Id {
        let (ip, wide) = match address {
            SocketAddr::V4(address) => (address.ip().to_bits(), 0),
            SocketAddr::V6(address) => (self.widen(address), WIDE),
        };
        let slot = Slot {
            ip,
            sent_or_driver: 0,
            began: now.as_millis() as u32,
            before: NONE,
            after: NONE,
            index_low: index as u32,
            due: 0,
            port: address.port(),
            index_high: (index >> 32) as u8,
            resends: 0,
            flags: WAITING | wide | if is_stream(kind) { STREAM } else { 0 },
        };
        let id = match self.free {
            NONE => {
                self.slots.push(slot);
                self.kinds.push(kind);
                self.slots.len() as Id - 1
            }
            id => {
                self.free = self.slots[id as usize].after;
                self.slots[id as usize] = slot;
                self.kinds[id as usize] = kind;
                id
            }
        };
        let slots = &self.slots;
        let seed = self.seed;
        let list = &self.wide;
        let hash = |id: &Id| hash(seed, address_of(&slots[*id as usize], list));
        self.table.insert_unique(hash(&id), id, hash);
        self.length += 1;
        self.waiting += 1;
        self.link(id, due);
        id
    }

    fn widen(&mut self, address: SocketAddrV6) -> u32 {
        match self.wide_free.pop() {
            Some(place) => {
                self.wide[place as usize] = address;
                place
            }
            None => {
                self.wide.push(address);
                self.wide.len() as u32 - 1
            }
        }
    }

    /// Marks that the first datagram is sent and the probe no longer waits.
    pub(crate) fn set_sent(&mut self, id: Id) {
        let slot = &mut self.slots[id as usize];
        if slot.is_waiting() {
            slot.flags &= !WAITING;
            self.waiting -= 1;
        }
    }

    /// Records that a probe waits again.
    pub(crate) fn set_waiting(&mut self, id: Id) {
        let slot = &mut self.slots[id as usize];
        if !slot.is_waiting() {
            slot.flags |= WAITING;
            self.waiting += 1;
        }
        self.set_overdue(id, false);
    }

    /// Records whether a server has not replied, or its connection not opened, in the time that
    /// nearly all others took.
    pub(crate) fn set_overdue(&mut self, id: Id, is_overdue: bool) {
        let slot = &mut self.slots[id as usize];
        self.overdue -= usize::from(slot.flags & OVERDUE != 0);
        self.overdue += usize::from(is_overdue);
        slot.flags = slot.flags & !OVERDUE | if is_overdue { OVERDUE } else { 0 };
    }

    /// Removes a probe.
    pub(crate) fn remove(&mut self, id: Id) {
        self.unlink(id);
        let address = self.address(id);
        if let Ok(entry) = self
            .table
            .find_entry(hash(self.seed, address), |other| *other == id)
        {
            entry.remove();
        }
        let slot = &mut self.slots[id as usize];
        if slot.flags & WIDE != 0 {
            self.wide_free.push(slot.ip);
        }
        self.length -= 1;
        self.waiting -= usize::from(slot.flags & WAITING != 0);
        self.overdue -= usize::from(slot.flags & OVERDUE != 0);
        slot.flags = FREE;
        slot.after = self.free;
        self.free = id;
    }

    /// Returns the address of a probe.
    pub(crate) fn address(&self, id: Id) -> SocketAddr {
        address_of(&self.slots[id as usize], &self.wide)
    }

    /// Replaces `found` with the probes of an address. Usually there is at most one for each
    /// protocol.
    pub(crate) fn find(&self, address: SocketAddr, found: &mut Vec<Id>) {
        found.clear();
        let address = match address {
            // The flow label of a received datagram does not belong to the sender's address.
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
            v4 => v4,
        };
        let same = self.table.iter_hash(hash(self.seed, address)).copied();
        found.extend(same.filter(|id| is_same(self.address(*id), address)));
    }

    /// Changes the wake time of a probe.
    pub(crate) fn wake_at(&mut self, id: Id, due: Duration) {
        self.unlink(id);
        self.link(id, due);
    }

    fn link(&mut self, id: Id, due: Duration) {
        // Rounded up, so that no probe wakes early.
        let tick = (due.as_micros() as u64)
            .div_ceil(TICK_MICROS)
            .clamp(self.cursor, self.cursor + HORIZON);
        let place = tick as usize % TICKS;
        let first = std::mem::replace(&mut self.wheel[place], id);
        if first != NONE {
            self.slots[first as usize].before = id;
        }
        let slot = &mut self.slots[id as usize];
        slot.before = NONE;
        slot.after = first;
        slot.due = place as u16;
    }

    fn unlink(&mut self, id: Id) {
        let Slot {
            before, after, due, ..
        } = self.slots[id as usize];
        match before {
            NONE if self.wheel[usize::from(due)] == id => self.wheel[usize::from(due)] = after,
            NONE => {}
            before => self.slots[before as usize].after = after,
        }
        if after != NONE {
            self.slots[after as usize].before = before;
        }
        let slot = &mut self.slots[id as usize];
        slot.before = NONE;
        slot.after = NONE;
    }

    /// Returns the next probe that is due. It stays in flight but does not wake again until
    /// [`wake_at`](Self::wake_at).
    pub(crate) fn wake(&mut self, now: Duration) -> Option<Id> {
        let tick = now.as_micros() as u64 / TICK_MICROS;
        // After a suspend, one turn of the wheel covers all slots.
        self.cursor = self.cursor.max(tick.saturating_sub(TICKS as u64));
        while self.cursor <= tick {
            let id = self.wheel[self.cursor as usize % TICKS];
            if id != NONE {
                self.unlink(id);
                return Some(id);
            }
            self.cursor += 1;
        }
        None
    }

    /// Returns when the next probe wakes, or about `horizon` from the last wake-up if none does
    /// before.
    pub(crate) fn next_due(&self, horizon: Duration) -> Duration {
        let ticks = (horizon.as_micros() as u64 / TICK_MICROS).min(HORIZON);
        let ahead =
            (0..ticks).find(|ahead| self.wheel[(self.cursor + ahead) as usize % TICKS] != NONE);
        Duration::from_micros((self.cursor + ahead.unwrap_or(ticks)) * TICK_MICROS)
    }

    /// Returns all probes in flight.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        (0..self.slots.len() as Id).filter(|id| self.slots[*id as usize].flags & FREE == 0)
    }
}

fn address_of(slot: &Slot, wide: &[SocketAddrV6]) -> SocketAddr {
    match slot.flags & WIDE {
        0 => (Ipv4Addr::from_bits(slot.ip), slot.port).into(),
        _ => wide[slot.ip as usize].into(),
    }
}

/// Compares without the zone: a link-local address may have been typed without it.
fn is_same(queried: SocketAddr, from: SocketAddr) -> bool {
    queried.ip() == from.ip() && queried.port() == from.port()
}

fn hash(seed: u64, address: SocketAddr) -> u64 {
    match address.ip() {
        IpAddr::V4(ip) => {
            Cookie(seed).derive(u64::from(ip.to_bits()) << 16 | u64::from(address.port()))
        }
        IpAddr::V6(ip) => {
            let [high, low] = halves(ip);
            Cookie(Cookie(seed).derive(high)).derive(low ^ u64::from(address.port()))
        }
    }
}

fn halves(ip: Ipv6Addr) -> [u64; 2] {
    let bits = ip.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn waiting_and_overdue_probes_do_not_count_toward_the_window() {
        let mut flight = ProbeTable::new(7);
        let ids = [1, 2, 3].map(|port| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            flight.insert(address, 0, 0, ms(0), ms(0))
        });
        assert_eq!((flight.len(), flight.in_window()), (3, 0));
        ids.iter().for_each(|id| flight.set_sent(*id));
        assert_eq!(flight.in_window(), 3);
        for _ in 0..2 {
            flight.set_overdue(ids[0], true);
            flight.set_overdue(ids[1], true);
        }
        assert_eq!(flight.in_window(), 1);
        flight.set_overdue(ids[0], false);
        assert_eq!(flight.in_window(), 2);
        // One that is overdue waits again, another one ends.
        flight.set_waiting(ids[1]);
        flight.set_overdue(ids[2], true);
        flight.remove(ids[2]);
        assert_eq!(
            (flight.len(), flight.waiting(), flight.in_window()),
            (2, 1, 1)
        );
    }

    proptest! {
        /// Compares with a plain map: every probe is found by its address and wakes once, never
        /// early and at most one tick late.
        #[test]
        fn it_is_a_map_with_an_alarm(steps in proptest::collection::vec((0u8..6, 0u16..40, 0u64..3_000), 1..400)) {
            let mut flight = ProbeTable::new(7);
            let mut model: BTreeMap<Id, (SocketAddr, Option<Duration>)> = BTreeMap::new();
            let mut now = Duration::ZERO;
            let mut found = Vec::new();
            for (what, who, time) in steps {
                let address: SocketAddr = match who % 3 {
                    0 => SocketAddr::from(([0xFE80, 0, 0, 0, 0, 0, 0, who / 2], who)),
                    _ => SocketAddr::from(([127, 0, 0, (who / 2) as u8], who % 7)),
                };
                match what {
                    0 | 1 => {
                        let due = now + ms(time);
                        let id = flight.insert(address, 0, u64::from(who), now, due);
                        prop_assert!(model.insert(id, (address, Some(due))).is_none());
                    }
                    2 => {
                        if let Some(id) = model.keys().nth(usize::from(who)).copied() {
                            flight.remove(id);
                            model.remove(&id);
                        }
                    }
                    3 => {
                        if let Some((id, (_, due))) = model.iter_mut().nth(usize::from(who)) {
                            *due = Some(now + ms(time));
                            flight.wake_at(*id, now + ms(time));
                        }
                    }
                    _ => {
                        now += ms(time / 10);
                        while let Some(id) = flight.wake(now) {
                            let (_, due) = model.get_mut(&id).unwrap();
                            prop_assert!(due.take().unwrap() <= now);
                        }
                        let late = now.saturating_sub(Duration::from_micros(TICK_MICROS));
                        prop_assert!(model.values().all(|(_, due)| due.is_none_or(|due| due >= late)));
                    }
                }
                flight.find(address, &mut found);
                found.sort_unstable();
                let expected: Vec<Id> = model.iter().filter(|(_, (a, _))| *a == address).map(|(id, _)| *id).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(flight.len(), model.len());
                prop_assert_eq!(flight.ids().collect::<Vec<_>>(), model.keys().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn far_alarms_fire_at_the_horizon() {
        let mut flight = ProbeTable::new(7);
        let id = flight.insert(
            ([127, 0, 0, 1], 1).into(),
            0,
            1 << 35 | 3,
            ms(0),
            ms(100_000_000),
        );
        assert_eq!(flight.slot(id).index(), 1 << 35 | 3);
        assert_eq!(flight.wake(ms(200_000)), None);
        assert!(flight.next_due(ms(600_000)) <= ms(270_000));
        assert_eq!(flight.wake(ms(270_000)), Some(id));
    }
}
