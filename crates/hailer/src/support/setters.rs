//! Methods that all builders of queries have, with the names of the flags of the tool.
//!
//! In: a builder with `config` and `deadline`. Out: its methods.
//!
//! May import: `hailer_proto`.

/// Defines the setters of one query. The type has a `config` with `ask`, `limits`, `source` and
/// `is_strict`, and an optional `deadline`.
macro_rules! query_setters {
    (retries: $retries:literal) => {
        /// Longest time to wait for a reply, before a retry. Default: 1 s.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.config.limits.timeout = timeout;
            self
        }

        /// Retries after a timeout, at most 254.
        #[doc = concat!("Default: ", $retries, ".")]
        pub fn retries(mut self, retries: u32) -> Self {
            self.config.limits.retries = retries;
            self
        }

        /// Longest time for one query, including retries, without the name lookup. Default: 10 s, or
        /// `timeout × (retries + 1)` if that is longer.
        pub fn deadline(mut self, deadline: std::time::Duration) -> Self {
            self.deadline = Some(deadline);
            self
        }

        /// Whether to request the list of players. Default: yes.
        pub fn players(mut self, has_players: bool) -> Self {
            self.config.ask.has_players = has_players;
            self
        }

        /// Whether to send separate requests for rules, which a2s and ugp have. Default: yes.
        pub fn rules(mut self, has_rules: bool) -> Self {
            self.config.ask.has_rules = has_rules;
            self
        }

        /// Whether to request only the short reply of the protocol. Default: no.
        pub fn basic(mut self, is_basic: bool) -> Self {
            use hailer_proto::Depth;
            self.config.ask.depth = if is_basic { Depth::Basic } else { Depth::Full };
            self
        }

        /// Auth token, for protocols that use one.
        pub fn auth_token(mut self, token: impl Into<hailer_proto::Secret>) -> Self {
            self.config.ask.auth_token = Some(token.into());
            self
        }

        /// Character set of texts that are not UTF-8, in protocols that declare none. Default: a guess
        /// by content.
        pub fn charset(mut self, charset: hailer_proto::Charset) -> Self {
            self.config.ask.charset = Some(charset);
            self
        }

        /// Whether to reject replies that deviate from the protocol. Default: no.
        pub fn strict(mut self, is_strict: bool) -> Self {
            self.config.is_strict = is_strict;
            self
        }
    };
}

pub(crate) use query_setters;
