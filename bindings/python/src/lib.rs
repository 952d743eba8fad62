//! The native module of the Python package `hailer_query`. It is thin: it parses options, runs the public library `hailer`, and
//! converts results. Names, types and documentation that users see are in `python/hailer_query`.
//!
//! - **Signals.** A waiting call looks for signals every 50 ms, so that `Ctrl-C` ends it.
//! - **Threads.** A blocking query runs in the calling thread, without the GIL. Streams of results have a thread each, and all
//!   asynchronous queries share one, which starts anew in a child process. No thread takes the GIL except to wake an event loop.
//! - **Memory.** A stream holds at most 8,192 results that were not taken.

mod arrow;
mod convert;
mod decode;
mod error;
mod options;
mod query;
mod results;
mod search;
mod stream;
mod sweep;

use pyo3::prelude::*;

/// Functions and classes that the package uses.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::arrow::RecordBatch;
    #[pymodule_export]
    use crate::decode::decode;
    #[pymodule_export]
    use crate::query::{QueryTask, query, start_query, start_query_many, stop_background};
    #[pymodule_export]
    use crate::results::ResultObject;
    #[pymodule_export]
    use crate::search::start_discover;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::sweep::start_sweep;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
