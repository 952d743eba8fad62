//! Badges: `/badge/NAME.svg`, a small image with the state of a server, for other web sites. Errors
//! are images too, because browsers show nothing else in the place of an image.
//!
//! The label comes from the URL, and the server contributes two numbers only. The template escapes
//! all text. Text widths come from a table, since the font of the browser is unknown.

use super::params::{Name, Params};
use super::{Api, Problem, answer};
use crate::health::State as Health;
use crate::state::ServerRow;
use crate::web::show;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::Response;
use hailer::proto::model::is_control;

/// Sites may cache a badge for one minute.
const CACHE_CONTROL: &str = "public, max-age=60";
/// Forbids scripts and forms, in case the image is opened on its own.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
const MAX_LABEL_CHARS: usize = 64;
/// Maximum length of an error in an image, in characters.
const MAX_ERROR_CHARS: usize = 120;
/// Color of unknown values.
const GRAY: &str = "#6a737d";
/// Space around each text, in pixels.
const PADDING: u32 = 6;

/// Widths of the characters from space to tilde of a common sans-serif font at 11 pixels, in tenths
/// of a pixel.
#[rustfmt::skip]
const WIDTHS: [u8; 95] = [
    35, 44, 51, 92, 70, 105, 86, 30, 43, 43, 55, 92, 35, 40, 35, 37, // space to /
    70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 37, 37, 92, 92, 92, 58, // 0 to ?
    110, 75, 75, 77, 85, 70, 63, 85, 85, 33, 33, 72, 61, 95, 82, 87, // @ to O
    66, 87, 76, 75, 67, 81, 75, 109, 75, 67, 75, 43, 37, 43, 92, 55, // P to _
    55, 67, 70, 60, 70, 68, 39, 70, 70, 31, 31, 64, 31, 107, 70, 67, // ` to o
    70, 70, 45, 57, 43, 70, 65, 90, 65, 65, 58, 70, 37, 70, 92, // p to ~
];

#[derive(Template)]
#[template(
    ext = "svg",
    source = r##"<svg xmlns="http://www.w3.org/2000/svg" width="{{ width }}" height="20" role="img" aria-label="{{ label }}: {{ message }}"><title>{{ label }}: {{ message }}</title><clipPath id="c"><rect width="{{ width }}" height="20" rx="{{ radius }}"/></clipPath><g clip-path="url(#c)"><rect width="{{ left }}" height="20" fill="#454b54"/><rect x="{{ left }}" width="{{ right }}" height="20" fill="{{ color }}"/></g><g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11"><text x="{{ at }}" y="14" textLength="{{ label_width }}" lengthAdjust="spacingAndGlyphs">{{ label }}</text><text x="{{ message_at }}" y="14" textLength="{{ message_width }}" lengthAdjust="spacingAndGlyphs">{{ message }}</text></g></svg>
"##
)]
struct Badge<'a> {
    label: &'a str,
    message: &'a str,
    color: &'static str,
    radius: u32,
    label_width: u32,
    message_width: u32,
    width: u32,
    left: u32,
    right: u32,
    at: u32,
    message_at: u32,
}

/// `GET /badge/{name}.svg`
pub(super) async fn show(
    State(api): State<Api>,
    Name(file): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match draw_server(&api, &file, &uri).await {
        Ok((svg, status)) => image(&headers, svg, status),
        Err(problem) => {
            let detail = printable(&problem.summary());
            let detail: String = detail.chars().take(MAX_ERROR_CHARS).collect();
            image(&headers, draw("badge", &detail, GRAY, 3), problem.status())
        }
    }
}

/// Draws the badge that a URL names, also that of an unknown server.
async fn draw_server(api: &Api, file: &str, uri: &Uri) -> Result<(String, StatusCode), Problem> {
    if !api.config().has_badges {
        return Err(Problem::not_found("badges are disabled"));
    }
    let Some(name) = file.strip_suffix(".svg") else {
        return Err(Problem::not_found("badges are at /badge/NAME.svg"));
    };
    let mut params = Params::read(uri, &["label", "style"], &[]);
    let label = params.text("label", MAX_LABEL_CHARS);
    let radius = params
        .word("style", &[("round", 3), ("square", 0)])
        .unwrap_or(3);
    params.end()?;

    let row = api.named(name).await;
    let (message, color) = match &row {
        Some(row) => message(row),
        None => ("not found".into(), GRAY),
    };
    // Do not repeat an unknown name.
    let label = label.unwrap_or_else(|| {
        row.as_ref()
            .map_or("server".into(), |row| row.server.name.clone())
    });
    let svg = draw(&printable(&label), &message, color, radius);
    let status = match row {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    Ok((svg, status))
}

/// Returns an image as a response.
fn image(headers: &HeaderMap, svg: String, status: StatusCode) -> Response {
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "cross-origin",
        ),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    answer::for_sites(headers, "image/svg+xml", CACHE_CONTROL, svg, status, &fixed)
}

/// Text and color of the state. White text has a contrast of at least 4.5 on each color.
fn message(row: &ServerRow) -> (String, &'static str) {
    match row.state {
        Health::Down => ("down".into(), "#b3261e"),
        Health::Unknown => ("unknown".into(), GRAY),
        Health::Up => {
            let players = row.last_sample.and_then(show::players);
            let message = players.unwrap_or_else(|| "up".into());
            (message, "#1a7f37")
        }
    }
}

fn draw(label: &str, message: &str, color: &'static str, radius: u32) -> String {
    let label_width = width(label);
    let message_width = width(message);
    let left = label_width + 2 * PADDING;
    let right = message_width + 2 * PADDING;
    let at = PADDING;
    let width = left + right;
    let message_at = left + PADDING;
    let badge = Badge {
        label,
        message,
        color,
        radius,
        label_width,
        message_width,
        width,
        left,
        right,
        at,
        message_at,
    };
    // Writing to a `String` cannot fail.
    badge.render().unwrap_or_default()
}

/// Width of a text, in pixels.
fn width(text: &str) -> u32 {
    let tenths = |c: char| match (c as usize)
        .checked_sub(0x20)
        .and_then(|place| WIDTHS.get(place))
    {
        Some(width) => u32::from(*width),
        // Most characters from the Korean block on are square.
        None if c as u32 >= 0x1100 => 110,
        None => 75,
    };
    text.chars().map(tenths).sum::<u32>().div_ceil(10)
}

/// Removes control characters, and characters that XML does not allow.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|&c| !is_control(c) && !matches!(c, '\u{FFFE}' | '\u{FFFF}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        let svg = draw(
            &printable("</text><script>\"&'\u{202e}\0x"),
            "1/2",
            "#1a7f37",
            3,
        );
        assert!(
            !svg.contains("<script") && !svg.contains('\0') && !svg.contains('\u{202e}'),
            "{svg}"
        );
        assert_eq!(
            svg.matches('<').count(),
            draw("a", "b", "#1a7f37", 3).matches('<').count(),
            "{svg}"
        );
        assert_eq!(
            svg.matches('"').count(),
            draw("a", "b", "#1a7f37", 3).matches('"').count(),
            "{svg}"
        );
        assert_eq!(width("il"), 7);
        assert!(width("MMM") > width("iii") && width("漢") == 11);
    }
}
