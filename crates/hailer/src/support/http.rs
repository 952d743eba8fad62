//! Carries HTTP requests of exchanges, one connection for each.
//!
//! The library `hyper` speaks HTTP/1.1. Requests are sent as the exchange wrote them: no header
//! field is added, because some servers block clients that send those of proxies and browsers.
//! The exchange receives each response as one message with a length; chunked bodies are joined
//! before. Compressed bodies are not requested and not decompressed.
//!
//! Limits: 64 KiB and 100 fields of headers, 1 MiB of body, 16 informational responses (`100
//! Continue`) per request, 3 redirects to the same host and port.
//! The caller limits the time: dropping the future closes the connection.
//!
//! In: a request and its destination. Out: a response as one message.
//!
//! May import: `crate::support::local`, `hailer_proto`.

use super::local::connect_from;
use hailer_proto::Tls;
use hailer_proto::http::{MAX_BODY, MAX_HEAD, MAX_HEADERS, Request};
use hailer_proto::wire::Notes;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// Maximum number of informational responses to one request.
const MAX_INFORMATIONAL: usize = 16;

/// Server of a request over HTTP.
#[derive(Clone, Debug)]
pub struct HttpServer {
    /// Address of the server.
    pub address: SocketAddr,
    /// Name for the certificate.
    pub host: String,
    /// Encryption.
    pub tls: Tls,
}

/// A response that is no valid HTTP, or exceeds a limit. The text is a clause about the server.
#[derive(Debug)]
struct InvalidResponse(&'static str);

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidResponse {}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, InvalidResponse(problem))
}

/// Returns the problem of a response, if that is the reason for an error.
pub fn invalid_response(error: &io::Error) -> Option<&'static str> {
    let inner = error.get_ref()?.downcast_ref::<InvalidResponse>()?;
    Some(inner.0)
}

/// Sends a request from a local address and returns the response, both with their whole bodies in the form of HTTP/1.1.
/// Redirects of the server to itself are followed.
///
/// # Errors
/// The connection failed, or the response is no valid HTTP or exceeds a limit.
pub async fn send(
    to: &HttpServer,
    source: Option<SocketAddr>,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    let mut notes = Notes::discarding();
    let parsed = Request::read(request, &mut notes)
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
    let mut path = parsed.path.to_owned();
    let mut redirects = 0;
    loop {
        let mut request = hyper::Request::builder().method(parsed.method).uri(&path);
        for (name, value) in parsed.headers() {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(Bytes::copy_from_slice(parsed.body)))
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let response = connect(to, source, request).await?;
        let host = parsed.header("host").unwrap_or_default();
        match redirect(&response, to, host) {
            Some(next) if redirects < MAX_REDIRECTS => {
                redirects += 1;
                path = next;
            }
            _ => return Ok(message(&response)),
        }
    }
}

type Response = hyper::Response<Bytes>;

async fn connect(
    to: &HttpServer,
    source: Option<SocketAddr>,
    request: hyper::Request<Full<Bytes>>,
) -> io::Result<Response> {
    match to.tls {
        Tls::Off => without_tls(to, source, request).await,
        #[cfg(feature = "tls")]
        Tls::PlainFirst => {
            let result = without_tls(to, source, request.clone()).await;
            if !requires_tls(&result) {
                return result;
            }
            let encrypted = with_tls(to, source, Tls::AnyCertificate, request).await;
            encrypted.or(result)
        }
        #[cfg(not(feature = "tls"))]
        Tls::PlainFirst => without_tls(to, source, request).await,
        #[cfg(feature = "tls")]
        tls => match with_tls(to, source, tls, request.clone()).await {
            Err(error) if tls == Tls::Optional && is_other_protocol(&error) => {
                without_tls(to, source, request).await
            }
            result => result,
        },
        #[cfg(not(feature = "tls"))]
        _ => Err(invalid("it requires TLS, which this build does not have")),
    }
}

async fn without_tls(
    to: &HttpServer,
    source: Option<SocketAddr>,
    request: hyper::Request<Full<Bytes>>,
) -> io::Result<Response> {
    exchange(open(to.address, source).await?, request).await
}

#[cfg(feature = "tls")]
async fn with_tls(
    to: &HttpServer,
    source: Option<SocketAddr>,
    tls: Tls,
    request: hyper::Request<Full<Bytes>>,
) -> io::Result<Response> {
    let stream = open(to.address, source).await?;
    exchange(secure::connect(stream, &to.host, tls).await?, request).await
}

