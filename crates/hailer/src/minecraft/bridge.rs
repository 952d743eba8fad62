//! The protocol of a proxy between a client and a server, without sockets.
//!
//! ```text
//!   client ─► near (we are the server) ─► packets, byte for byte ─► far (we are the client) ─► server
//!             our RSA key, its secret                                its RSA key, our secret
//! ```
//!
//! Each side has its own encryption, so the proxy writes the packets of the key exchange itself
//! (spec/minecraft-12w.md#6). Since 12w17a the account check covers key and secret and would reveal
//! the proxy: such servers are refused. Until 12w16a it covers neither and is forwarded.

use hailer_minecraft::crypto::{CipherKind, KeyPair, encrypt, same_token};
use hailer_minecraft::state::UnexpectedPacket;
use hailer_minecraft::table::{EncryptionRequest, EncryptionResponse, Kick};
use hailer_minecraft::types::Bytes16;
use hailer_minecraft::{
    Build, ClientHello, Connection, ConnectionState, Packet, PacketDirection, PeerError, Role,
};
use std::fmt;
use std::sync::Arc;

/// Server id of servers that do not check accounts.
const NO_CHECK: &str = "-";
/// Length of a verify token.
const TOKEN_BYTES: usize = 4;

/// A forwarded packet.
#[derive(Debug)]
pub struct ForwardedPacket {
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// Build in which it was decoded.
    pub build: Build,
    /// Whether the build is certain. For protocols 29 and 30 it is not before the login request.
    pub is_build_certain: bool,
    /// Decoded packet, as received.
    pub packet: Packet,
    /// Bytes of the packet as received, decrypted.
    pub bytes: Vec<u8>,
    /// Offset of its first byte in the stream of its direction.
    pub offset: u64,
}

/// Error that ends a proxied session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeError {
    /// One side sent an invalid or unexpected packet.
    Peer {
        /// Direction of the bytes.
        direction: PacketDirection,
        /// Build in which they were decoded.
        build: Build,
        /// The error.
        error: PeerError,
        /// Offset of the packet in the stream of its direction.
        offset: u64,
        /// Bytes from that offset, decrypted.
        bytes: Vec<u8>,
    },
    /// No known build has the client's protocol number.
    Protocol(i8),
    /// The server checks accounts.
    AccountCheck,
    /// The server's key is not usable.
    ServerKey(String),
    /// The client's secret or token is not encrypted with the proxy's key.
    ClientSecret,
}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer { direction, error, .. } => {
                write!(f, "the {} sent: {error}", if *direction == PacketDirection::ToServer { "client" } else { "server" })
            }
            Self::Protocol(number) => {
                write!(f, "the client speaks protocol {number}; supported are 29 to 39 (1.2.4 to 1.3.2)")
            }
            Self::AccountCheck => f.write_str(
                "the server checks accounts, and the check covers the encryption, which ends here; turn it off there \
                 (online-mode=false)",
            ),
            Self::ServerKey(problem) => write!(f, "the server's key: {problem}"),
            Self::ClientSecret => f.write_str("the client's answer was not encrypted with the key that it got"),
        }
    }
}

impl std::error::Error for BridgeError {}

/// Negotiated secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecrets {
    /// Secret between client and proxy.
    pub near: Vec<u8>,
    /// Secret between proxy and server.
    pub far: Vec<u8>,
}

impl fmt::Debug for SessionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecrets(secret)")
    }
}

/// Connection of one client through the proxy.
#[derive(Debug)]
pub struct Bridge {
    near: Connection,
    far: Connection,
    key: Arc<KeyPair>,
    preferred: Option<Build>,
    is_announced: bool,
    is_build_certain: bool,
    /// Verify token sent to the client.
    token: [u8; TOKEN_BYTES],
    /// Key request of the server.
    request: Option<EncryptionRequest>,
    secrets: Option<SessionSecrets>,
    /// Error of the packet reported last.
    fault: Option<BridgeError>,
    /// Bytes forwarded in each direction.
    to_server: u64,
    to_client: u64,
}

impl Bridge {
    /// Creates a bridge. `preferred` decides where the client's protocol number has two builds.
    pub fn new(key: Arc<KeyPair>, preferred: Option<Build>) -> Self {
        let build = preferred.unwrap_or_default();
        Self {
            near: Connection::new(Role::Server, build).keeping_bytes(),
            far: Connection::new(Role::Client, build).keeping_bytes(),
            key,
            preferred,
            is_announced: false,
            is_build_certain: false,
            token: [0; TOKEN_BYTES],
            request: None,
            secrets: None,
            fault: None,
            to_server: 0,
            to_client: 0,
        }
    }

