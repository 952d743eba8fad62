//! The deviations that the client accepts, by name (spec/openttd-udp.md#4).

use crate::openttd_info::{NEWER_VERSION, ODD_LENGTH, SHORT_INFO, TRAILING_BYTES};
use crate::wire::Deviation;

/// All deviations, in the order of the spec page.
pub static ALL: &[&Deviation] = &[&SHORT_INFO, &ODD_LENGTH, &NEWER_VERSION, &TRAILING_BYTES];
