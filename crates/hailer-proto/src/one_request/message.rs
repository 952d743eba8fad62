//! The messages of a protocol, by which explanations recognize bytes.

use crate::model::Status;
use crate::protocol::{Direction, Explanation, Fault};
use crate::wire::{Error, Notes, Reader};

/// Reads a reply into a status, field by field in the order on the wire. It runs for queries and
/// for explanations.
///
/// # Errors
///
/// The reply is invalid or truncated, or refuses a status.
pub type ReadReply = fn(&mut Reader<'_, '_>, &mut Status) -> Result<(), Fault>;

/// How bytes are recognized as a message.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The message is these bytes.
    Exactly(&'static [u8]),
    /// It starts with these bytes.
    Start(&'static [u8]),
    /// It has these bytes at this offset.
    At(usize, &'static [u8]),
    /// The function returns true for it.
    Is(fn(&[u8]) -> bool),
    /// The same, if the direction of the bytes is known to be that of the message.
    Known(fn(&[u8]) -> bool),
}

impl Mark {
    /// No mark: every message of a known direction.
    pub const NONE: Self = Self::Known(|_| true);

    fn fits(self, bytes: &[u8], is_known: bool) -> bool {
        match self {
            Self::Exactly(whole) => bytes == whole,
            Self::Start(start) => bytes.starts_with(start),
            Self::At(at, part) => bytes.get(at..).is_some_and(|rest| rest.starts_with(part)),
            Self::Is(is) => is(bytes),
            Self::Known(is) => is_known && is(bytes),
        }
    }
}

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Name, as on the spec page.
    name: &'static str,
    mark: Mark,
    content: Content,
    /// Whether the mark identifies the protocol; otherwise it is a guess by shape.
    is_certain: bool,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    /// A request of fixed bytes, with the name of their field.
    Constant(&'static [u8], &'static str),
    Request(fn(&mut Reader<'_, '_>) -> Result<(), Error>),
    Reply,
}

impl Message {
    /// Creates a request that is always the same, with the name of its only field.
    pub const fn constant(name: &'static str, field: &'static str, bytes: &'static [u8]) -> Self {
        Self {
            name,
            mark: Mark::Exactly(bytes),
            content: Content::Constant(bytes, field),
            is_certain: false,
        }
    }

    /// Creates a request that differs from query to query.
    pub const fn request(
        name: &'static str,
        mark: Mark,
        read: fn(&mut Reader<'_, '_>) -> Result<(), Error>,
    ) -> Self {
        Self {
            name,
            mark,
            content: Content::Request(read),
            is_certain: false,
        }
    }

    /// Creates a reply.
    pub const fn reply(name: &'static str, mark: Mark) -> Self {
        Self {
            name,
            mark,
            content: Content::Reply,
            is_certain: false,
        }
    }

    /// The mark identifies the protocol.
    #[must_use]
    pub const fn certain(self) -> Self {
        Self {
            is_certain: true,
            ..self
        }
    }

    /// Recognizes a constant request by its start. More bytes are an error.
    #[must_use]
    pub const fn by_start(self) -> Self {
        match self.content {
            Content::Constant(bytes, _) => Self {
                mark: Mark::Start(bytes),
                ..self
            },
            _ => self,
        }
    }

    /// Returns the bytes of a request that is always the same.
    pub(super) fn constant_bytes(&self) -> Option<&'static [u8]> {
        match self.content {
            Content::Constant(bytes, _) => Some(bytes),
            _ => None,
        }
    }

    fn direction(&self) -> Direction {
        match self.content {
            Content::Constant(..) | Content::Request(_) => Direction::Request,
            Content::Reply => Direction::Reply,
        }
    }
}

/// Returns the first of these messages whose mark the bytes have. `None` if they go in the other
/// direction.
fn find<'a>(
    messages: &'a [Message],
    bytes: &[u8],
    direction: Option<Direction>,
) -> Option<&'a Message> {
    let is_known = |message: &Message| direction == Some(message.direction());
    let mut messages = messages.iter();
    let found = messages.find(|message| message.mark.fits(bytes, is_known(message)))?;
    (direction.is_none() || is_known(found)).then_some(found)
}

/// Returns whether received bytes are a reply.
pub(super) fn is_reply(messages: &[Message], bytes: &[u8]) -> bool {
    find(messages, bytes, Some(Direction::Reply)).is_some()
}

/// Explains bytes as the first of these messages whose mark they have.
pub(super) fn explain(
    messages: &[Message],
    read: ReadReply,
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let message = find(messages, bytes, direction)?;
    let mut r = Reader::new(bytes, notes);
    let result = match message.content {
        Content::Constant(bytes, field) => r.constant(bytes, field).and_then(|()| r.end()),
        Content::Request(read) => read(&mut r),
        Content::Reply => match read(&mut r, &mut Status::default()) {
            Err(Fault::Malformed(error)) => Err(error),
            _ => Ok(()),
        },
    };
    Some(Explanation {
        message: message.name,
        direction: message.direction(),
        is_certain: message.is_certain,
        error: result.err(),
    })
}
