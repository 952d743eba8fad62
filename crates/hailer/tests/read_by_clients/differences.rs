//! Values that clients read and that are not the configured ones.

/// A known difference. Texts are lists of words; an empty one means all.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Clients. For `hailer`, other clients that read the same value are meant too.
    pub(crate) clients: &'static str,
    /// Ids of protocols.
    pub(crate) protocols: &'static str,
    /// Names of statuses.
    pub(crate) statuses: &'static str,
    /// Fields; `error` means that the client returns nothing.
    pub(crate) fields: &'static str,
    pub(crate) reason: &'static str,
}

impl Difference {
    fn lists(&self) -> [&'static str; 4] {
        [self.clients, self.protocols, self.statuses, self.fields]
    }

    /// Returns whether it covers a field: client, protocol, status, field.
    pub(crate) fn has(&self, found: [&str; 4]) -> bool {
        let has = |(list, word): (&str, &str)| {
            list.is_empty() || list.split(' ').any(|member| member == word)
        };
        self.lists().into_iter().zip(found).all(has)
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &'static str> {
        self.clients.split(' ')
    }

    /// Returns all words of the lists.
    pub(crate) fn members(&self) -> Vec<&'static str> {
        let words = self.lists().into_iter().flat_map(|list| list.split(' '));
        words.filter(|word| !word.is_empty()).collect()
    }
}