    /// Adds bytes received for this direction.
    pub fn receive(&mut self, direction: PacketDirection, bytes: &[u8]) {
        match direction {
            PacketDirection::ToServer => self.near.receive(bytes),
            PacketDirection::ToClient => self.far.receive(bytes),
        }
    }

    /// Returns the bytes to send in this direction.
    pub fn outgoing(&self, direction: PacketDirection) -> &[u8] {
        match direction {
            PacketDirection::ToServer => self.far.outgoing(),
            PacketDirection::ToClient => self.near.outgoing(),
        }
    }

    /// Removes the first `count` bytes that were sent.
    pub fn sent_bytes(&mut self, direction: PacketDirection, count: usize) {
        match direction {
            PacketDirection::ToServer => self.far.sent_bytes(count),
            PacketDirection::ToClient => self.near.sent_bytes(count),
        }
    }

    /// Returns the received bytes that are not a complete packet.
    pub fn unread(&self, direction: PacketDirection) -> &[u8] {
        match direction {
            PacketDirection::ToServer => self.near.unread(),
            PacketDirection::ToClient => self.far.unread(),
        }
    }

    /// Returns the build, as far as it is known.
    pub fn build(&self) -> Build {
        self.near.build()
    }

    /// Returns whether the client has sent its first packet, so that a server is needed.
    pub fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> ConnectionState {
        self.near.state()
    }

    /// Returns whether one side has disconnected. Nothing is forwarded after that.
    pub fn is_over(&self) -> bool {
        self.state() == ConnectionState::Closed
    }

    /// Returns the secrets once after they were negotiated.
    pub fn take_secrets(&mut self) -> Option<SessionSecrets> {
        self.secrets.take()
    }

    /// Sends a disconnect packet to both sides, if their state allows it.
    pub fn kick(&mut self, reason: &str) {
        let kick: Packet = Kick {
            reason: reason.into(),
        }
        .into();
        let _ = self.near.send(&kick);
        if self.is_announced {
            let _ = self.far.send(&kick);
        }
    }

    /// Forwards the next packet, if it is complete. `random` must be of cryptographic quality.
    ///
    /// # Errors
    /// The packet cannot be forwarded. The session is over then.
    pub fn next(
        &mut self,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<Option<ForwardedPacket>, BridgeError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.is_over() || !self.detect_build()? {
            return Ok(None);
        }
        if let Some(packet) = self
            .near
            .next()
            .map_err(|error| self.fault(PacketDirection::ToServer, error))?
        {
            let passed = self.passed(PacketDirection::ToServer, packet);
            self.pass_to_server(&passed, random)?;
            return Ok(Some(ForwardedPacket {
                build: self.build(),
                is_build_certain: self.is_build_certain,
                ..passed
            }));
        }
        if let Some(packet) = self
            .far
            .next()
            .map_err(|error| self.fault(PacketDirection::ToClient, error))?
        {
            let passed = self.passed(PacketDirection::ToClient, packet);
            self.pass_to_client(&passed, random)?;
            return Ok(Some(passed));
        }
        Ok(None)
    }

    /// Detects the build from the client's first bytes. Returns `false` if there are too few.
    fn detect_build(&mut self) -> Result<bool, BridgeError> {
        if self.is_announced {
            return Ok(true);
        }
        match (ClientHello::of(self.near.unread()), self.near.unread()) {
            (None, [] | [0x02]) => return Ok(false),
            // Not a client of the game: the decoder reports the error.
            (None, _) => {}
            (Some(announced), _) => {
                let Some(build) = announced.build(self.preferred) else {
                    let ClientHello::Number(number) = announced else {
                        return Ok(false);
                    };
                    return Err(BridgeError::Protocol(number));
                };
                self.set_build(build);
                self.is_build_certain = announced != ClientHello::Old;
                self.is_announced = true;
            }
        }
        Ok(true)
    }

    fn set_build(&mut self, build: Build) {
        self.near.set_build(build);
        self.far.set_build(build);
    }

    fn passed(&mut self, direction: PacketDirection, packet: Packet) -> ForwardedPacket {
        let (from, at) = match direction {
            PacketDirection::ToServer => (&self.near, &mut self.to_server),
            PacketDirection::ToClient => (&self.far, &mut self.to_client),
        };
        let bytes = from.last_bytes().to_vec();
        let offset = *at;
        *at += bytes.len() as u64;
        ForwardedPacket {
            direction,
            build: from.build(),
            is_build_certain: self.is_build_certain,
            packet,
            bytes,
            offset,
        }
    }

