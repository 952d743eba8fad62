//! HTTP client for target lists, master servers and the API of a monitor.

use crate::exit::without_numbers;
use hailer::discover::master::{Found, ListSummary, MasterError, MasterLimits, MasterUrl};
use hailer::proto::wire::counted;
use hailer::support::address::AddressPolicy;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ureq::Body;
use ureq::config::{Config, ConfigBuilder};
use ureq::http::{Response, Uri};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use url::Url;

/// Maximum number of redirects of a document.
const MAX_REDIRECTS: u32 = 3;

/// Returns the configuration for requests to this address. `timeout` limits a whole request.
pub(crate) fn config(uri: &Uri, timeout: Duration) -> ConfigBuilder<AgentScope> {
    // Do not use a proxy for this machine.
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")));
    if is_here { config.proxy(None) } else { config }
}

/// Requests a document, and returns the response and the addresses of the server, which are unknown
/// behind a proxy. `timeout` limits request and body. Redirects are followed on the same host, at
/// most [`MAX_REDIRECTS`]; https does not become http.
///
/// # Errors
/// The server cannot be reached, or sends another status or another redirect.
pub(crate) fn document(
    uri: &Uri,
    timeout: Duration,
) -> Result<(Response<Body>, Vec<IpAddr>), String> {
    let end = Instant::now() + timeout;
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let resolver = PinnedHost::new(&host);
    let found = resolver.found.clone();
    let config = config(uri, timeout).max_redirects(0).build();
    let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), resolver);
    let mut url = uri.to_string();
    for _ in 0..=MAX_REDIRECTS {
        let left = end.saturating_duration_since(Instant::now());
        let request = agent.get(&url).config().timeout_global(Some(left)).build();
        let response = request.call().map_err(words)?;
        if !response.status().is_redirection() {
            let ips = lock(&found).iter().map(SocketAddr::ip).collect();
            return Ok((response, ips));
        }
        let location = response.headers().get("location");
        let location = location.and_then(|location| location.to_str().ok());
        url = redirect(&url, location.unwrap_or_default())?;
    }
    Err(format!("more than {MAX_REDIRECTS} redirects"))
}

/// Returns the URL to which a response redirects.
///
/// # Errors
/// It is on another host, or of another scheme.
fn redirect(from: &str, location: &str) -> Result<String, String> {
    let from = Url::parse(from).map_err(|error| error.to_string())?;
    let to = match from.join(location) {
        Ok(to) if !location.is_empty() => to,
        _ => return Err("it redirects without a valid address".to_owned()),
    };
    let is_same = to.scheme() == from.scheme() || (from.scheme(), to.scheme()) == ("http", "https");
    if !is_same {
        let (from, to) = (from.scheme(), to.scheme());
        return Err(format!(
            "it redirects from {from} to {to}, which is not followed"
        ));
    }
    if from.host() != to.host() {
        let host = to.host_str().unwrap_or_default();
        return Err(format!(
            "it redirects to another host, which is not followed: {host}"
        ));
    }
    Ok(to.into())
}

/// Resolver that looks up the host of a document once, so that all redirects lead to the same
/// addresses.
#[derive(Debug)]
struct PinnedHost {
    host: String,
    found: Arc<Mutex<Vec<SocketAddr>>>,
    system: DefaultResolver,
}

impl PinnedHost {
    fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            found: Arc::default(),
            system: DefaultResolver::default(),
        }
    }
}