/// The first one that covers a field counts.
pub(crate) const DIFFERENCES: &[Difference] = &[
    // Limits of the protocols.
    Difference {
        clients: "hailer",
        protocols: "a2s",
        statuses: "crowd",
        fields: "online max players",
        reason: "counts have one byte",
    },
    Difference {
        clients: "hailer",
        protocols: "a2s samp",
        statuses: "long",
        fields: "name",
        reason: "longest name: 63 bytes",
    },
    Difference {
        clients: "hailer",
        protocols: "samp",
        statuses: "crowd",
        fields: "players",
        reason: "servers do not list more than 100 players",
    },
    Difference {
        clients: "opengsq samp-query",
        protocols: "samp",
        statuses: "crowd",
        fields: "error",
        reason: "waits for a list of players, which servers with more than 100 do not send",
    },
    Difference {
        clients: "hailer",
        protocols: "battlefield",
        statuses: "crowd",
        fields: "players",
        reason: "clients of the games read at most 256 players",
    },
    Difference {
        clients: "hailer",
        protocols: "doom3",
        statuses: "crowd",
        fields: "players",
        reason: "at most 32 players",
    },
    Difference {
        clients: "hailer",
        protocols: "gamespy3",
        statuses: "crowd",
        fields: "players",
        reason: "numbers of players have one byte",
    },
    Difference {
        clients: "hailer",
        protocols: "minecraft-status",
        statuses: "crowd",
        fields: "players",
        reason: "a sample of 12 players",
    },
    Difference {
        clients: "hailer",
        protocols: "ase gamespy1 gamespy2 quake1 quake2 quake3 unreal2",
        statuses: "crowd",
        fields: "players",
        reason: "entries beyond `max-reply` are left out",
    },
    Difference {
        clients: "hailer",
        protocols: "ase doom3 gamespy2 quake1 quake2 quake3 samp unreal2",
        statuses: "rules",
        fields: "rules",
        reason: "entries beyond `max-reply` are left out",
    },
    Difference {
        clients: "hailer",
        protocols: "minecraft-bedrock minecraft-status",
        statuses: "empty",
        fields: "name version",
        reason: "clients of the game show no servers without: the responder has its own texts",
    },
    Difference {
        clients: "hailer",
        protocols: "mumble",
        statuses: "",
        fields: "version",
        reason: "a number that the option `version` sets",
    },
    Difference {
        clients: "hailer",
        protocols: "quake1",
        statuses: "accents",
        fields: "name map players",
        reason: "one byte for each character of the font of the game",
    },
    Difference {
        clients: "hailer",
        protocols: "quake2",
        statuses: "empty",
        fields: "map",
        reason: "clients show no servers without a map",
    },
    Difference {
        clients: "gamedig mcstatus",
        protocols: "minecraft-bedrock",
        statuses: "empty",
        fields: "map",
        reason: "the responder has its own text for a missing map",
    },
    // Fields that a client does not read in a protocol, or under another name.
    Difference {
        clients: "gamedig",
        protocols: "minecraft-query quake1 samp",
        statuses: "",
        fields: "map",
        reason: "reads other names of it only",
    },
    Difference {
        clients: "gamedig",
        protocols: "minecraft-query minecraft-status unreal2",
        statuses: "",
        fields: "version",
        reason: "not read",
    },
    Difference {
        clients: "gamedig",
        protocols: "minecraft-status",
        statuses: "",
        fields: "name",
        reason: "not read, since the description may have many forms",
    },
    Difference {
        clients: "gamedig",
        protocols: "doom3 quake1 quake2 teamspeak2 teamspeak3",
        statuses: "usual",
        fields: "password",
        reason: "not read, or from rules with other names",
    },
    Difference {
        clients: "gamedig",
        protocols: "teamspeak2",
        statuses: "",
        fields: "max",
        reason: "not read",
    },
    Difference {
        clients: "gamedig",
        protocols: "doom3",
        statuses: "",
        fields: "version",
        reason: "shows the version of the protocol",
    },
    Difference {
        clients: "opengsq",
        protocols: "doom3",
        statuses: "empty",
        fields: "version",
        reason: "without a version of the game, that of the protocol has this name",
    },
    // Faults of clients.
    Difference {
        clients: "gamedig",
        protocols: "unreal2",
        statuses: "",
        fields: "password",
        reason: "shows the opposite: takes `True` for no password",
    },
    Difference {
        clients: "gamedig",
        protocols: "doom3 gamespy1 quake1 quake2 quake3",
        statuses: "crowd",
        fields: "online",
        reason: "counts the listed players: without a count in the reply, or in its place",
    },
    Difference {
        clients: "gamedig opengsq",
        protocols: "quake1",
        statuses: "crowd",
        fields: "players",
        reason: "asks for fewer columns than Hailer, so more players fit",
    },
    Difference {
        clients: "gamedig",
        protocols: "gamespy2",
        statuses: "crowd",
        fields: "players",
        reason: "takes a number of players above 64 for a name",
    },
    Difference {
        clients: "gamedig",
        protocols: "battlefield doom3 quake2 quake3 starmade",
        statuses: "accents",
        fields: "name map players",
        reason: "reads UTF-8 as Latin-1",
    },
    Difference {
        clients: "gamedig",
        protocols: "minecraft-bedrock minecraft-query",
        statuses: "colors",
        fields: "name",
        reason: "leaves the codes in",
    },
    Difference {
        clients: "gamedig opengsq",
        protocols: "teamspeak3",
        statuses: "",
        fields: "online",
        reason: "counts the connection of the query",
    },
    Difference {
        clients: "opengsq",
        protocols: "teamspeak3",
        statuses: "",
        fields: "players",
        reason: "lists the connection of the query",
    },
    Difference {
        clients: "opengsq",
        protocols: "doom3",
        statuses: "",
        fields: "players",
        reason: "reads a player after the end of the list, and drops all",
    },
    Difference {
        clients: "opengsq",
        protocols: "gamespy1 gamespy2 gamespy3 minecraft-query samp unreal2",
        statuses: "accents",
        fields: "name map players",
        reason: "drops bytes that are not UTF-8",
    },
    Difference {
        clients: "opengsq",
        protocols: "gamespy2",
        statuses: "crowd rules",
        fields: "players",
        reason: "asks for rules and players in one request, so fewer players fit",
    },
    Difference {
        clients: "opengsq",
        protocols: "minecraft-query",
        statuses: "colors",
        fields: "name",
        reason: "drops the section sign, and leaves the rest of the code in",
    },
    Difference {
        clients: "opengsq",
        protocols: "unreal2",
        statuses: "nobody empty",
        fields: "error",
        reason: "waits for a list of players, which servers without players do not send",
    },
    Difference {
        clients: "samp-query",
        protocols: "samp",
        statuses: "accents",
        fields: "players",
        reason: "guesses another code page from few letters",
    },
];
