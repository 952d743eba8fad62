//! Queries of single servers.

use crate::options::Options;
use crate::{invalid, line};
use hailer::client::Answers;
use hailer::{Client, Error};
use napi_derive::napi;
use tokio::sync::Notify;

/// A query that starts with `run` and can be cancelled.
#[napi]
pub struct Query {
    text: String,
    options: Options,
    client: Client,
    kind: Kind,
    cancelled: Notify,
}

/// The form of the result.
enum Kind {
    Best,
    All,
    Ping,
}

#[napi]
impl Query {
    /// Prepares a query. `kind`: `best`, `all` or `ping`.
    #[napi(constructor)]
    pub fn new(target: String, options: String, kind: String) -> napi::Result<Self> {
        let options = Options::parse(&options)?;
        Ok(Self {
            client: Client::new(options.client()?),
            text: target,
            options,
            kind: match kind.as_str() {
                "best" => Kind::Best,
                "all" => Kind::All,
                "ping" => Kind::Ping,
                _ => return Err(invalid("unknown kind of query")),
            },
            cancelled: Notify::new(),
        })
    }

    /// Runs the query. Returns one line of JSON for each answer or failure, and `null` if the query
    /// was cancelled.
    #[napi]
    pub async fn run(&self) -> Option<String> {
        tokio::select! {
            biased;
            () = self.cancelled.notified() => None,
            lines = self.lines() => Some(lines),
        }
    }

    /// Cancels the query.
    #[napi]
    pub fn cancel(&self) {
        self.cancelled.notify_one();
    }
}

impl Query {
    async fn lines(&self) -> String {
        let target = match self.options.target(&self.text) {
            Ok(target) => target,
            Err(error) => return line(&self.text, Err(&error)),
        };
        match self.kind {
            Kind::Best => self.answers(self.client.detect(target).await, false),
            Kind::All => self.answers(self.client.query_all(target).await, true),
            Kind::Ping => line(&self.text, self.client.ping(target).await.as_ref()),
        }
    }

    fn answers(&self, result: Result<Answers, Error>, all: bool) -> String {
        match result {
            Ok(answers) if all => {
                let lines = answers.iter().map(|answer| line(&self.text, Ok(answer)));
                lines.collect::<Vec<_>>().join("\n")
            }
            Ok(answers) => line(&self.text, Ok(answers.best())),
            Err(error) => line(&self.text, Err(&error)),
        }
    }
}
