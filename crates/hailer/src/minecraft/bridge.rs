//! Two connections as one: what a proxy does between a client and a server, without sockets.
//!
//! ```text
//!   client ─► near (we are the server) ─► packets, byte for byte ─► far (we are the client) ─► server
//!             our RSA key, its secret                                its RSA key, our secret
//! ```
//!
//! Encryption ends here on both sides, so the two packets of it are our own (spec/minecraft-12w.md#6). From 12w17a on a
//! check of accounts covers key and secret, so it shows that somebody sits between: it cannot be passed on. Until 12w16a
//! it covers neither, and passes.

use hailer_minecraft::crypto::{CipherKind, KeyPair, encrypt, same_token};
use hailer_minecraft::state::UnexpectedPacket;
use hailer_minecraft::table::{EncryptionRequest, EncryptionResponse, Kick};
use hailer_minecraft::types::Bytes16;
use hailer_minecraft::{
    Build, ClientHello, Connection, ConnectionState, Packet, PacketDirection, PeerError, Role,
};
use std::fmt;
use std::sync::Arc;

/// A server that says this as its id checks no accounts.
const NO_CHECK: &str = "-";
/// Length of a verify token, bytes.
const TOKEN: usize = 4;

/// A packet that went through.
#[derive(Debug)]
pub struct ForwardedPacket {
    /// Its direction.
    pub way: PacketDirection,
    /// The build in whose speech it was read.
    pub build: Build,
    /// Whether the build is sure. It is not until the login request of a client of 29 or 30.
    pub is_sure: bool,
    /// What it says, as it came in.
    pub packet: Packet,
    /// Its bytes as they came in, decrypted.
    pub bytes: Vec<u8>,
    /// Offset of its first byte in its direction's stream.
    pub offset: u64,
}

/// Why nothing more can pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeError {
    /// One side sent what is no packet, or one that has no place here.
    Peer {
        /// Direction of the bytes.
        way: PacketDirection,
        /// The build in whose speech they were read.
        build: Build,
        /// What is wrong.
        error: PeerError,
        /// Offset of the packet in its direction's stream.
        offset: u64,
        /// The bytes from there on, decrypted.
        bytes: Vec<u8>,
    },
    /// The client is of a build that is not known, with this number.
    Protocol(i8),
    /// The server checks accounts.
    AccountCheck,
    /// The server's key cannot be used.
    ServerKey(String),
    /// The client encrypted another secret or token than it should have.
    ClientSecret,
}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer { way, error, .. } => {
                write!(f, "the {} sent: {error}", if *way == PacketDirection::ToServer { "client" } else { "server" })
            }
            Self::Protocol(number) => {
                write!(f, "the client speaks protocol {number}; 29 to 39 (1.2.4 to 1.3.2) can pass")
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

/// SessionSecrets that were agreed on.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecrets {
    /// Between client and proxy.
    pub near: Vec<u8>,
    /// Between proxy and server.
    pub far: Vec<u8>,
}

impl fmt::Debug for SessionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecrets(secret)")
    }
}

/// One client's connection through the proxy.
#[derive(Debug)]
pub struct Bridge {
    near: Connection,
    far: Connection,
    key: Arc<KeyPair>,
    wish: Option<Build>,
    is_announced: bool,
    is_sure: bool,
    /// Our verify token, towards the client.
    token: [u8; TOKEN],
    /// What the server sent to encrypt with.
    request: Option<EncryptionRequest>,
    secrets: Option<SessionSecrets>,
    /// What is wrong with the packet told of last.
    fault: Option<BridgeError>,
    /// Bytes that passed in each direction.
    to_server: u64,
    to_client: u64,
}

impl Bridge {
    /// A connection on which nothing was said. `wish` decides where the client's number means two builds.
    pub fn new(key: Arc<KeyPair>, wish: Option<Build>) -> Self {
        let build = wish.unwrap_or_default();
        Self {
            near: Connection::new(Role::Server, build).keeping_bytes(),
            far: Connection::new(Role::Client, build).keeping_bytes(),
            key,
            wish,
            is_announced: false,
            is_sure: false,
            token: [0; TOKEN],
            request: None,
            secrets: None,
            fault: None,
            to_server: 0,
            to_client: 0,
        }
    }

    /// Takes bytes that go this way, from the side that sends them.
    pub fn receive(&mut self, way: PacketDirection, bytes: &[u8]) {
        match way {
            PacketDirection::ToServer => self.near.receive(bytes),
            PacketDirection::ToClient => self.far.receive(bytes),
        }
    }

