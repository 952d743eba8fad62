//! Commands and webhooks in configuration files.
//!
//! May import: `crate::config`, `crate::config::checker`, `hailer`.

use super::HookAction;
use super::checker::Checker;
use hailer::proto::Secret;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// The keys of an action. Exactly one is needed.
pub(super) struct ActionKeys<'a> {
    pub(super) command: Option<&'a Spanned<Vec<String>>>,
    pub(super) url: Option<&'a Spanned<String>>,
    pub(super) url_file: Option<&'a Spanned<PathBuf>>,
}

impl ActionKeys<'_> {
    /// Returns the action of the table `table`, or `None` after a mistake.
    pub(super) fn action(
        &self,
        table: &str,
        span: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<HookAction> {
        match (self.command, self.url, self.url_file) {
            (Some(words), None, None) => {
                let words = command(&format!("{table}.command"), words, checker)?;
                Some(HookAction::Command(words))
            }
            (None, Some(url), None) => {
                let key = format!("{table}.url");
                webhook(&key, url.get_ref().as_str().into(), &url.span(), checker)
            }
            (None, None, Some(file)) => {
                let key = format!("{table}.url-file");
                let url = checker.token(&key, file, 1)?;
                webhook(&key, url, &file.span(), checker)
            }
            _ => {
                let text = format!(
                    "{table}: exactly one is needed: command = [\"PROGRAM\", …], url = \"https://…\" or url-file = \"FILE\""
                );
                checker.wrong(span, text)
            }
        }
    }
}

/// Returns a program and its arguments. A program without a slash is searched in PATH.
fn command(
    key: &str,
    words: &Spanned<Vec<String>>,
    checker: &mut Checker<'_>,
) -> Option<Vec<String>> {
    let span = words.span();
    let mut words = words.get_ref().clone();
    if words.iter().any(|word| word.contains('\0')) {
        return checker.wrong(
            &span,
            format!("{key}: words cannot contain the character 0"),
        );
    }
    match words.first_mut().filter(|program| !program.is_empty()) {
        Some(program) if program.contains('/') => {
            *program = checker.folder.join(&*program).to_string_lossy().into();
        }
        Some(_) => {}
        None => {
            let text = format!("{key}: expected a program and its arguments");
            return checker.wrong(&span, text);
        }
    }
    Some(words)
}

/// Checks the URL of a webhook. Errors never contain it, because it may be a secret.
fn webhook(
    key: &str,
    url: Secret,
    span: &Range<usize>,
    checker: &mut Checker<'_>,
) -> Option<HookAction> {
    if is_http(url.reveal()) {
        Some(HookAction::Webhook(url))
    } else {
        checker.wrong(span, format!("{key}: not a URL; write https://HOST/PATH"))
    }
}

/// Returns whether a text is an address of HTTP with a host.
pub(super) fn is_http(url: &str) -> bool {
    let uri = url.parse::<ureq::http::Uri>().ok();
    uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    })
}
