//! Values that clients read and that are not the configured ones.

use super::clients::Reading;

/// A field with another value than the configured one.
pub(crate) struct Found<'a> {
    pub(crate) reading: &'a Reading,
    pub(crate) field: &'a str,
}

/// A known difference. Texts are lists of words; an empty one means all.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Clients. For `hailer`, other clients that read the same value are meant too.
    pub(crate) clients: &'static str,
    /// Names of servers. `doom3*` means all servers whose first protocol it is, `doom3` only the one
    /// with default options.
    pub(crate) servers: &'static str,
    /// Names of statuses.
    pub(crate) statuses: &'static str,
    /// Fields; `error` means that the client returns nothing.
    pub(crate) fields: &'static str,
    pub(crate) reason: &'static str,
}

impl Difference {
    fn lists(&self) -> [&'static str; 4] {
        [self.clients, self.servers, self.statuses, self.fields]
    }

    /// Returns the words that cover a field; `None` if a list does not.
    pub(crate) fn words(&self, found: &Found<'_>) -> Option<Vec<&'static str>> {
        let Reading {
            client,
            server,
            protocol,
            status,
            ..
        } = found.reading;
        let [clients, servers, statuses, fields] = self.lists();
        let lists = [
            (clients, *client),
            (statuses, *status),
            (fields, found.field),
        ];
        let mut words = Vec::new();
        for (list, value) in lists.into_iter().filter(|(list, _)| !list.is_empty()) {
            words.push(list.split(' ').find(|word| *word == value)?);
        }
        if !servers.is_empty() {
            let is = |word: &&str| {
                word.strip_suffix('*')
                    .map_or(word == server, |id| id == *protocol)
            };
            words.push(servers.split(' ').find(is)?);
        }
        Some(words)
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &'static str> {
        self.clients.split(' ')
    }

    /// Returns all words of the lists.
    pub(crate) fn all_words(&self) -> Vec<&'static str> {
        let words = self.lists().into_iter().flat_map(|list| list.split(' '));
        words.filter(|word| !word.is_empty()).collect()
    }
}

