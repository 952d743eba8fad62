//! Names for deviations of real servers.

/// A deviation from the protocol that some real servers have, and that the client accepts. Those with
/// one name are equal, although each protocol has its own sentence.
#[derive(Debug)]
pub struct Deviation {
    /// Kebab-case name, as on the spec page.
    pub name: &'static str,
    /// Behavior of the server: one sentence without a final stop.
    pub help: &'static str,
}

impl PartialEq for Deviation {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Deviation {}

/// A later message of an answer does not parse. The client keeps what it read before. Any protocol
/// whose answers have several messages can have it, so it is not in [`Info`](crate::Info).
pub static UNREADABLE_MESSAGE: Deviation = Deviation {
    name: "unreadable-message",
    help: "a later message of the answer is unreadable; the status of the messages before it is kept",
};

/// A deviation of a status that was read from JSON, which this version does not know.
pub static UNKNOWN_DEVIATION: Deviation = Deviation {
    name: "unknown-deviation",
    help: "a deviation that this version of Hailer does not know",
};

/// Declares a protocol's deviations: `CONSTANT "name" "help";`, in the order of its spec page, and `ALL`
/// of them. After a visibility and `static;`, declares single ones.
#[macro_export]
macro_rules! deviations {
    ($visibility:vis static; $($constant:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            $visibility static $constant: $crate::wire::Deviation =
                $crate::wire::Deviation { name: $name, help: $help };
        )*
    };
    ($($constant:ident $name:literal $help:literal;)*) => {
        $crate::deviations! { pub static; $($constant $name $help;)* }
        /// All deviations, in the order of the spec page.
        pub static ALL: &[&$crate::wire::Deviation] = &[$(&$constant),*];
    };
}
pub(crate) use deviations;

#[cfg(feature = "serde")]
impl serde::Serialize for Deviation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