    fn fault(&self, direction: PacketDirection, error: PeerError) -> BridgeError {
        let (from, offset) = match direction {
            PacketDirection::ToServer => (&self.near, self.to_server),
            PacketDirection::ToClient => (&self.far, self.to_client),
        };
        // An unexpected packet was consumed, an invalid one was not.
        let read = if let PeerError::Unexpected(_) = error {
            from.last_bytes()
        } else {
            &[]
        };
        BridgeError::Peer {
            direction,
            build: from.build(),
            error,
            offset,
            bytes: [read, from.unread()].concat(),
        }
    }

    fn pass_to_server(
        &mut self,
        passed: &ForwardedPacket,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), BridgeError> {
        match &passed.packet {
            Packet::EncryptionResponse(response) => return self.secure(response, random),
            Packet::LoginRequest(login) if passed.build < Build::W17a => {
                // No build has this number. The server replies with its own kick.
                if let Some(build) =
                    Build::of_protocol(login.protocol).filter(|build| *build < Build::W17a)
                {
                    self.set_build(build);
                }
                self.is_build_certain = true;
            }
            _ => {}
        }
        let sent = self.far.send_bytes(&passed.packet, &passed.bytes);
        sent.map_err(|error| self.out_of_place(PacketDirection::ToServer, error))
    }

    fn pass_to_client(
        &mut self,
        passed: &ForwardedPacket,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), BridgeError> {
        let sent = match &passed.packet {
            Packet::EncryptionRequest(request) => {
                if request.server_id != *NO_CHECK {
                    // Report the packet, then end the session.
                    self.fault = Some(BridgeError::AccountCheck);
                    return Ok(());
                }
                self.request = Some(request.clone());
                random(&mut self.token);
                let ours = EncryptionRequest {
                    server_id: NO_CHECK.into(),
                    key: Bytes16::new(self.key.public_der().to_vec()),
                    token: Bytes16::new(self.token.to_vec()),
                };
                self.near.send(&ours.into())
            }
            packet => self.near.send_bytes(packet, &passed.bytes),
        };
        sent.map_err(|error| self.out_of_place(PacketDirection::ToClient, error))
    }

    fn out_of_place(&self, direction: PacketDirection, error: UnexpectedPacket) -> BridgeError {
        let (from, end) = match direction {
            PacketDirection::ToServer => (&self.near, self.to_server),
            PacketDirection::ToClient => (&self.far, self.to_client),
        };
        let bytes = from.last_bytes().to_vec();
        BridgeError::Peer {
            direction,
            build: from.build(),
            error: PeerError::Unexpected(error),
            offset: end - bytes.len() as u64,
            bytes,
        }
    }

    /// Uses the client's secret on its side, and a new one on the server's side.
    fn secure(
        &mut self,
        response: &EncryptionResponse,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), BridgeError> {
        let (Some(kind), Some(request)) = (CipherKind::of(self.build()), self.request.take())
        else {
            return Err(BridgeError::ClientSecret);
        };
        let has_token = self.build() >= Build::W25a;
        let near = self.key.decrypt(&response.secret, kind.secret_len());
        let token = if has_token {
            self.key.decrypt(&response.token, TOKEN_BYTES)
        } else {
            Some(self.token.to_vec())
        };
        let near = near.filter(|_| token.is_some_and(|token| same_token(&self.token, &token)));
        let near = near.ok_or(BridgeError::ClientSecret)?;
        self.near
            .secure(&near)
            .map_err(|_| BridgeError::ClientSecret)?;

        let mut far = vec![0; kind.secret_len()];
        random(&mut far);
        let mut for_server = |plain: &[u8]| {
            let field = encrypt(&request.key, plain, random);
            field
                .map(Bytes16::new)
                .map_err(|error| BridgeError::ServerKey(error.to_string()))
        };
        let secret = for_server(&far)?;
        let token = if has_token {
            for_server(&request.token)?
        } else {
            Bytes16::default()
        };
        self.far
            .secure(&far)
            .map_err(|error| BridgeError::ServerKey(error.to_string()))?;
        let sent = self.far.send(&EncryptionResponse { secret, token }.into());
        sent.map_err(|error| self.out_of_place(PacketDirection::ToServer, error))?;
        self.secrets = Some(SessionSecrets { near, far });
        Ok(())
    }
}