/// The first one that covers a field counts.
pub(crate) const DIFFERENCES: &[Difference] = &[
    // Limits of the protocols and of our responders.
    Difference {
        clients: "hailer",
        servers: "a2s* ugp-full",
        statuses: "crowd",
        fields: "online max players",
        reason: "counts have one byte",
    },
    Difference {
        clients: "hailer",
        servers: "openttd perfect-dark ugp",
        statuses: "crowd",
        fields: "online max",
        reason: "counts have one byte",
    },
    Difference {
        clients: "hailer",
        servers: "a2s* samp* teeworlds*",
        statuses: "long",
        fields: "name",
        reason: "longest name: 63 bytes",
    },
    Difference {
        clients: "hailer",
        servers: "perfect-dark",
        statuses: "long",
        fields: "name",
        reason: "longest name: 64 bytes",
    },
    Difference {
        clients: "hailer",
        servers: "openttd",
        statuses: "long",
        fields: "name",
        reason: "longest name: 79 bytes",
    },
    Difference {
        clients: "hailer",
        servers: "satisfactory",
        statuses: "long",
        fields: "name",
        reason: "longest name: 100 bytes",
    },
    Difference {
        clients: "hailer",
        servers: "a2s-anonymous",
        statuses: "",
        fields: "players",
        reason: "the option leaves out names",
    },
    Difference {
        clients: "hailer",
        servers: "samp*",
        statuses: "crowd",
        fields: "players",
        reason: "servers do not list more than 100 players",
    },
    Difference {
        clients: "opengsq samp-query",
        servers: "samp*",
        statuses: "crowd",
        fields: "error",
        reason: "waits for a list of players, which servers with more than 100 do not \
            send",
    },
    Difference {
        clients: "hailer",
        servers: "battlefield",
        statuses: "crowd",
        fields: "players",
        reason: "clients of the games read at most 256 players",
    },
    Difference {
        clients: "hailer",
        servers: "doom3*",
        statuses: "crowd",
        fields: "players",
        reason: "at most 32 players",
    },
    Difference {
        clients: "hailer",
        servers: "gamespy3*",
        statuses: "crowd",
        fields: "players",
        reason: "numbers of players have one byte",
    },
    Difference {
        clients: "hailer",
        servers: "minecraft-status",
        statuses: "crowd",
        fields: "players",
        reason: "a sample of 12 players",
    },
    Difference {
        clients: "hailer",
        servers: "ase fivem gamespy1 gamespy2 hexenworld minecraft-query-small quake1 \
            quake2 quake3 teeworlds teeworlds-0.6 teeworlds-0.7 ugp unreal2",
        statuses: "crowd",
        fields: "players",
        reason: "entries beyond `max-reply` are left out",
    },
    Difference {
        clients: "hailer",
        servers: "ase gamespy1 gamespy2 minecraft-query-small samp ugp unreal2",
        statuses: "rules",
        fields: "rules",
        reason: "entries beyond `max-reply` are left out",
    },
    Difference {
        clients: "hailer",
        servers: "doom3* quake1* quake2* quake3*",
        statuses: "rules",
        fields: "rules",
        reason: "variables have at most 700 to 900 bytes, since the games have limits too",
    },
    Difference {
        clients: "hailer",
        servers: "minecraft-bedrock* minecraft-status",
        statuses: "bare empty",
        fields: "name version",
        reason: "clients of the game show no servers without: the responder has its \
            own texts",
    },
    Difference {
        clients: "hailer",
        servers: "battlefield onequery",
        statuses: "bare",
        fields: "version",
        reason: "the responder has its own text for a missing version",
    },
    Difference {
        clients: "hailer",
        servers: "minecraft-query*",
        statuses: "bare",
        fields: "map",
        reason: "the responder has its own text for a missing map",
    },
    Difference {
        clients: "hailer",
        servers: "bedrock-education",
        statuses: "bare crowd",
        fields: "max",
        reason: "`look-open` reports a free slot",
    },
    Difference {
        clients: "hailer",
        servers: "mumble*",
        statuses: "",
        fields: "version",
        reason: "a number that the option `version` sets",
    },
    Difference {
        clients: "hailer",
        servers: "quake1*",
        statuses: "accents",
        fields: "name map players",
        reason: "one byte for each character of the font of the game",
    },
    Difference {
        clients: "hailer",
        servers: "quake2*",
        statuses: "bare empty",
        fields: "map",
        reason: "clients show no servers without a map",
    },
    Difference {
        clients: "gamedig mcstatus rust-gamedig",
        servers: "minecraft-bedrock*",
        statuses: "bare empty",
        fields: "map",
        reason: "the responder has its own text for a missing map",
    },
    Difference {
        clients: "gamedig qstat",
        servers: "openttd-udp",
        statuses: "",
        fields: "error",
        reason: "servers since version 12 refer to TCP, which the client does not know",
    },
    // Fields that a client does not read in a protocol, or under another name.
    Difference {
        clients: "gamedig",
        servers: "minecraft-query* quake1* samp*",
        statuses: "",
        fields: "map",
        reason: "reads other names of it only",
    },
    Difference {
        clients: "gamedig",
        servers: "minecraft-query* minecraft-status unreal2*",
        statuses: "",
        fields: "version",
        reason: "not read",
    },
    Difference {
        clients: "gamedig",
        servers: "minecraft-status",
        statuses: "",
        fields: "name",
        reason: "not read, since the description may have many forms",
    },
    Difference {
        clients: "gamedig",
        servers: "doom3* quake1* quake2* teamspeak2 teamspeak3",
        statuses: "usual",
        fields: "password",
        reason: "not read, or from rules with other names",
    },
    Difference {
        clients: "gamedig",
        servers: "teamspeak2",
        statuses: "",
        fields: "max",
        reason: "not read",
    },
    Difference {
        clients: "gamedig",
        servers: "doom3*",
        statuses: "",
        fields: "version",
        reason: "shows the version of the protocol",
    },
    Difference {
        clients: "gamedig",
        servers: "fivem",
        statuses: "",
        fields: "version",
        reason: "shows another number of that name",
    },
    Difference {
        clients: "gamedig",
        servers: "satisfactory",
        statuses: "",
        fields: "version",
        reason: "a number, which this version is not",
    },
    Difference {
        clients: "opengsq",
        servers: "doom3*",
        statuses: "bare empty",
        fields: "version",
        reason: "without a version of the game, that of the protocol has this name",
    },
    Difference {
        clients: "opengsq",
        servers: "quake-wars",
        statuses: "",
        fields: "map",
        reason: "leaves it in the form of the game",
    },
    Difference {
        clients: "opengsq",
        servers: "satisfactory",
        statuses: "",
        fields: "error",
        reason: "needs the HTTPS API of the server too",
    },
    Difference {
        clients: "qstat",
        servers: "mumble*",
        statuses: "",
        fields: "name map",
        reason: "not in the protocol: shows `Unknown` and `N/A`",
    },
    Difference {
        clients: "qstat",
        servers: "teamspeak2 teamspeak3",
        statuses: "",
        fields: "map",
        reason: "not in the protocol: shows `N/A`",
    },
    Difference {
        clients: "qstat",
        servers: "doom3* quake1* quake3*",
        statuses: "bare empty",
        fields: "map",
        reason: "shows `?` for a missing map",
    },
    Difference {
        clients: "qstat",
        servers: "battlefield",
        statuses: "",
        fields: "players",
        reason: "not read",
    },
    Difference {
        clients: "qstat",
        servers: "unreal2*",
        statuses: "",
        fields: "rules",
        reason: "asks for rules and players in one request, and servers send the players",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "minecraft-status",
        statuses: "",
        fields: "name",
        reason: "returns the JSON of the description",
    },
    // Faults of clients.
    Difference {
        clients: "gamedig",
        servers: "unreal2*",
        statuses: "",
        fields: "password",
        reason: "shows the opposite: takes `True` for no password",
    },
    Difference {
        clients: "gamedig",
        servers: "doom3* gamespy1 hexenworld quake1 quake2 quake3",
        statuses: "crowd",
        fields: "online",
        reason: "counts the listed players: without a count in the reply, or in its place",
    },
    Difference {
        clients: "gamedig opengsq qstat",
        servers: "hexenworld quake1",
        statuses: "crowd",
        fields: "players",
        reason: "asks for fewer columns than Hailer, so more players fit",
    },
    Difference {
        clients: "gamedig",
        servers: "gamespy2",
        statuses: "crowd",
        fields: "players",
        reason: "takes a number of players above 64 for a name",
    },
    Difference {
        clients: "gamedig rust-gamedig",
        servers: "gamespy3*",
        statuses: "rules",
        fields: "rules",
        reason: "reads rules of the first part only",
    },
    Difference {
        clients: "gamedig",
        servers: "vcmp",
        statuses: "",
        fields: "players",
        reason: "reads a score after each name, which servers do not send",
    },
    Difference {
        clients: "gamedig",
        servers: "battlefield doom3* quake2* quake3* starmade",
        statuses: "accents",
        fields: "name map players",
        reason: "reads UTF-8 as Latin-1",
    },
    Difference {
        clients: "gamedig mcstatus",
        servers: "minecraft-query-utf8",
        statuses: "accents colors",
        fields: "name map players",
        reason: "reads UTF-8 as Latin-1",
    },
    Difference {
        clients: "gamedig",
        servers: "fivem minecraft-bedrock* minecraft-query*",
        statuses: "colors",
        fields: "name",
        reason: "leaves the codes in",
    },
    Difference {
        clients: "gamedig",
        servers: "satisfactory",
        statuses: "long",
        fields: "name",
        reason: "removes the space at its end",
    },
    Difference {
        clients: "gamedig opengsq",
        servers: "teamspeak3",
        statuses: "",
        fields: "online",
        reason: "counts the connection of the query",
    },
    Difference {
        clients: "opengsq",
        servers: "teamspeak3",
        statuses: "",
        fields: "players",
        reason: "lists the connection of the query",
    },
    Difference {
        clients: "opengsq",
        servers: "doom3 doom3-large",
        statuses: "",
        fields: "players",
        reason: "reads a player after the end of the list, and drops all",
    },
    Difference {
        clients: "opengsq",
        servers: "gamespy1* gamespy2* gamespy3* minecraft-query* samp* unreal2*",
        statuses: "accents",
        fields: "name map players",
        reason: "drops bytes that are not UTF-8",
    },
    Difference {
        clients: "opengsq",
        servers: "gamespy2",
        statuses: "crowd",
        fields: "players",
        reason: "asks for rules and players in one request, so fewer players fit",
    },
    Difference {
        clients: "opengsq qstat",
        servers: "gamespy2",
        statuses: "rules",
        fields: "rules",
        reason: "asks for rules and players in one request, so fewer rules fit",
    },
    Difference {
        clients: "opengsq",
        servers: "gamespy2-large",
        statuses: "crowd",
        fields: "players",
        reason: "reads the number of players as one byte",
    },
    Difference {
        clients: "opengsq",
        servers: "fivem minecraft-query-utf8",
        statuses: "colors",
        fields: "name",
        reason: "leaves the codes in",
    },
    Difference {
        clients: "opengsq",
        servers: "minecraft-query*",
        statuses: "colors",
        fields: "name",
        reason: "drops the section sign, and leaves the rest of the code in",
    },
    Difference {
        clients: "opengsq",
        servers: "unreal2*",
        statuses: "bare empty nobody",
        fields: "error",
        reason: "waits for a list of players, which servers without players do not send",
    },
    Difference {
        clients: "samp-query",
        servers: "samp*",
        statuses: "accents",
        fields: "players",
        reason: "guesses another code page from few letters",
    },
    Difference {
        clients: "qstat",
        servers: "",
        statuses: "accents",
        fields: "name map players",
        reason: "its JSON has only the characters of ASCII",
    },
    Difference {
        clients: "qstat",
        servers: "teamspeak3",
        statuses: "",
        fields: "name",
        reason: "moves overlapping text at each space",
    },
    Difference {
        clients: "qstat",
        servers: "teamspeak3",
        statuses: "empty",
        fields: "error",
        reason: "waits for a name",
    },
    Difference {
        clients: "qstat",
        servers: "doom3* quake3* minecraft-query*",
        statuses: "colors",
        fields: "name",
        reason: "leaves the codes in",
    },
    Difference {
        clients: "qstat",
        servers: "doom3* hexenworld quake1",
        statuses: "crowd",
        fields: "online",
        reason: "counts the listed players",
    },
    Difference {
        clients: "qstat",
        servers: "gamespy2* gamespy3* minecraft-query*",
        statuses: "crowd",
        fields: "online players",
        reason: "reads the number of players as one byte",
    },
    Difference {
        clients: "qstat",
        servers: "a2s a2s-anonymous",
        statuses: "crowd rules",
        fields: "players rules",
        reason: "reads no long lists from servers whose game has the number 0",
    },
    Difference {
        clients: "qstat",
        servers: "teeworlds*",
        statuses: "crowd",
        fields: "players",
        reason: "reads at most 16 players",
    },
    Difference {
        clients: "qstat",
        servers: "starmade",
        statuses: "",
        fields: "error",
        reason: "reads only versions that are numbers, as the first servers sent",
    },
    Difference {
        clients: "qstat",
        servers: "mumble",
        statuses: "bare empty",
        fields: "version",
        reason: "adds 1, 2 and 3 to the first byte instead of reading the next ones",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "gamespy1* gamespy2* gamespy3*",
        statuses: "accents",
        fields: "error",
        reason: "refuses texts that are not UTF-8",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "gamespy1* gamespy2* gamespy3*",
        statuses: "bare",
        fields: "error",
        reason: "refuses replies without a maximum",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "gamespy1* gamespy2* unreal2*",
        statuses: "crowd rules",
        fields: "error rules",
        reason: "reads at most 1,024 bytes of a datagram",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "gamespy3*",
        statuses: "",
        fields: "players",
        reason: "skips the first two letters of each field, and lists no players",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "quake1* quake2* quake3*",
        statuses: "",
        fields: "online players",
        reason: "lists no players, and counts the listed ones",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "quake1* quake2* quake3*",
        statuses: "crowd",
        fields: "error",
        reason: "reads the maximum as one byte",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "quake1* quake2* quake3*",
        statuses: "bare empty",
        fields: "error",
        reason: "refuses replies without name, map or maximum",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "minecraft-bedrock* quake3*",
        statuses: "colors",
        fields: "name",
        reason: "leaves the codes in",
    },
    Difference {
        clients: "rust-gamedig",
        servers: "unreal2*",
        statuses: "long",
        fields: "name",
        reason: "shows the byte with the length as a letter",
    },
];
