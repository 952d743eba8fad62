//! The deviations that the client accepts, by name (spec/vintage-story.md#5).

use crate::wire::deviations;

deviations! {}
