//! Whom a sweep never asks.

use super::targets::{ListError, Span, number, read_lines, span};
use crate::error::Error;
use crate::target::TargetError;
use std::io::Read;
use std::net::IpAddr;

/// Addresses where no server can be, ascending: in IPv6 none; `0.0.0.0/8`; IPv4 multicast, reserved and broadcast; IPv6
/// multicast. Loopback and private networks are not among them: whoever types them means them.
const RESERVED: [Span; 4] = [
    Span { first: 0, last: 0 },
    Span {
        first: 0xFFFF_0000_0000,
        last: 0xFFFF_00FF_FFFF,
    },
    Span {
        first: 0xFFFF_E000_0000,
        last: 0xFFFF_FFFF_FFFF,
    },
    Span {
        first: 0xFF << 120,
        last: u128::MAX,
    },
];

/// Whom a sweep never asks: the addresses of a list, and those where no server can be (`0.0.0.0/8`, multicast, `240.0.0.0/4`).
///
/// A line of the list is an address, `192.0.2.0/24` or `192.0.2.1-192.0.2.9`, of either family, without port: an excluded
/// host is not asked on any. Blank lines, what follows a `#` and all but the first word of a line mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Ascending, with gaps between them.
    spans: Vec<Span>,
}

/// Why an address is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ban {
    Reserved,
    Excluded,
}

impl Exclusions {
    /// Adds what one line says. Slow for many lines: see [`read`](Self::read).
    pub fn add(&mut self, line: &str) -> Result<(), TargetError> {
        self.push(line)?;
        merge(&mut self.spans);
        Ok(())
    }

    /// Adds the lines of a file. The name is for errors; of a wrong line `wrong` decides whether it ends the reading.
    pub fn read(
        &mut self,
        name: &str,
        input: impl Read,
        wrong: impl FnMut(ListError) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        let read = read_lines(name, input, |line| self.push(line), wrong);
        merge(&mut self.spans);
        read
    }

    /// Whether this address is not to be asked.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ban(number(address)).is_some()
    }

    pub(super) fn ban(&self, address: u128) -> Option<Ban> {
        let within = |spans: &[Span]| {
            let after = spans.partition_point(|span| span.last < address);
            spans.get(after).is_some_and(|span| span.first <= address)
        };
        match (within(&RESERVED), within(&self.spans)) {
            (true, _) => Some(Ban::Reserved),
            (_, true) => Some(Ban::Excluded),
            _ => None,
        }
    }

    /// The error of a name that leads to a banned address.
    pub(super) fn check(&self, name: &str, address: IpAddr) -> Result<(), Error> {
        let reason = match self.ban(number(address)) {
            None => return Ok(()),
            Some(Ban::Reserved) => "where no server can be",
            Some(Ban::Excluded) => "which the exclusions forbid to ask",
        };
        Err(Error::Excluded {
            name: name.into(),
            address,
            reason,
        })
    }

    /// What is left of a span, ascending, and how many addresses were reserved and excluded.
    pub(super) fn cut(&self, span: Span, mut keep: impl FnMut(Span)) -> (u128, u128) {
        let mut excluded = 0;
        let reserved = subtract(span, &RESERVED, |span| {
            excluded += subtract(span, &self.spans, &mut keep);
        });
        (reserved, excluded)
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    fn push(&mut self, text: &str) -> Result<(), TargetError> {
        let found = if text.contains("://") {
            Ok(None)
        } else {
            span(text)
        };
        let needed = || {
            "an exclusion is an address or a range of addresses, without protocol and port".into()
        };
        let span = found
            .and_then(|span| span.ok_or_else(needed))
            .map_err(|problem| TargetError::new(text, problem))?;
        self.spans.push(span);
        Ok(())
    }
}

/// Sorts spans and joins those that overlap or touch.
fn merge(spans: &mut Vec<Span>) {
    spans.sort_unstable();
    spans.dedup_by(|next, kept| {
        let joins = next.first <= kept.last.saturating_add(1);
        if joins {
            kept.last = kept.last.max(next.last);
        }
        joins
    });
}

/// Gives away what no taker, ascending and disjoint, holds of a span; returns how much they hold.
fn subtract(span: Span, takers: &[Span], mut keep: impl FnMut(Span)) -> u128 {
    let (mut first, mut taken) = (span.first, 0);
    let start = takers.partition_point(|taker| taker.last < span.first);
    for taker in takers[start..]
        .iter()
        .take_while(|taker| taker.first <= span.last)
    {
        if first < taker.first {
            keep(Span {
                first,
                last: taker.first - 1,
            });
        }
        let last = taker.last.min(span.last);
        taken += last - taker.first.max(span.first) + 1;
        match last.checked_add(1) {
            Some(next) => first = next,
            None => return taken,
        }
    }
    if first <= span.last {
        keep(Span {
            first,
            last: span.last,
        });
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_list_and_what_never_has_a_server_is_not_asked() {
        let mut exclusions = Exclusions::default();
        let list = "# do not ask\n192.0.2.0/24 they wrote to us\n\n 198.51.100.7-198.51.100.9\t# and these\n2001:db8::/32\n\
                    ::ffff:203.0.113.0/124";
        exclusions
            .read("exclude.txt", list.as_bytes(), Err)
            .unwrap();
        exclusions.add("192.0.3.0").unwrap();
        for (address, is_banned) in [
            ("192.0.1.255", false),
            ("192.0.2.0", true),
            ("192.0.2.255", true),
            ("192.0.3.0", true),
            ("192.0.3.1", false),
            ("198.51.100.6", false),
            ("198.51.100.9", true),
            ("203.0.113.15", true),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
            ("0.1.2.3", true),
            ("1.0.0.0", false),
            ("127.0.0.1", false),
            ("10.0.0.0", false),
            ("223.255.255.255", false),
            ("224.0.0.1", true),
            ("255.255.255.255", true),
            ("::", true),
            ("::1", false),
            ("fe80::1", false),
            ("ff02::1", true),
        ] {
            assert_eq!(
                exclusions.contains(address.parse().unwrap()),
                is_banned,
                "{address}"
            );
        }
        assert_eq!(
            exclusions.spans.len(),
            4,
            "what touches is joined: {:?}",
            exclusions.spans
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, reason) in [
            (
                "\nexample.com",
                "exclude.txt:2: \"example.com\": an exclusion is an address",
            ),
            ("192.0.2.1:25565", "without protocol and port"),
            ("ugp://192.0.2.1", "without protocol and port"),
            ("192.0.2.0/33", "at most 32"),
        ] {
            let error = Exclusions::default()
                .read("exclude.txt", text.as_bytes(), Err)
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_ends_of_the_world_can_be_excluded() {
        let mut exclusions = Exclusions::default();
        exclusions.add("::/0").unwrap();
        exclusions.add("0.0.0.0/0").unwrap();
        assert_eq!(
            exclusions.spans,
            [Span {
                first: 0,
                last: u128::MAX
            }]
        );
        let mut left = Vec::new();
        let all = Span {
            first: 5,
            last: u128::MAX,
        };
        let (reserved, excluded) = exclusions.cut(all, |span| left.push(span));
        assert_eq!((left, reserved + excluded), (vec![], u128::MAX - 4));
    }
}
