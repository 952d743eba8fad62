//! Observations of a reader: always deviations, on request also fields.

use super::Deviation;
use alloc::{format, string::String, vec::Vec};
use core::ops::Range;

/// Collects what is worth telling about one datagram.
///
/// A client keeps only deviations, which costs nothing on a clean datagram. `Notes::explaining()` also keeps each field,
/// `Notes::discarding()` nothing at all.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    deviations: Vec<(&'static Deviation, usize)>,
    fields: Option<Vec<Field>>,
    group: Option<(&'static str, usize)>,
    discarding: bool,
}

/// One field of one datagram, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offsets of the first byte and behind the last, from the start of the datagram.
    pub range: Range<usize>,
    /// Its name on the spec page, with the index of the repeated group it belongs to.
    pub name: String,
    /// Its value as a person would write it.
    pub value: String,
    /// Whether its bytes must not be shown: an auth token.
    pub secret: bool,
}

impl Notes {
    /// Notes that keep every field, not only deviations.
    pub fn explaining() -> Self {
        Self {
            fields: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Notes that keep nothing and so never allocate: for responders.
    pub fn discarding() -> Self {
        Self {
            discarding: true,
            ..Self::default()
        }
    }

    /// Names a deviation met at an offset. Once per name is enough: the first place is kept.
    pub fn deviation(&mut self, deviation: &'static Deviation, at: usize) {
        if !self.discarding
            && !self
                .deviations
                .iter()
                .any(|(met, _)| met.name == deviation.name)
        {
            self.deviations.push((deviation, at));
        }
    }

    /// Explains a range of bytes. `value` runs only if fields are kept.
    #[inline(always)]
    pub fn field(
        &mut self,
        range: Range<usize>,
        name: &'static str,
        value: impl FnOnce() -> String,
    ) {
        if self.fields.is_some() {
            self.keep(range, name, value());
        }
    }

    /// Kept out of the hot path: only explanations need it.
    #[cold]
    fn keep(&mut self, range: Range<usize>, name: &'static str, value: String) {
        let name = match self.group {
            Some((group, index)) => format!("{group}[{index}].{name}"),
            None => name.into(),
        };
        self.fields.get_or_insert_default().push(Field {
            range,
            name,
            value,
            secret: false,
        });
    }

    /// Marks the field explained last as a secret.
    pub fn secret(&mut self) {
        if let Some(field) = self.fields.as_mut().and_then(|fields| fields.last_mut()) {
            field.secret = true;
        }
    }

    /// Fields from here on belong to the `index`-th of a repeated group.
    pub fn group(&mut self, name: &'static str, index: usize) {
        self.group = Some((name, index));
    }

    /// Ends the group: the following fields belong to no group.
    pub fn ungroup(&mut self) {
        self.group = None;
    }

    /// The deviations met, in order, with their offsets.
    pub fn deviations(&self) -> &[(&'static Deviation, usize)] {
        &self.deviations
    }

    /// Only the deviations, without their offsets: what a [`Status`](crate::Status) keeps.
    pub fn met(&self) -> impl Iterator<Item = &'static Deviation> + '_ {
        self.deviations.iter().map(|(deviation, _)| *deviation)
    }

    /// The fields explained, in the order they were read. Empty unless [`Notes::explaining`].
    pub fn fields(&self) -> &[Field] {
        self.fields.as_deref().unwrap_or_default()
    }
}
