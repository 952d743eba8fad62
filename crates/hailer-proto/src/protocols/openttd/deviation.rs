//! The deviations that the client accepts, by name (spec/openttd.md#6).

use crate::protocols::openttd::info::{NEWER_VERSION, TRAILING_BYTES};
use crate::wire::Deviation;

/// All deviations, in the order of the spec page.
pub static ALL: &[&Deviation] = &[&NEWER_VERSION, &TRAILING_BYTES];
