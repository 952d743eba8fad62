//! Events that members exchange over the stream (spec/onequery.md#12.2).

use super::record::{MAX_TEXT, cut, uuid};
use hailer_proto::Text;
use hailer_proto::model::uuid_text;
use serde_json::{Value, json};

/// An entry of the stream: the JSON in its field `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A server has started.
    Online { server: String, name: String },
    /// A server has stopped, or its hash has expired.
    Offline { server: String },
    /// A player joined a server and left any other.
    Join {
        uuid: [u8; 16],
        server: String,
        name: Text,
        server_name: String,
    },
    /// A player left a server.
    Leave { uuid: [u8; 16], server: String },
}

impl Event {
    /// Parses an event; `None` if it is invalid or of an unknown kind.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let Value::Object(members) = serde_json::from_slice(data).ok()? else {
            return None;
        };
        let text = |key: &str| members.get(key)?.as_str();
        let id = |key: &str| {
            text(key)
                .filter(|id| !id.is_empty() && id.len() <= MAX_TEXT)
                .map(str::to_owned)
        };
        let name = |key: &str| cut(text(key).unwrap_or_default()).to_owned();
        Some(match text("type")? {
            "server_online" => Self::Online {
                server: id("serverId")?,
                name: name("serverName"),
            },
            "server_offline" => Self::Offline {
                server: id("serverId")?,
            },
            "join" => Self::Join {
                uuid: uuid(text("uuid")?)?,
                server: id("server")?,
                name: Text::unformatted(cut(
                    text("username").filter(|name| !name.trim().is_empty())?
                )),
                server_name: name("serverName"),
            },
            "leave" => Self::Leave {
                uuid: uuid(text("uuid")?)?,
                server: id("server")?,
            },
            _ => return None,
        })
    }

    /// Formats the JSON. The id of the server has two spellings.
    pub(super) fn write(&self) -> String {
        match self {
            Self::Online { server, name } => json!({ "type": "server_online", "serverId": server, "serverName": name }),
            Self::Offline { server } => json!({ "type": "server_offline", "serverId": server }),
            Self::Join { uuid, server, name, server_name } => json!({
                "type": "join", "uuid": uuid_text(uuid), "server": server, "username": name.raw(), "serverName": server_name,
            }),
            Self::Leave { uuid, server } => json!({ "type": "leave", "uuid": uuid_text(uuid), "server": server }),
        }
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_events_of_the_reference() {
        let join = br#"{"serverName":"Lobby \u003c1\u003e","username":"A\/B","type":"join","server":"lobby",
            "uuid":"00010203-0405-0607-0809-0a0b0c0d0e0f"}"#;
        let uuid = std::array::from_fn(|i| i as u8);
        let name = Text::unformatted("A/B");
        let wanted = Event::Join {
            uuid,
            server: "lobby".into(),
            name,
            server_name: "Lobby <1>".into(),
        };
        assert_eq!(Event::read(join), Some(wanted));
        for no_event in [
            "",
            "{}",
            r#"{"type":"party"}"#,
            r#"{"type":"leave","uuid":"?","server":"a"}"#,
        ] {
            assert_eq!(Event::read(no_event.as_bytes()), None);
        }
    }

    fn events() -> impl Strategy<Value = Event> {
        let id = "[a-z0-9-]{1,20}";
        let name = "[a-zA-Z<&='\"/\u{E9}]{1,20}";
        prop_oneof![
            (id, name).prop_map(|(server, name)| Event::Online { server, name }),
            id.prop_map(|server| Event::Offline { server }),
            (any::<[u8; 16]>(), id, name, name).prop_map(|(uuid, server, name, server_name)| {
                Event::Join {
                    uuid,
                    server,
                    name: Text::unformatted(name),
                    server_name,
                }
            }),
            (any::<[u8; 16]>(), id).prop_map(|(uuid, server)| Event::Leave { uuid, server }),
        ]
    }

    proptest! {
        #[test]
        fn events_survive_a_round_trip(event in events()) {
            prop_assert_eq!(Event::read(event.write().as_bytes()), Some(event));
        }

        #[test]
        fn never_panics(data: Vec<u8>, text in "[{}\":,a-z]{0,60}") {
            let _ = (Event::read(&data), Event::read(text.as_bytes()));
        }
    }
}
