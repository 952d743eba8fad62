//! TCP reassembly: returns the bytes of a stream once and in order, from segments that may be late,
//! repeated, overlapping or missing.
//!
//! Limit: each direction stores at most 1 MiB of early segments.

use std::collections::BTreeMap;

/// Maximum size of early segments per direction, in bytes. When it is exceeded, the missing bytes
/// count as lost.
const MAX_PENDING: usize = 1 << 20;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// Offset of the next byte in the stream.
    at: u64,
    /// Early segments by offset; they may overlap.
    pending: BTreeMap<u64, Vec<u8>>,
    pending_bytes: usize,
    /// Whether bytes are missing, so that nothing more is decoded.
    is_lost: bool,
}

/// Bytes that are missing in the capture. Decoding stops there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Stream offset of the first missing byte.
    pub(super) at: u64,
    /// Minimum number of missing bytes.
    pub(super) bytes: u64,
}

impl Flow {
    /// Handles a SYN. Returns `false` if it begins another connection.
    pub(super) fn syn(&mut self, seq: u32) -> bool {
        let first = seq.wrapping_add(1);
        match self.next {
            None => self.next = Some(first),
            Some(next) => return next.wrapping_sub(self.at as u32) == first,
        }
        true
    }

    /// Returns whether no byte was delivered yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.at == 0
    }

    /// Passes the bytes of a segment to `due` if they are next in order, with stored bytes that
    /// follow them. Stores the bytes of early segments.
    ///
    /// # Errors
    /// More than [`MAX_PENDING`] bytes are stored, so the bytes before them count as lost.
    pub(super) fn segment(
        &mut self,
        seq: u32,
        bytes: &[u8],
        mut due: impl FnMut(&[u8]),
    ) -> Result<(), Gap> {
        if bytes.is_empty() || self.is_lost {
            return Ok(());
        }
        // Without a SYN, the stream starts at the first segment.
        let next = *self.next.get_or_insert(seq);
        // Sequence numbers wrap. A segment is never further away than half of their range.
        let ahead = seq.wrapping_sub(next).cast_signed();
        match u64::try_from(ahead) {
            Ok(0) => self.give(bytes, &mut due),
            Ok(ahead) => self.keep(self.at + ahead, bytes),
            Err(_) => match bytes.get(ahead.unsigned_abs() as usize..) {
                // Sent before. The first copy is used.
                None | Some([]) => {}
                Some(new) => self.give(new, &mut due),
            },
        }
        while let Some(first) = self
            .pending
            .first_entry()
            .filter(|first| *first.key() <= self.at)
        {
            let (offset, bytes) = first.remove_entry();
            self.pending_bytes -= bytes.len();
            let seen = usize::try_from(self.at - offset).unwrap_or(usize::MAX);
            if let Some(new @ [_, ..]) = bytes.get(seen..) {
                self.give(new, &mut due);
            }
        }
        if self.pending_bytes > MAX_PENDING {
            self.end()
        } else {
            Ok(())
        }
    }

    /// Ends the stream and drops stored bytes.
    ///
    /// # Errors
    /// Bytes before the stored ones are missing.
    pub(super) fn end(&mut self) -> Result<(), Gap> {
        let Some((&first, _)) = self.pending.first_key_value() else {
            return Ok(());
        };
        self.pending.clear();
        self.pending_bytes = 0;
        self.is_lost = true;
        Err(Gap {
            at: self.at,
            bytes: first - self.at,
        })
    }

    fn give(&mut self, bytes: &[u8], due: &mut impl FnMut(&[u8])) {
        due(bytes);
        self.at += bytes.len() as u64;
        self.next = self.next.map(|next| next.wrapping_add(bytes.len() as u32));
    }

    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        let kept = self.pending.entry(offset).or_default();
        if kept.len() < bytes.len() {
            self.pending_bytes += bytes.len() - kept.len();
            *kept = bytes.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(first: u32, segments: &[(u32, &str)]) -> (String, Result<(), Gap>) {
        let mut flow = Flow::default();
        flow.syn(first.wrapping_sub(1));
        let mut text = Vec::new();
        for (at, bytes) in segments {
            let result = flow.segment(first.wrapping_add(*at), bytes.as_bytes(), |bytes| {
                text.extend_from_slice(bytes);
            });
            result.unwrap();
        }
        (String::from_utf8(text).unwrap(), flow.end())
    }

    #[test]
    fn segments_come_in_any_order_and_more_than_once() {
        // Sequence numbers may wrap.
        for first in [0, 1_000, u32::MAX - 3, u32::MAX] {
            for segments in [
                &[(0, "abc"), (3, "def"), (6, "g")][..],
                &[(6, "g"), (3, "def"), (0, "abc")],
                &[
                    (0, "abc"),
                    (0, "abc"),
                    (3, "def"),
                    (3, "d"),
                    (6, "g"),
                    (0, "abc"),
                ],
                &[(0, "abc"), (2, "cdef"), (1, "bcdefg")],
                &[(3, "de"), (3, "defg"), (4, "ef"), (0, "abcd")],
                &[(5, "fg"), (1, "bcdef"), (0, "a")],
                &[(0, ""), (0, "abcdefg"), (7, "")],
            ] {
                assert_eq!(
                    read(first, segments),
                    ("abcdefg".into(), Ok(())),
                    "{first} {segments:?}"
                );
            }
        }
    }

    #[test]
    fn reports_missing_bytes() {
        assert_eq!(
            read(7, &[(0, "ab"), (5, "fg")]),
            ("ab".into(), Err(Gap { at: 2, bytes: 3 }))
        );
        let mut flow = Flow::default();
        flow.syn(0);
        let piece = vec![0; 60_000];
        let mut lost = None;
        for i in 1..200_u32 {
            lost = lost.or(flow
                .segment(i * 60_000, &piece, |_| panic!("nothing is due"))
                .err());
        }
        assert_eq!(
            lost,
            Some(Gap {
                at: 0,
                bytes: 59_999
            })
        );
        assert!(flow.pending.is_empty());
    }

    #[test]
    fn reused_ports_are_new_connections() {
        let mut flow = Flow::default();
        assert!(flow.syn(9) && flow.syn(9));
        flow.segment(10, b"abc", |_| {}).unwrap();
        assert!(flow.syn(9) && !flow.syn(100));
        let mut late = Flow::default();
        late.segment(500, b"abc", |_| {}).unwrap();
        assert!(!late.syn(700));
    }
}
