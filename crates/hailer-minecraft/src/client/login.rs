//! The way in, in each era (spec/minecraft-12w.md#6).

use super::{Client, ClientError, ClientEvent};
use crate::build::Build;
use crate::crypto::{CipherKind, encrypt, session_hash};
use crate::table::{
    ClientStatus, EncryptionRequest, EncryptionResponse, Handshake, HandshakeReply, LoginRequest,
    Packet,
};
use crate::types::Bytes16;

/// What the server calls itself if it does not check accounts.
const OFFLINE: &str = "-";

impl Client {
    /// The first packet.
    pub(super) fn greet(&mut self) {
        let (build, config) = (self.build(), &self.config);
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

    /// Answers the packets of the login.
    pub(super) fn log_in(&mut self, packet: &Packet) {
        match packet {
            Packet::HandshakeReply(packet) => self.answer_plainly(packet),
            Packet::EncryptionRequest(packet) => {
                if let Err(error) = self.answer_key(packet) {
                    self.error = Some(error);
                }
            }
            // The server's yes: from here on both sides encrypt.
            Packet::EncryptionResponse(_) => {
                let request = self.request();
                self.reply(request);
            }
            _ => {}
        }
    }

    /// Until 12w16a: there is nothing but the check of the account.
    fn answer_plainly(&mut self, packet: &HandshakeReply) {
        let request = self.request();
        if packet.id == *OFFLINE {
            self.reply(request);
        } else {
            self.ask_for_session(packet.id.to_string(), request);
        }
    }

    /// Since 12w17a: a secret of our choice, which only the owner of the key can read.
    fn answer_key(&mut self, packet: &EncryptionRequest) -> Result<(), ClientError> {
        let Some(kind) = CipherKind::of(self.build()).filter(|_| self.config.encrypt) else {
            let request = self.request();
            self.reply(request);
            return Ok(());
        };
        let mut secret = vec![0; kind.secret_len()];
        (self.random)(&mut secret);
        let mut sealed =
            |plain: &[u8]| encrypt(&packet.key, plain, &mut self.random).map_err(ClientError::Key);
        let response = EncryptionResponse {
            secret: Bytes16::new(sealed(&secret)?),
            // Where there is no token in the packet, there is none to send back.
            token: Bytes16::new(sealed(&packet.token)?),
        };
        // The length is the cipher's own, so it is not refused.
        let _ = self.connection.secure(&secret);
        let id = packet.server_id.to_string();
        let hash = session_hash(&id, &secret, &packet.key);
        self.secret = Some(secret);
        if id == OFFLINE {
            self.reply(response);
        } else {
            self.ask_for_session(hash, response.into());
        }
        Ok(())
    }

    /// Whoever runs us has to tell the session server first.
    fn ask_for_session(&mut self, hash: String, then: Packet) {
        if self.config.session {
            self.pending = Some(then);
            self.events.push_back(ClientEvent::SessionCheck { hash });
        } else {
            self.error = Some(ClientError::AccountCheck);
        }
    }

    /// What asks to enter: nothing but the packet itself between 12w18a and 12w23b, and zeros in 12w17a.
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