async fn open(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<TcpStream> {
    let stream = connect_from(address, source).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns whether a server has rejected the first bytes: with others than expected, or by closing
/// the connection.
#[cfg(feature = "tls")]
fn is_other_protocol(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
    )
}

/// Returns whether a server has rejected a request without TLS: with an alert, with status 400, or by
/// closing the connection.
#[cfg(feature = "tls")]
fn requires_tls(result: &io::Result<Response>) -> bool {
    match result {
        Ok(response) => response.status() == hyper::StatusCode::BAD_REQUEST,
        Err(error) => is_other_protocol(error),
    }
}

async fn exchange<T>(stream: T, mut request: hyper::Request<Full<Bytes>>) -> io::Result<Response>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let is_endless = Arc::new(Notify::new());
    let notify = is_endless.clone();
    let informational = AtomicUsize::new(0);
    hyper::ext::on_informational(&mut request, move |_| {
        if informational.fetch_add(1, Ordering::Relaxed) >= MAX_INFORMATIONAL {
            notify.notify_one();
        }
    });
    let (mut sender, connection) = http1::Builder::new()
        .title_case_headers(true)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(error_of)?;
    let response = async {
        let response = sender.send_request(request).await.map_err(error_of)?;
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(error_of)?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            if bytes.len() + data.len() > MAX_BODY {
                return Err(invalid("its response is longer than 1 MiB"));
            }
            bytes.extend_from_slice(data);
        }
        Ok(Response::from_parts(head, bytes.into()))
    };
    let mut response = pin!(response);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        // First, because `connection` reads without a pause while there is more.
        () = is_endless.notified() => {
            return Err(invalid("it sends more than 16 informational responses"));
        }
        result = &mut response => return result,
        // The connection may end before the last bytes were taken from it.
        _ = &mut connection => {}
    }
    response.await
}

fn error_of(error: hyper::Error) -> io::Error {
    if error.is_parse_too_large() {
        return invalid(
            "the head of its response is longer than 64 KiB, or has more than 100 fields",
        );
    }
    if error.is_parse() {
        return invalid(
            "its response is not HTTP: the port requires TLS, or belongs to another service",
        );
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return ErrorKind::UnexpectedEof.into();
    }
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return cause.kind().into();
        }
        source = cause.source();
    }
    io::Error::other(error)
}

/// Returns the path to which a response redirects, if that is on the same host and port.
fn redirect(response: &Response, to: &HttpServer, host: &[u8]) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
        return None;
    }
    let location = response.headers().get("location")?.to_str().ok()?;
    let scheme = match to.tls {
        Tls::Off | Tls::PlainFirst => "http://",
        Tls::Verified | Tls::AnyCertificate | Tls::Optional => "https://",
    };
    let path = match location.strip_prefix(scheme) {
        Some(rest) => rest.strip_prefix(std::str::from_utf8(host).ok()?)?,
        None => location,
    };
    (path.starts_with('/') && !path.starts_with("//")).then(|| path.to_owned())
}

/// Writes a response as one message with a length.
fn message(response: &Response) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        if !matches!(
            name.as_str(),
            "transfer-encoding" | "content-length" | "connection"
        ) {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(format!("content-length: {}\r\n\r\n", response.body().len()).as_bytes());
    out.extend_from_slice(response.body());
    out
}

#[cfg(feature = "tls")]
mod secure {
    //! TLS with the certificates of the web, or with any.

    use hailer_proto::Tls;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    };
    use std::io::{self, ErrorKind};
    use std::sync::{Arc, LazyLock};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    static VERIFIED: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
        let roots = webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .cloned()
            .collect::<RootCertStore>();
        let config = builder().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    });

    static ANY: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
        let verifier = Arc::new(AnyCertificate(ring::default_provider()));
        let config = builder()
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        Arc::new(config.with_no_client_auth())
    });

    fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the versions of TLS")
    }

    pub(super) async fn connect(
        stream: TcpStream,
        host: &str,
        tls: Tls,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = match tls {
            Tls::AnyCertificate | Tls::Optional | Tls::PlainFirst => ANY.clone(),
            Tls::Off | Tls::Verified => VERIFIED.clone(),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        connected.map_err(|error| match problem_of(&error) {
            Some(problem) => io::Error::new(ErrorKind::InvalidData, problem),
            None => error,
        })
    }

    /// Returns why a handshake failed, as a clause about the server.
    fn problem_of(error: &io::Error) -> Option<&'static str> {
        use CertificateError::{
            Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
            NotValidYetContext, UnknownIssuer,
        };
        let cause = match error.get_ref()?.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(cause) => cause,
            rustls::Error::InvalidMessage(_) => {
                return Some("it does not speak TLS: the port is for HTTP, or of another service");
            }
            rustls::Error::AlertReceived(_) => return Some("it refuses a connection with TLS"),
            _ => return Some("it does not speak a form of TLS that Hailer accepts"),
        };
        Some(match cause {
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
                "its certificate has expired, or is not valid yet"
            }
            NotValidForName | NotValidForNameContext { .. } => {
                "its certificate belongs to another name"
            }
            UnknownIssuer => "its certificate is signed by an authority that is not known",
            _ => "its certificate cannot be verified: it is signed by itself, or invalid",
        })
    }

    /// Accepts every certificate, for servers that sign their own. Signatures are verified.
    #[derive(Debug)]
    struct AnyCertificate(CryptoProvider);

    impl ServerCertVerifier for AnyCertificate {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signed, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
