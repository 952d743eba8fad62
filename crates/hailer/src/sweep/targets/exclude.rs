//! Addresses that a sweep never queries.

use super::span::{Span, number, span};
use super::target_lines::read_lines;
use crate::error::Error;
use crate::sweep::ListError;
use crate::target::TargetError;
use std::io::Read;
use std::net::IpAddr;

/// Addresses that no server can have, ascending: `::`, `0.0.0.0/8`, IPv4 from 224.0.0.0 on
/// (multicast, reserved and broadcast), and IPv6 multicast. Loopback and private networks are
/// allowed because users who type them mean them.
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

/// Addresses that a sweep never queries: a list, and the addresses that no server can have
/// (`0.0.0.0/8`, multicast, `240.0.0.0/4`).
///
/// A line of the list is an address, a network such as `192.0.2.0/24` or a range such as
/// `192.0.2.1-192.0.2.9`, IPv4 or IPv6, without a port; all ports of these hosts are excluded. Only
/// the first word of a line counts. Blank lines and text after a `#` are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Excluded addresses, as spans in ascending order with gaps between them.
    spans: Vec<Span>,
}

/// Reason why an address is not queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ban {
    Reserved,
    Excluded,
}

impl Exclusions {
    /// Adds one line. Slow for many lines; use [`read`](Self::read) for those.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not an address, a network or a range.
    pub fn add(&mut self, line: &str) -> Result<(), TargetError> {
        self.push(line)?;
        merge(&mut self.spans);
        Ok(())
    }

    /// Adds the lines of a file. The name appears in errors. `wrong` is called for each invalid
    /// line; if it returns an error, reading stops.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be read, or the error that `wrong` returned.
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

    /// Returns whether this address is never queried.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ban(number(address)).is_some()
    }

    pub(crate) fn ban(&self, address: u128) -> Option<Ban> {
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

    /// Returns an error if a name resolved to a banned address.
    pub(crate) fn check(&self, name: &str, address: IpAddr) -> Result<(), Error> {
        let reason = match self.ban(number(address)) {
            None => return Ok(()),
            Some(Ban::Reserved) => "where no server can be",
            Some(Ban::Excluded) => "which an exclusion covers",
        };
        Err(Error::Excluded {
            name: name.into(),
            address,
            reason,
        })
    }

    /// Passes the allowed parts of a span to `keep`, ascending. Returns the numbers of reserved and
    /// of excluded addresses.
    pub(crate) fn cut(&self, span: Span, mut keep: impl FnMut(Span)) -> (u128, u128) {
        let mut excluded = 0;
        let reserved = subtract(span, &RESERVED, |span| {
            excluded += subtract(span, &self.spans, &mut keep);
        });
        (reserved, excluded)
    }

    pub(crate) fn spans(&self) -> &[Span] {
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

/// Passes the parts of a span that are in none of the `takers` to `keep`, and returns the number of
/// the other addresses. The takers are ascending and disjoint.
fn subtract(span: Span, takers: &[Span], mut keep: impl FnMut(Span)) -> u128 {
    let mut first = span.first;
    let mut taken = 0;
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
    fn skips_excluded_and_unroutable_addresses() {
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
            "adjacent ranges are joined: {:?}",
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