    /// Bytes to hand on, this way.
    pub fn outgoing(&self, way: PacketDirection) -> &[u8] {
        match way {
            PacketDirection::ToServer => self.far.outgoing(),
            PacketDirection::ToClient => self.near.outgoing(),
        }
    }

    /// So many of them are on their way.
    pub fn sent_bytes(&mut self, way: PacketDirection, count: usize) {
        match way {
            PacketDirection::ToServer => self.far.sent_bytes(count),
            PacketDirection::ToClient => self.near.sent_bytes(count),
        }
    }

    /// Bytes that came and make no whole packet.
    pub fn unread(&self, way: PacketDirection) -> &[u8] {
        match way {
            PacketDirection::ToServer => self.near.unread(),
            PacketDirection::ToClient => self.far.unread(),
        }
    }

    /// The build spoken, as far as it is known.
    pub fn build(&self) -> Build {
        self.near.build()
    }

    /// Whether the client has said the first thing, so that a server is needed.
    pub fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Where the connection stands.
    pub fn state(&self) -> ConnectionState {
        self.near.state()
    }

    /// Whether one side has said goodbye: nothing passes after that.
    pub fn is_over(&self) -> bool {
        self.state() == ConnectionState::Closed
    }

    /// The secrets, once after they were agreed on.
    pub fn take_secrets(&mut self) -> Option<SessionSecrets> {
        self.secrets.take()
    }

    /// Says goodbye to both sides, as far as they understand it.
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

    /// Lets the next packet pass, if one is here. `random` must be fit for keys.
    pub fn next(
        &mut self,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<Option<ForwardedPacket>, BridgeError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.is_over() || !self.listen()? {
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
                is_sure: self.is_sure,
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

    /// Learns the build from the client's first bytes. `false`: they have not come yet.
    fn listen(&mut self) -> Result<bool, BridgeError> {
        if self.is_announced {
            return Ok(true);
        }
        match (ClientHello::of(self.near.unread()), self.near.unread()) {
            (None, [] | [0x02]) => return Ok(false),
            // No client of the game: the parser names what it is.
            (None, _) => {}
            (Some(announced), _) => {
                let Some(build) = announced.build(self.wish) else {
                    let ClientHello::Number(number) = announced else {
                        return Ok(false);
                    };
                    return Err(BridgeError::Protocol(number));
                };
                self.set_build(build);
                self.is_sure = announced != ClientHello::Old;
                self.is_announced = true;
            }
        }
        Ok(true)
    }

    fn set_build(&mut self, build: Build) {
        self.near.set_build(build);
        self.far.set_build(build);
    }

    fn passed(&mut self, way: PacketDirection, packet: Packet) -> ForwardedPacket {
        let (from, at) = match way {
            PacketDirection::ToServer => (&self.near, &mut self.to_server),
            PacketDirection::ToClient => (&self.far, &mut self.to_client),
        };
        let bytes = from.last_bytes().to_vec();
        let offset = *at;
        *at += bytes.len() as u64;
        ForwardedPacket {
            way,
            build: from.build(),
            is_sure: self.is_sure,
            packet,
            bytes,
            offset,
        }
    }

    fn fault(&self, way: PacketDirection, error: PeerError) -> BridgeError {
        let (from, offset) = match way {
            PacketDirection::ToServer => (&self.near, self.to_server),
            PacketDirection::ToClient => (&self.far, self.to_client),
        };
        // A packet out of place was read, one that is broken was not.
        let read = if let PeerError::Unexpected(_) = error {
            from.last_bytes()
        } else {
            &[]
        };
        BridgeError::Peer {
            way,
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
                // Nobody else has this number: the server says what it thinks of another.
                if let Some(build) =
                    Build::of_protocol(login.protocol).filter(|build| *build < Build::W17a)
                {
                    self.set_build(build);
                }
                self.is_sure = true;
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
                    // Worth seeing, and then the end.
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

    fn out_of_place(&self, way: PacketDirection, error: UnexpectedPacket) -> BridgeError {
        let (from, end) = match way {
            PacketDirection::ToServer => (&self.near, self.to_server),
            PacketDirection::ToClient => (&self.far, self.to_client),
        };
        let bytes = from.last_bytes().to_vec();
        BridgeError::Peer {
            way,
            build: from.build(),
            error: PeerError::Unexpected(error),
            offset: end - bytes.len() as u64,
            bytes,
        }
    }

    /// The client's secret holds on its side; on the other we choose our own.
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
            self.key.decrypt(&response.token, TOKEN)
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
