//! Widgets: `/widget/NAME`, a small page with the state of a server, for frames of other web sites.
//! It has no scripts and no forms.

use super::params::{Name, Params};
use super::{Api, Problem, answer};
use crate::health::State as Health;
use crate::state::ServerRow;
use crate::web::show;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::Response;
use hailer::proto::model::printable;

const CACHE_CONTROL: &str = "public, max-age=30";
const MAX_LABEL_CHARS: usize = 64;
/// Maximum length of a text of the server, in characters.
const MAX_TEXT_CHARS: usize = 120;

/// Style of the widget. The policy allows it by its digest.
const STYLE: &str = ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--faint:#57606a;--up:#1a7f37;--down:#cf222e}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#161b22;--line:#30363d;--faint:#9198a1;--up:#3fb950;--down:#ff7b72}}\
:root[data-style=light]{color-scheme:light;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--faint:#57606a;--up:#1a7f37;--down:#cf222e}\
:root[data-style=dark]{color-scheme:dark;--ink:#e6edf3;--paper:#161b22;--line:#30363d;--faint:#9198a1;--up:#3fb950;--down:#ff7b72}\
body{margin:0;font:14px/1.4 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\
article{border:1px solid var(--line);border-radius:6px;padding:10px 12px;overflow-wrap:anywhere}\
h1{font-size:15px;margin:0 0 4px}img{image-rendering:pixelated;border-radius:4px;vertical-align:middle}p{margin:0;color:var(--faint)}b{color:var(--ink)}\
.up{color:var(--up)}.down{color:var(--down)}.unknown{color:var(--faint)}";
const POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'sha256-IDvgUtDcP0+FaCWHIfXUZKV7BMdf3HPeqR30wLQJunk='; base-uri 'none'; form-action 'none'; frame-ancestors *";

#[derive(Template)]
#[template(
    ext = "html",
    source = r#"<!doctype html>
<html lang="en" data-style="{{ style }}">
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="60">
<title>{{ label }}</title>
<style>{{ css|safe }}</style>
<article>
<h1>{% if let Some(icon) = icon %}<img src="{{ icon }}" width="32" height="32" alt=""> {% endif %}{{ label }}</h1>
<p><b class="{{ state }}">● {{ state }}</b>{% if let Some(players) = players %} · <b>{{ players }}</b> players{% endif %}{% if let Some(bots) = bots %}, {{ bots }}{% endif %}{% if has_password %} · password{% endif %}</p>
{% if let Some(title) = title %}<p>{{ title }}</p>
{% endif %}{% if let Some(version) = version %}<p>{{ version }}</p>
{% endif %}</article>
"#
)]
struct Card<'a> {
    css: &'static str,
    style: &'static str,
    label: &'a str,
    state: &'static str,
    players: Option<String>,
    bots: Option<String>,
    has_password: bool,
    title: Option<String>,
    version: Option<String>,
    /// URL of the icon.
    icon: Option<String>,
}

/// `GET /widget/{name}`
pub(super) async fn show(
    State(api): State<Api>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !api.config().has_widgets {
        return Err(Problem::not_found("widgets are disabled"));
    }
    let mut params = Params::read(&uri, &["label", "style"], &[]);
    let label = params.text("label", MAX_LABEL_CHARS);
    let style = params
        .word(
            "style",
            &[("auto", "auto"), ("light", "light"), ("dark", "dark")],
        )
        .unwrap_or("auto");
    params.end()?;
    let row = api.named(&name).await;
    let label = label.or_else(|| row.as_ref().map(|row| row.server.name.clone()));
    let html = draw(
        row.as_ref(),
        &printable(label.as_deref().unwrap_or("not found")),
        style,
    );
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The policy allows framing. The older `X-Frame-Options` has no such value; an invalid value
        // makes browsers ignore it.
        (header::X_FRAME_OPTIONS, "ALLOWALL"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "cross-origin",
        ),
    ];
    let kind = "text/html; charset=utf-8";
    let status = match row {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    Ok(answer::for_sites(
        &headers,
        kind,
        CACHE_CONTROL,
        html,
        status,
        &fixed,
    ))
}

fn draw(row: Option<&ServerRow>, label: &str, style: &'static str) -> String {
    let state = row.map_or(Health::Unknown, |row| row.state).word();
    let last = row
        .filter(|row| row.state == Health::Up)
        .and_then(|row| row.last_sample);
    let players = last.and_then(show::players);
    let status = row.and_then(|row| row.last_status.as_deref());
    let bots = status
        .and_then(|status| status.bots)
        .filter(|bots| *bots > 0 && players.is_some())
        .map(|bots| show::counted(bots.into(), "bot"));
    let has_password = status.is_some_and(|status| status.has_password == Some(true));
    let cut = |text: &str| {
        printable(text)
            .chars()
            .take(MAX_TEXT_CHARS)
            .collect::<String>()
    };
    let title = status.and_then(|status| status.title.as_deref()).map(cut);
    let version = status.and_then(|status| status.version.as_deref()).map(cut);
    let card = Card {
        css: STYLE,
        style,
        label,
        state,
        players,
        bots,
        has_password,
        title,
        version,
        icon: status
            .and_then(|status| status.icon)
            .map(|icon| icon.path()),
    };
    // Writing to a `String` cannot fail.
    card.render().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use sha2::{Digest, Sha256};

    #[test]
    fn policy_allows_only_this_style() {
        let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
        assert!(
            POLICY.contains(&format!("'sha256-{digest}'")),
            "put {digest} into POLICY"
        );
    }
}
