//! The deviations that the client accepts, by name (spec/assetto.md#4).

use crate::wire::deviations;

deviations! {
    PORT_IN_NAME "port-in-name" "the name ends with a mark and the HTTP port, which are left out";
}
