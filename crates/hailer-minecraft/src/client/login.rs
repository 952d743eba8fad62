//! The client's side of the login, in each era (spec/minecraft-12w.md#6).

use super::{Client, ClientError, ClientEvent};
use crate::build::Build;
use crate::crypto::{CipherKind, encrypt, session_hash};
use crate::table::{
    ClientStatus, EncryptionRequest, EncryptionResponse, Handshake, HandshakeReply, LoginRequest,
    Packet,
};
use crate::types::Bytes16;

/// Server id of servers that do not check accounts.
const OFFLINE: &str = "-";

impl Client {
    /// Sends the handshake.
    pub(super) fn send_handshake(&mut self) {
        let build = self.build();
        let config = &self.config;
        let packet = Handshake {
            who: format!("{};{}:{}", config.name, config.host, config.port)
                .as_str()
                .into(),
            protocol: build.protocol(),
            name: config.name.as_str().into(),
            host: config.host.as_str().into(),
            port: config.port.into(),
        };
        self.reply(packet);
    }

    /// Replies to the packets of the login.
    pub(super) fn log_in(&mut self, packet: &Packet) {
        match packet {
            Packet::HandshakeReply(packet) => self.reply_to_handshake(packet),
            Packet::EncryptionRequest(packet) => {
                if let Err(error) = self.reply_to_key(packet) {
                    self.error = Some(error);
                }
            }
            // From here on, both sides encrypt.
            Packet::EncryptionResponse(_) => {
                let request = self.request();
                self.reply(request);
            }
            _ => {}
        }
    }

    /// Replies to the handshake reply of builds until 12w16a, which do not encrypt.
    fn reply_to_handshake(&mut self, packet: &HandshakeReply) {
        let request = self.request();
        if packet.id == *OFFLINE {
            self.reply(request);
        } else {
            self.request_session_check(packet.id.to_string(), request);
        }
    }

    /// Replies to the key of builds since 12w17a with a random secret, encrypted for the server.
    fn reply_to_key(&mut self, packet: &EncryptionRequest) -> Result<(), ClientError> {
        let Some(kind) = CipherKind::of(self.build()).filter(|_| self.config.can_encrypt) else {
            let request = self.request();
            self.reply(request);
            return Ok(());
        };
        let mut secret = vec![0; kind.secret_len()];
        (self.random)(&mut secret);
        let mut encrypted =
            |plain: &[u8]| encrypt(&packet.key, plain, &mut self.random).map_err(ClientError::Key);
        let response = EncryptionResponse {
            secret: Bytes16::new(encrypted(&secret)?),
            // Until 12w24a, neither packet has a token.
            token: Bytes16::new(encrypted(&packet.token)?),
        };
        // The secret has the cipher's length, so this succeeds.
        let _ = self.connection.secure(&secret);
        let id = packet.server_id.to_string();
        let hash = session_hash(&id, &secret, &packet.key);
        self.secret = Some(secret);
        if id == OFFLINE {
            self.reply(response);
        } else {
            self.request_session_check(hash, response.into());
        }
        Ok(())
    }

    /// Asks the caller to contact the session server before `then` is sent.
    fn request_session_check(&mut self, hash: String, then: Packet) {
        if self.config.can_check_session {
            self.pending = Some(then);
            self.events.push_back(ClientEvent::SessionCheck { hash });
        } else {
            self.error = Some(ClientError::AccountCheck);
        }
    }

    /// Returns the login request: empty from 12w18a to 12w23b, zeros in 12w17a.
    fn request(&self) -> Packet {
        let build = self.build();
        if build >= Build::W24a {
            return ClientStatus { status: 0 }.into();
        }
        let protocol = if build < Build::W17a {
            build.protocol().into()
        } else {
            0
        };
        LoginRequest {
            protocol,
            name: self.config.name.as_str().into(),
            ..LoginRequest::default()
        }
        .into()
    }
}
