//! Members of JSON objects, read leniently.

use crate::model::{Address, Player, Rule, Text, Value};
use crate::wire::json::Item;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use compact_str::CompactString;

/// An object of a response. Members of another value have no members: all readers return `None`.
/// Numbers may be texts, and an empty text counts as missing.
#[derive(Clone, Copy, Debug)]
pub struct Members<'j, 'a>(pub Item<'j, 'a>);

impl<'j, 'a> Members<'j, 'a> {
    /// Returns a member that is not `null`.
    pub fn item(self, key: &str) -> Option<Item<'j, 'a>> {
        self.0.member(key)
    }

    /// Returns a member that is an object.
    pub fn object(self, key: &str) -> Option<Self> {
        self.item(key).map(Self)
    }

    /// Returns a scalar as text.
    pub fn text(self, key: &str) -> Option<Cow<'a, str>> {
        let text = self.item(key)?.scalar()?;
        (!text.is_empty()).then_some(text)
    }

    /// Returns a scalar as a short text.
    pub fn short(self, key: &str) -> Option<CompactString> {
        self.text(key).map(Into::into)
    }

    /// Returns a scalar as a text without format codes.
    pub fn unformatted(self, key: &str) -> Option<Text> {
        self.text(key).map(Text::unformatted)
    }

    /// Returns a scalar as a value of type text.
    pub fn value(self, key: &str) -> Option<Value> {
        self.short(key).map(Value::Str)
    }

    /// Returns a whole number. Fractions are cut off.
    pub fn integer(self, key: &str) -> Option<i64> {
        self.item(key)?.integer()
    }

    /// Returns a number.
    pub fn float(self, key: &str) -> Option<f64> {
        self.item(key)?.float()
    }

    /// Returns a boolean.
    pub fn boolean(self, key: &str) -> Option<bool> {
        self.item(key)?.boolean()
    }

    /// Returns a latency in milliseconds.
    pub fn latency(self, key: &str) -> Option<i32> {
        i32::try_from(self.integer(key)?).ok()
    }

    /// Returns an address without a host, if the member is a port other than 0.
    pub fn port(self, key: &str) -> Option<Address> {
        let port = u16::try_from(self.integer(key)?).ok();
        port.filter(|port| *port > 0).map(|port| Address {
            host: None,
            port: Some(port),
        })
    }

    /// Returns the elements of a list.
    pub fn items(self, key: &str) -> impl Iterator<Item = Self> + use<'j, 'a> {
        let items = self.item(key).into_iter().flat_map(Item::items);
        items.map(Self)
    }

    /// Returns the texts of a list, at most `limit`.
    pub fn texts(
        self,
        key: &str,
        limit: usize,
    ) -> impl Iterator<Item = Cow<'a, str>> + use<'j, 'a> {
        self.items(key).take(limit).filter_map(|item| item.0.text())
    }

    /// Returns the texts of a list as a value, at most `limit`. `None` if there are none.
    pub fn list(self, key: &str, limit: usize) -> Option<Value> {
        let texts = self.texts(key, limit);
        let texts: Vec<Value> = texts.map(|text| Value::from(&*text)).collect();
        (!texts.is_empty()).then_some(Value::List(texts))
    }

    /// Returns the texts of a list as names of players, at most `limit`.
    pub fn names(self, key: &str, limit: usize) -> Vec<Player> {
        let names = self.texts(key, limit).map(Text::unformatted);
        names.map(Player::named).collect()
    }

    /// Returns all scalars as rules, at most `limit`.
    pub fn rules(self, limit: usize) -> Vec<Rule> {
        let rule = |(key, value): (Item<'_, '_>, Item<'_, '_>)| {
            Some(Rule {
                key: key.text()?.into(),
                value: value.scalar()?.into(),
            })
        };
        self.0.entries().take(limit).filter_map(rule).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Json;

    #[test]
    fn members_are_read_leniently() {
        let text =
            br#"{"text":"a","empty":"","number":7,"digits":"8","port":"65535","none":0,"far":65536,
            "null":null,"list":["a",1,{"b":"c"},"d"],"object":{"x":"y","n":null,"l":[]}}"#;
        let json = Json::parse(text, 0..text.len(), "JSON").unwrap();
        let root = Members(json.root());
        assert_eq!(root.text("text").as_deref(), Some("a"));
        assert_eq!(root.text("number").as_deref(), Some("7"));
        assert_eq!((root.text("empty"), root.text("null")), (None, None));
        assert_eq!(
            (root.integer("digits"), root.integer("text")),
            (Some(8), None)
        );
        let port = |key| root.port(key).and_then(|address| address.port);
        let ports = ["port", "none", "far", "text"].map(port);
        assert_eq!(ports, [Some(65_535), None, None, None]);
        let list = [Value::from("a"), Value::from("d")];
        assert_eq!(root.list("list", 9), Some(Value::List(list.into())));
        assert_eq!(
            root.list("list", 3),
            Some(Value::List([Value::from("a")].into()))
        );
        assert_eq!((root.list("object", 9), root.list("null", 9)), (None, None));
        assert_eq!(root.names("list", 9).len(), 2);
        let rules = root.object("object").unwrap().rules(9);
        assert_eq!(rules.len(), 1);
        assert!(root.rules(3).len() == 3 && root.object("text").unwrap().rules(9).is_empty());
    }
}
