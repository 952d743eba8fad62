//! Answers that were written as JSON read back to equal values: those of every conversation in
//! `vectors/`, and their golden statuses.

use hailer::Answer;
use hailer::client::Transcript;
use hailer::proto::model::encoding;
use hailer::proto::{Status, Step};
use hailer::support::report::{AnswerLine, AnswerRecord};
use hailer_testkit::{golden, vector};
use std::path::Path;
use std::time::Duration;

/// Returns why an answer does not read back, or nothing.
fn difference(answer: &Answer) -> Option<String> {
    let line = AnswerLine::answered("a target", answer);
    let mut ours = Vec::new();
    line.write(&mut ours);
    let serdes = serde_json::to_string(&line).unwrap();
    for json in [String::from_utf8(ours).unwrap(), serdes] {
        let record: AnswerRecord = match serde_json::from_str(&json) {
            Ok(record) => record,
            Err(error) => return Some(format!("{error} in {json}")),
        };
        if record != AnswerRecord::from(&line) {
            return Some(format!(
                "{record:?}\nis not\n{:?}",
                AnswerRecord::from(&line)
            ));
        }
        let again = serde_json::to_string(&record).unwrap();
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        let [first, again] = [value(&json), value(&again)];
        if first != again {
            return Some(format!("{again}\nis not\n{first}"));
        }
        let back = Answer::try_from(record).unwrap();
        if back != *answer {
            return Some(format!("{back:?}\nis not\n{answer:?}"));
        }
    }
    let json = serde_json::to_string(answer).unwrap();
    let back: Answer = serde_json::from_str(&json).unwrap();
    (back != *answer).then(|| format!("{back:?}\nis not\n{answer:?}"))
}

#[test]
fn answers_of_all_conversations_read_back() {
    let mut complaints = Vec::new();
    let mut count = 0;
    for conversation in vector::all_conversations() {
        let Step::Done(mut status) = conversation.play(|_, bytes| Some(bytes.to_vec())) else {
            continue;
        };
        let info = conversation.protocol.info();
        if !info.declares_charset {
            encoding::decode(&mut status, conversation.ask.charset);
        }
        let address = ([192, 0, 2, 7], info.port).into();
        let transcript = Transcript::new(info, address);
        let answer = Answer::new(transcript, status, Duration::from_nanos(12_345_678));
        count += 1;
        if let Some(difference) = difference(&answer) {
            complaints.push(format!("{}: {difference}", conversation.name));
        }
    }
    golden::settle(&complaints);
    assert!(count > 300, "{count} answers");
}

#[test]
fn golden_statuses_read_back() {
    let mut complaints = Vec::new();
    let mut count = 0;
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let folders = entries(&golden::root().join("golden/conversations"));
    for path in folders.iter().flat_map(|folder| entries(folder)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        // A long list is shortened, in an object around the status.
        let value = value.get("status").unwrap_or(&value).clone();
        let status: Status = match serde_json::from_value(value.clone()) {
            Ok(status) => status,
            Err(error) => {
                complaints.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        count += 1;
        let again = serde_json::to_value(&status).unwrap();
        if again != value {
            complaints.push(format!("{}: {again}\nis not\n{value}", path.display()));
        }
    }
    golden::settle(&complaints);
    assert!(count > 300, "{count} statuses");
}
