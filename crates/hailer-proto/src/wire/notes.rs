//! Notes of a reader: deviations, and on request fields.

use super::Deviation;
use alloc::{format, string::String, vec::Vec};
use core::ops::Range;

/// Collects deviations and fields of one datagram.
///
/// A client keeps only deviations, which costs nothing on a datagram without any.
/// `Notes::explaining()` also keeps each field, and `Notes::discarding()` keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    deviations: Vec<(&'static Deviation, usize)>,
    fields: Option<Vec<Field>>,
    group: Option<(&'static str, usize)>,
    is_discarding: bool,
}

/// An explained field of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Start and end (exclusive) as offsets in the datagram.
    pub range: Range<usize>,
    /// Name on the spec page, with the index in a repeated group.
    pub name: String,
    /// Value in readable form.
    pub value: String,
    /// Whether the bytes are secret, as in an auth token.
    pub is_secret: bool,
}

impl Notes {
    /// Creates notes that keep every field, not only deviations.
    pub fn explaining() -> Self {
        Self {
            fields: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Creates notes that keep nothing and never allocate, for responders.
    pub fn discarding() -> Self {
        Self {
            is_discarding: true,
            ..Self::default()
        }
    }

    /// Returns whether fields are kept.
    pub fn has_fields(&self) -> bool {
        self.fields.is_some()
    }

    /// Records a deviation at an offset. Only the first one of each name is kept.
    pub fn deviation(&mut self, deviation: &'static Deviation, at: usize) {
        if !self.is_discarding
            && !self
                .deviations
                .iter()
                .any(|(met, _)| met.name == deviation.name)
        {
            self.deviations.push((deviation, at));
        }
    }

    /// Records a field. `value` runs only if fields are kept.
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

    /// Not inlined: only explanations need it.
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
            is_secret: false,
        });
    }

    /// Marks the last field as secret.
    pub fn secret(&mut self) {
        if let Some(field) = self.fields.as_mut().and_then(|fields| fields.last_mut()) {
            field.is_secret = true;
        }
    }

    /// Starts an entry of a repeated group: the following fields get this index.
    pub fn group(&mut self, name: &'static str, index: usize) {
        self.group = Some((name, index));
    }

    /// Ends the group: the following fields belong to no group.
    pub fn ungroup(&mut self) {
        self.group = None;
    }

    /// Returns the deviations with their offsets, in the order found.
    pub fn deviations(&self) -> &[(&'static Deviation, usize)] {
        &self.deviations
    }

    /// Returns the deviations without their offsets, as a [`Status`](crate::Status) keeps them.
    pub fn met(&self) -> impl Iterator<Item = &'static Deviation> + '_ {
        self.deviations.iter().map(|(deviation, _)| *deviation)
    }

    /// Returns the fields, to format their values anew.
    pub(crate) fn fields_mut(&mut self) -> &mut [Field] {
        self.fields.as_deref_mut().unwrap_or_default()
    }

    /// Returns the fields in the order read. Empty unless [`Notes::explaining`].
    pub fn fields(&self) -> &[Field] {
        self.fields.as_deref().unwrap_or_default()
    }
}
