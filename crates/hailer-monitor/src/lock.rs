//! Locks that stay usable after a panic: their data are valid between any two statements.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if another thread panicked while it held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
