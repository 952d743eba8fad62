//! Stands for `receivers.rs` in a build without the feature `monitor`. A table `[[receiver]]` is an
//! error, so no value of these types exists.

use super::checker::Checker;
use crate::exit::without;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::convert::Infallible;
use toml::Spanned;

/// A table `[[receiver]]`.
#[derive(Debug, Deserialize)]
pub(super) struct ReceiverInput(IgnoredAny);

/// Reports the tables as errors.
pub(super) fn open(
    receivers: &[Spanned<ReceiverInput>],
    checker: &mut Checker<'_>,
) -> Vec<Infallible> {
    for receiver in receivers {
        let text = format!("receiver: {}", without("monitor"));
        checker.wrong::<()>(&receiver.span(), text);
    }
    Vec::new()
}