impl Resolver for PinnedHost {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        // The name of a proxy is another one.
        if !uri
            .host()
            .is_some_and(|host| host.eq_ignore_ascii_case(&self.host))
        {
            return self.system.resolve(uri, config, timeout);
        }
        let port = match (uri.port_u16(), uri.scheme_str()) {
            (Some(port), _) => port,
            (None, Some("https")) => 443,
            (None, _) => 80,
        };
        let mut found = lock(&self.found);
        if found.is_empty() {
            let addresses = self.system.resolve(uri, config, timeout)?;
            found.extend(addresses.iter());
        }
        let mut addresses = self.empty();
        for address in found.iter() {
            addresses.push(SocketAddr::new(address.ip(), port));
        }
        Ok(addresses)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests the list of a master server, and calls `found` with the target of each server that
/// `policy` allows, or that is on the same private network as the master. Blocks.
///
/// # Errors
/// There is no list; the error names the master.
pub(crate) fn list_of(
    master: &MasterUrl,
    limits: &MasterLimits,
    policy: &AddressPolicy,
    is_stopped: &dyn Fn() -> bool,
    found: Found<'_>,
) -> Result<ListSummary, MasterError> {
    let Some(url) = master.http() else {
        return master.fetch(limits, policy, is_stopped, found);
    };
    let error = |problem: String| MasterError {
        master: master.to_string(),
        problem,
    };
    let uri: Uri = match url.parse() {
        Ok(uri) => uri,
        Err(problem) => return Err(error(format!("{problem}"))),
    };
    let (response, senders) = document(&uri, limits.deadline).map_err(error)?;
    // `read_body` has its own limit, and reports it.
    let body = response.into_body().into_with_config();
    let body = body
        .limit(limits.max_bytes.saturating_add(1 << 20))
        .reader();
    let policy = policy.clone().near(&senders);
    master.read_body(ListBody(body), limits, policy, is_stopped, found)
}

/// Returns a warning about servers that a list has and that are not queried.
pub(crate) fn refused(summary: &ListSummary) -> Option<String> {
    let first = summary.first_refused?;
    let servers = counted(summary.refused, "server");
    let first = match summary.refused {
        1 => first.to_string(),
        _ => format!("{first}, for example"),
    };
    Some(format!("{servers} left out: {first}"))
}

/// Body of a response, with errors that [`words`] describes.
struct ListBody<R>(R);

impl<R: Read> Read for ListBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let kind = error.kind();
            match error.downcast::<ureq::Error>() {
                Ok(error) => std::io::Error::new(kind, words(error)),
                Err(error) => error,
            }
        })
    }
}

/// Describes a failed request, in the words of the operating system where possible.
pub(crate) fn words(error: ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "the server takes too long".to_owned(),
        ureq::Error::Io(error) => without_numbers(&error.to_string()),
        #[cfg(not(feature = "tls"))]
        ureq::Error::TlsRequired => crate::exit::without("tls"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_list_that_stops_in_its_middle_takes_too_long() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{";
            stream.write_all(head).unwrap();
            // Reads the request, and then waits until the client is gone.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let master = format!("luanti+http://127.0.0.1:{port}/list");
        let mut limits = MasterLimits::default();
        limits.deadline = Duration::from_millis(300);
        let policy = AddressPolicy::default();
        let master_url = master.parse().unwrap();
        let list = list_of(&master_url, &limits, &policy, &|| false, &mut |_, _| {});
        let error = list.unwrap_err().to_string();
        assert_eq!(error, format!("{master}: the server takes too long"));
        server.join().unwrap();
    }

    #[test]
    fn redirects_stay_on_the_host_and_keep_the_encryption() {
        let from = "https://lists.example.com:8443/a/b?c=d";
        for (location, to) in [
            ("/e", "https://lists.example.com:8443/e"),
            ("../e?f", "https://lists.example.com:8443/e?f"),
            ("https://LISTS.example.com/e", "https://lists.example.com/e"),
            ("//lists.example.com/e", "https://lists.example.com/e"),
        ] {
            assert_eq!(redirect(from, location).as_deref(), Ok(to));
        }
        let plain = "http://lists.example.com/a";
        let to = redirect(plain, "https://lists.example.com/a");
        assert_eq!(to.as_deref(), Ok("https://lists.example.com/a"));
        for (location, problem) in [
            ("http://lists.example.com:8443/a", "from https to http"),
            ("file:///etc/passwd", "from https to file"),
            ("gopher://lists.example.com/", "from https to gopher"),
            (
                "https://127.0.0.1/",
                "another host, which is not followed: 127.0.0.1",
            ),
            ("https://example.com/", "another host"),
            ("https://lists.example.com.evil.example/", "another host"),
            ("https://lists.example.com@evil.example/", "evil.example"),
            ("//evil.example/a", "another host"),
            ("", "without a valid address"),
            ("https://", "without a valid address"),
        ] {
            let error = redirect(from, location).unwrap_err();
            assert!(error.contains(problem), "{location}: {error}");
        }
    }
}
