//! HTTP client for target lists, master servers and the API of a monitor.

use crate::exit::without_numbers;
use hailer::master::{ListSummary, MasterError, MasterLimits, MasterUrl};
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::typestate::AgentScope;

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

/// Requests the list of a master server, and calls `found` with the target of each server. Blocks.
///
/// # Errors
/// There is no list; the error names the master.
pub(crate) fn list_of(
    master: &MasterUrl,
    limits: &MasterLimits,
    is_stopped: &dyn Fn() -> bool,
    found: &mut dyn FnMut(&str),
) -> Result<ListSummary, MasterError> {
    let Some(url) = master.http() else {
        return master.fetch(limits, is_stopped, found);
    };
    let error = |problem: String| MasterError {
        master: master.to_string(),
        problem,
    };
    let uri: Uri = match url.parse() {
        Ok(uri) => uri,
        Err(problem) => return Err(error(format!("{problem}"))),
    };
    let agent = config(&uri, limits.deadline).build().new_agent();
    let response = agent
        .get(&uri)
        .call()
        .map_err(|problem| error(words(problem)))?;
    // `read_body` has its own limit, and reports it.
    let body = response.into_body().into_with_config();
    let body = body
        .limit(limits.max_bytes.saturating_add(1 << 20))
        .reader();
    master.read_body(Body(body), limits, is_stopped, found)
}

/// Body of a response, with errors that [`words`] describes.
struct Body<R>(R);

impl<R: Read> Read for Body<R> {
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
        let list = list_of(&master.parse().unwrap(), &limits, &|| false, &mut |_| {});
        let error = list.unwrap_err().to_string();
        assert_eq!(error, format!("{master}: the server takes too long"));
        server.join().unwrap();
    }
}
