//! The Node.js addon of the npm package `hailer`. `lib/` has the JavaScript around it.
//!
//! ```text
//!   options as JSON ─► query, results, gamedig ─► hailer
//!   answers as JSON ◄─ promises, which threads of Tokio complete
//! ```
//!
//! Nothing here runs on the thread of the event loop, except the parsing of options and targets.
//!
//! May import: `hailer`.

mod gamedig;
mod options;
mod query;
mod results;

use hailer::support::report::AnswerLine;
use hailer::{Answer, Error};

/// Returns an answer or a failure as JSON, as `schema/answer-v2.json` describes it.
fn line(target: &str, result: Result<&Answer, &Error>) -> String {
    let line = match result {
        Ok(answer) => AnswerLine::answered(target, answer),
        Err(error) => AnswerLine::failed(target, error),
    };
    let mut out = Vec::new();
    line.write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns an error that the JavaScript code throws as a `TypeError`.
fn invalid(problem: impl ToString) -> napi::Error {
    napi::Error::new(napi::Status::InvalidArg, problem.to_string())
}
