//! Names of keys (spec/onequery.md#12.2).

use hailer_proto::model::uuid_text;

/// The keys of one network. The braces keep them on one node of a Redis cluster.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// `onequery:network:{id}:`
    pub(super) prefix: String,
}

impl Keys {
    pub(super) fn new(word: &str, network: &str) -> Self {
        Self {
            prefix: format!("{word}:network:{{{network}}}:"),
        }
    }

    /// Returns the key of the set of server ids.
    pub(super) fn servers(&self) -> String {
        format!("{}servers", self.prefix)
    }

    /// Returns the key of the hash of a server.
    pub(super) fn server(&self, id: &str) -> String {
        format!("{}server:{id}", self.prefix)
    }

    /// Returns the key of the hash with the players of a server.
    pub(super) fn players(&self, id: &str) -> String {
        format!("{}server:{id}:players", self.prefix)
    }

    /// Returns the key of the string with the server id of a player.
    pub(super) fn player(&self, uuid: &[u8; 16]) -> String {
        format!("{}player:{}", self.prefix, uuid_text(uuid))
    }

    /// Returns the key of the event stream.
    pub(super) fn events(&self) -> String {
        format!("{}events", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_the_specification() {
        let keys = Keys::new("onequery", "default");
        assert_eq!(keys.servers(), "onequery:network:{default}:servers");
        assert_eq!(
            keys.server("lobby"),
            "onequery:network:{default}:server:lobby"
        );
        assert_eq!(
            keys.players("lobby"),
            "onequery:network:{default}:server:lobby:players"
        );
        assert_eq!(keys.events(), "onequery:network:{default}:events");
        let uuid = std::array::from_fn(|i| 0xA0 + i as u8);
        assert_eq!(
            keys.player(&uuid),
            "onequery:network:{default}:player:a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"
        );
    }
}
