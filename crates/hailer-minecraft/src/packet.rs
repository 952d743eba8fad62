//! The macro behind the packet table. For each row it generates a struct, a variant of
//! [`Packet`](crate::Packet), a reader, a writer, an entry of [`TABLE`](crate::TABLE), and a random
//! sample.

use hailer_proto::wire::Error;
use std::fmt;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketDirection {
    /// Server to client.
    ToClient,
    /// Client to server.
    ToServer,
}

impl PacketDirection {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::ToClient, Self::ToServer];
}

impl fmt::Display for PacketDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ToClient => "to client",
            Self::ToServer => "to server",
        })
    }
}

/// Invalid packet. The stream cannot be read further, since nothing marks the start of the next
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketError {
    /// Name of the packet; `None` if the id is not defined.
    pub packet: Option<&'static str>,
    /// First byte of the packet.
    pub id: u8,
    /// Field, its offset from the packet's first byte, and the problem.
    pub error: Error,
    /// Offset of the packet's first byte in the stream, decrypted.
    pub at: u64,
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packet {
            Some(name) => {
                write!(
                    f,
                    "packet 0x{:02X} {name} at offset {} of the stream: {}",
                    self.id, self.at, self.error
                )
            }
            None => write!(
                f,
                "0x{:02X} at offset {} of the stream is not a packet of this build",
                self.id, self.at
            ),
        }
    }
}

impl std::error::Error for PacketError {}

/// Expands the table. A row is `id Name directions [builds] { field: type [builds], … }`;
/// `[builds]` is a list of ranges. A field without one exists in all builds of its row. Absent
/// fields have their default and are not written.
macro_rules! packets {
    (@covers $build:ident) => { true };
    (@covers $build:ident $($range:expr),+) => {
        (false $(|| std::ops::RangeBounds::<Build>::contains(&($range), &$build))+)
    };
    ($(
        $(#[doc = $doc:literal])+
        $id:literal $name:ident $ways:ident [$($range:expr),+] {
            $( $field:ident : $ty:ty $([$($span:expr),+])? ),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, Default, PartialEq)]
            #[allow(missing_docs, reason = "the table of spec/minecraft-12w.md#5 explains each field")]
            pub struct $name { $( pub $field: $ty, )* }

            impl $name {
                #[inline]
                #[allow(unused_variables, reason = "some packets have no fields")]
                fn read(reader: &mut Reader<'_, '_>, build: Build) -> Result<Self, Error> {
                    Ok(Self { $(
                        $field: if packets!(@covers build $($($span),+)?) {
                            <$ty as Wire>::read(reader, build, stringify!($field))?
                        } else {
                            <$ty>::default()
                        },
                    )* })
                }

                #[inline]
                #[allow(unused_variables, clippy::ptr_arg, reason = "some packets have no fields")]
                fn write(&self, out: &mut Vec<u8>, build: Build) {
                    $( if packets!(@covers build $($($span),+)?) {
                        self.$field.write(out, build);
                    } )*
                }

                #[allow(unused_variables, reason = "some packets have no fields")]
                fn sample(dice: &mut SampleRng, build: Build) -> Packet {
                    Packet::$name(Self { $(
                        $field: if packets!(@covers build $($($span),+)?) {
                            <$ty as Wire>::sample(dice, build)
                        } else {
                            <$ty>::default()
                        },
                    )* })
                }
            }

            impl From<$name> for Packet {
                fn from(packet: $name) -> Self {
                    Self::$name(packet)
                }
            }
        )*

        /// Packet of any kind.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "documented at the structs")]
        pub enum Packet { $( $name($name), )* }

        /// Every packet of every build, in the order of ids.
        pub static TABLE: &[PacketInfo] = &[ $( PacketInfo {
            id: $id,
            name: stringify!($name),
            directions: PacketDirections::$ways,
            builds: stringify!($($range),+),
            exists: |build| packets!(@covers build $($range),+),
            help: concat!($($doc),+),
            fields: &[ $( FieldInfo {
                name: stringify!($field),
                ty: stringify!($ty),
                builds: concat!($($(stringify!($span), ", "),+)?),
                #[allow(unused_variables, reason = "most fields exist in every build")]
                exists: |build| packets!(@covers build $($($span),+)?),
            }, )* ],
            sample: $name::sample,
        }, )* ];

        impl Packet {
            /// Returns the first byte of the packet.
            pub const fn id(&self) -> u8 {
                match self { $( Self::$name(_) => $id, )* }
            }

            /// Returns the name of the row.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )* }
            }

            /// Returns whether the packet exists in this build and direction.
            pub fn is_in(&self, direction: PacketDirection, build: Build) -> bool {
                match self { $( Self::$name(_) => PacketDirections::$ways.admits(direction) && packets!(@covers build $($range),+), )* }
            }

            /// Reads the packet with this id; `None` if this build and direction have none.
            #[inline]
            pub(crate) fn read_row(id: u8, reader: &mut Reader<'_, '_>, direction: PacketDirection, build: Build)
                -> Option<(&'static str, Result<Self, Error>)>
            {
                match id {
                    $( $id if PacketDirections::$ways.admits(direction) && packets!(@covers build $($range),+) => {
                        Some((stringify!($name), $name::read(reader, build).map(Self::$name)))
                    } )*
                    _ => None,
                }
            }

            /// Appends the packet, including the id.
            pub fn write(&self, out: &mut Vec<u8>, build: Build) {
                out.push(self.id());
                match self { $( Self::$name(packet) => packet.write(out, build), )* }
            }

            /// Returns a view with the fields of this build, for display and serialization.
            pub const fn at(&self, build: Build) -> PacketView<'_> {
                PacketView { packet: self, build }
            }
        }

        impl fmt::Display for PacketView<'_> {
            /// Writes `Name field=value …`.
            #[allow(unused_variables, reason = "some packets have no fields")]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.packet.name())?;
                let build = self.build;
                match self.packet { $( Packet::$name(packet) => { $(
                    if packets!(@covers build $($($span),+)?) {
                        write!(f, concat!(" ", stringify!($field), "={}"), packet.$field)?;
                    }
                )* } )* }
                Ok(())
            }
        }

        impl serde::Serialize for PacketView<'_> {
            #[allow(unused_variables, reason = "some packets have no fields")]
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("packet", self.packet.name())?;
                let build = self.build;
                match self.packet { $( Packet::$name(packet) => { $(
                    if packets!(@covers build $($($span),+)?) {
                        map.serialize_entry(stringify!($field), &packet.$field)?;
                    }
                )* } )* }
                map.end()
            }
        }
    };
}
pub(crate) use packets;
