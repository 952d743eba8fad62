//! The tables `[[receiver]]` of `hailer serve`: receivers of a message when a game behind a door
//! starts, stops or fails. They have the keys of `hailer monitor`.

use super::checker::Checker;
use hailer_monitor::alert::{OpenReceiver, Receiver};
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::Spanned;

/// A table `[[receiver]]`.
#[derive(Debug, Deserialize)]
pub(super) struct ReceiverInput(Receiver);

/// Reads the secrets of the receivers.
pub(super) fn open(
    receivers: &[Spanned<ReceiverInput>],
    checker: &mut Checker<'_>,
) -> Vec<OpenReceiver> {
    let mut names = BTreeSet::new();
    let mut opened = Vec::new();
    for receiver in receivers {
        let ReceiverInput(input) = receiver.get_ref();
        if !names.insert(&*input.name) {
            let text = format!("receiver: two have the name {:?}", input.name);
            checker.wrong::<()>(&receiver.span(), text);
        }
        match input.open(checker.folder) {
            Ok(receiver) => opened.push(receiver),
            Err(error) => drop(checker.wrong::<()>(&receiver.span(), error.to_string())),
        }
    }
    opened
}
