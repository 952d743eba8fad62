//! Operations on servers: list, read, add, change and remove.
//!
//! In: HTTP requests. Out: JSON, changes of the watchlist.
//!
//! May import: `crate::history`, `crate::sample`, `crate::server`, `crate::state`,
//! `crate::watchlist`, `crate::web::api`, `crate::web::api::answer`, `crate::web::api::auth`,
//! `crate::web::api::describe`, `crate::web::api::list`, `crate::web::api::params`,
//! `crate::web::api::types`, `hailer`.

use super::auth::Writer;
use super::list::ListQuery;
use super::params::{Name, NamedServer, NoParams};
use super::types::Servers;
use super::{Api, MAX_BODY_BYTES, Problem, answer, describe};
use crate::history::NewServer;
use crate::sample::unix_millis;
use crate::server::{FieldError, Origin, Server, ServerId, check, place};
use crate::state::ServerRow;
use crate::watchlist::{Watchlist, WatchlistError};
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hailer::client::Host;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How long an addition waits for the addresses of a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /api/v1/servers`
pub(super) async fn list(
    State(api): State<Api>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let now = unix_millis();
    let wanted = ListQuery::read(&uri)?;
    api.catch_up().await;
    // One scan at a time, on its own thread, so that frequent list requests delay only each other.
    let _turn = api.0.lists.acquire().await;
    let scanned = api.clone();
    let page = tokio::task::spawn_blocking(move || wanted.find(scanned.live(), now)).await;
    let page =
        page.map_err(|_| Problem::unavailable("the list could not be created; try again"))?;
    let rows = page.ids.into_iter().filter_map(|id| api.live().row(id));
    let rows: Vec<ServerRow> = rows.collect();
    let servers = rows.iter().map(|row| describe::server(row, now)).collect();
    Ok(answer::json(
        &headers,
        &Servers {
            servers,
            count: page.count,
            next: page.next,
        },
    ))
}

/// `GET /api/v1/servers/{name}`
pub(super) async fn show(
    State(api): State<Api>,
    NamedServer(row): NamedServer,
    _: NoParams,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Ok(answer::json(
        &headers,
        &describe::details(&row, unix_millis(), api.config().has_player_names),
    ))
}

/// `GET /api/v1/servers/{name}/answer`
pub(super) async fn answer(
    State(api): State<Api>,
    NamedServer(row): NamedServer,
    _: NoParams,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !api.config().has_player_names {
        return Err(Problem::not_found(
            "this monitor does not publish names of players, and so no complete answers",
        ));
    }
    match row
        .last_status
        .as_deref()
        .filter(|latest| !latest.answer.is_empty())
    {
        Some(latest) => Ok(answer::tagged(
            &headers,
            "application/json",
            "no-cache",
            latest.answer.to_vec(),
        )),
        None => Err(Problem::not_found(format!(
            "there is no stored answer of {}: it has not answered since the monitor started, or memory was short",
            row.server.name
        ))),
    }
}

/// `POST /api/v1/servers`
pub(super) async fn add(
    State(api): State<Api>,
    _: Writer,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let new = read(&object(&headers, body)?, None)?;
    insert(&api, &headers, new).await
}

/// `PUT /api/v1/servers/{name}`: replaces the server of this name, or adds it.
pub(super) async fn put(
    State(api): State<Api>,
    _: Writer,
    Name(name): Name,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let new = read(&object(&headers, body)?, Some(&name))?;
    let Some(row) = api.named(&name).await else {
        if new.name != name {
            let wrong = FieldError::new("name", format!("there is no server {name} to rename"));
            return Err(Problem::invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                vec![wrong],
            ));
        }
        return insert(&api, &headers, new).await;
    };
    let old = ours(&row)?;
    let server = new.with_id(old.id);
    let name = server.name.clone();
    if server.target != old.target {
        refuse_duplicate(&api, Some(server.id), &server.name, &server.target).await?;
    }
    watchlist(&api)?.change(server).await?;
    Ok(written(&api, &headers, &name, StatusCode::OK))
}

/// `DELETE /api/v1/servers/{name}`
pub(super) async fn remove(
    State(api): State<Api>,
    _: Writer,
    NamedServer(row): NamedServer,
) -> Result<StatusCode, Problem> {
    if watchlist(&api)?.remove(ours(&row)?.id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::no_server(&row.server.name))
    }
}

/// Returns the row of a server.
pub(super) fn find(api: &Api, name: &str) -> Result<ServerRow, Problem> {
    api.live()
        .named(name)
        .ok_or_else(|| Problem::no_server(name))
}

/// Parses a body as a JSON object.
pub(super) fn object(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Map<String, Value>, Problem> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(MAX_BODY_BYTES),
        _ => Problem::body(rejection.body_text()),
    })?;
    // An HTML form of another site cannot send this type.
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if !kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
    {
        return Err(Problem::media_type());
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::body("send a JSON object")),
        Err(error) => Err(Problem::body(format!("invalid JSON: {error}"))),
    }
}

/// Parses a server by hand, so that errors name the member. `called`: name in the URL.
fn read(object: &Map<String, Value>, called: Option<&str>) -> Result<NewServer, Problem> {
    let mut wrong = Vec::new();
    let mut new = NewServer::new(called.unwrap_or_default(), "", Origin::Api);
    let has_name = called.is_some() || object.contains_key("name");
    for (is_there, key) in [
        (has_name, "name"),
        (object.contains_key("target"), "target"),
    ] {
        if !is_there {
            wrong.push(FieldError::new(key, "is required"));
        }
    }
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("must be a string");
    for (key, value) in object {
        let read = match &**key {
            "name" => text(value).map(|text| new.name = text),
            "target" => text(value).map(|text| new.target = text),
            "group" => text(value).map(|text| new.group = text),
            "labels" => labels(value).map(|labels| new.labels = labels),
            "interval_s" if value.is_null() => Ok(()),
            "interval_s" => {
                let interval = value.as_f64().and_then(describe::interval);
                interval
                    .map(|interval| new.interval = Some(interval))
                    .ok_or("must be a number of seconds or null")
            }
            _ => Err("unknown member; expected name, target, group, labels or interval_s"),
        };
        if let Err(message) = read {
            wrong.push(FieldError::new(key, message));
        }
    }
    // Report syntax errors first.
    let checked = check(&new)
        .into_iter()
        .map(|checked| match &*checked.field {
            "interval" => FieldError::new("interval_s", checked.message),
            _ => checked,
        });
    let checked: Vec<_> = checked
        .filter(|checked| wrong.iter().all(|wrong| wrong.field != checked.field))
        .collect();
    wrong.extend(checked);
    if wrong.is_empty() {
        Ok(new)
    } else {
        Err(Problem::invalid(StatusCode::UNPROCESSABLE_ENTITY, wrong))
    }
}

fn labels(value: &Value) -> Result<BTreeMap<String, String>, &'static str> {
    let wrong = "must be an object whose values are strings";
    let object = value.as_object().ok_or(wrong)?;
    let labels = object
        .iter()
        .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    labels.collect::<Option<_>>().ok_or(wrong)
}

async fn insert(api: &Api, headers: &HeaderMap, new: NewServer) -> Result<Response, Problem> {
    let most = api.config().max_servers;
    if api.live().len() >= most {
        let detail = format!(
            "the limit of {most} servers is reached; remove some, or add servers to the configuration"
        );
        return Err(Problem::conflict("full", detail));
    }
    refuse_duplicate(api, None, &new.name, &new.target).await?;
    let server = watchlist(api)?.add(new).await?;
    Ok(written(api, headers, &server.name, StatusCode::CREATED))
}

/// Refuses a target if a server other than `own` has the same address and query port: it would be
/// polled and counted twice. A name that cannot be looked up is no duplicate.
async fn refuse_duplicate(
    api: &Api,
    own: Option<ServerId>,
    name: &str,
    target: &str,
) -> Result<(), Problem> {
    if api
        .live()
        .named(name)
        .is_some_and(|row| Some(row.server.id) != own)
    {
        return Err(WatchlistError::Taken(name.to_owned()).into());
    }
    let Some((host, port)) = place(target) else {
        return Ok(());
    };
    let addresses: Vec<SocketAddr> = match &host {
        Host::Address(address) => vec![(*address, port).into()],
        Host::Name(name) => timeout(LOOKUP_TIMEOUT, lookup_host((&**name, port)))
            .await
            .ok()
            .and_then(Result::ok)
            .map(Iterator::collect)
            .unwrap_or_default(),
    };
    match api.live().same_place(own, &host, &addresses, port) {
        Some(name) => Err(Problem::conflict(
            "duplicate",
            format!("{name} has the same address and query port"),
        )),
        None => Ok(()),
    }
}

/// Responds with the current state of the server.
fn written(api: &Api, headers: &HeaderMap, name: &str, status: StatusCode) -> Response {
    // It may have been removed concurrently.
    let Ok(row) = find(api, name) else {
        return Problem::no_server(name).into_response();
    };
    let mut headers = headers.clone();
    headers.remove(header::IF_NONE_MATCH);
    let mut response = answer::json(
        &headers,
        &describe::details(&row, unix_millis(), api.config().has_player_names),
    );
    *response.status_mut() = status;
    if let Ok(place) = HeaderValue::try_from(format!("/api/v1/servers/{name}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Returns the server if the API may change it.
fn ours(row: &ServerRow) -> Result<&Server, Problem> {
    match row.server.origin {
        Origin::Api => Ok(&row.server),
        Origin::Configuration => {
            let detail = format!(
                "{} is defined in the configuration; change it there",
                row.server.name
            );
            Err(Problem::conflict("configured", detail))
        }
        Origin::Master => {
            let detail = format!(
                "{} is listed by a master server; change that in the configuration",
                row.server.name
            );
            Err(Problem::conflict("configured", detail))
        }
    }
}

fn watchlist(api: &Api) -> Result<&dyn Watchlist, Problem> {
    let hint = "this node cannot change servers; use a node with the role poll";
    api.0
        .parts
        .watchlist
        .as_deref()
        .ok_or_else(|| Problem::forbidden("read-only", hint))
}

impl From<WatchlistError> for Problem {
    fn from(error: WatchlistError) -> Self {
        match error {
            WatchlistError::Taken(name) => {
                Self::conflict("taken", format!("another server has the name {name}"))
            }
            WatchlistError::Gone => Self::not_found("the server was removed by another request"),
            WatchlistError::Invalid(message) => Self::invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                vec![FieldError::new("target", message)],
            ),
            WatchlistError::Failed(message) => Self::unavailable(message),
        }
    }
}
