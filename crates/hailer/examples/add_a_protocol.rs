//! A minimal protocol in one file. In the project it would be a folder in `hailer-proto` with a
//! spec page, vectors and a line in the registry. Everything else, from the client to the budget,
//! works unchanged.
//!
//! ```text
//!   client  "WHO?" id   ─►
//!                       ◄─  "HERE" id online max name        id: 4 bytes; counts: 1 byte each
//! ```
//!
//! ```sh
//! cargo run --example add_a_protocol
//! ```

use hailer::client::Host;
use hailer::proto::Text;
use hailer::proto::wire::{Error, Notes, Reader, by_content, cut};
use hailer::proto::{
    Amplification, Ask, Cookie, DatagramContext, Depth, Direction, Epoch, Exchange, Explanation,
    Info, Input, Keys, Options, Protocol, Responder, ResponderResult, Step, Verdict,
};
use hailer::respond::{Board, Budget, Service};
use hailer::{Client, Status, Target};
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest name sent, in bytes. It determines the amplification below.
const MAX_NAME: usize = 32;

struct Who;

static INFO: Info = Info {
    id: "who",
    title: "Who?",
    port: 4242,
    amplification: Amplification {
        request: 8,
        reply: 10 + MAX_NAME,
    },
    has_responder: true,
    ..Info::DATAGRAM
};

impl Protocol for Who {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(WhoExchange {
            id: cookie.derive(0) as u32,
            depth: ask.depth,
        })
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        // The reply is encoded once, and copied for each request.
        let count = |count: Option<i64>| count.unwrap_or(0).clamp(0, 255) as u8;
        let mut body = vec![count(status.players.online), count(status.players.max)];
        body.extend(cut(&status.title().unwrap_or_default(), MAX_NAME).bytes());
        Ok(Arc::new(WhoResponder { body }))
    }

    fn explain(
        &self,
        bytes: &[u8],
        context: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        let (message, direction, error) = match bytes.get(..4)? {
            b"WHO?" => (
                "request",
                Direction::Request,
                read_request(bytes, notes).err(),
            ),
            b"HERE" => ("reply", Direction::Reply, read_reply(bytes, notes).err()),
            _ => return None,
        };
        let is_possible = context.direction().is_none_or(|known| known == direction);
        is_possible.then_some(Explanation::certain(message, direction, error))
    }
}

// In the project: message.rs, the only file that contains offsets.

fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<u32, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(b"WHO?", "magic")?;
    let id = r.u32_le("id")?;
    r.end().map(|()| id)
}

struct Reply<'a> {
    id: u32,
    online: u8,
    max: u8,
    name: &'a [u8],
}

fn read_reply<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(b"HERE", "magic")?;
    let id = r.u32_le("id")?;
    let online = r.u8("online")?;
    let max = r.u8("max")?;
    let length = r.remaining();
    Ok(Reply {
        id,
        online,
        max,
        name: r.raw(length, "name")?,
    })
}

// In the project: client.rs.

struct WhoExchange {
    // Long enough that a late reply to another query has another id.
    id: u32,
    depth: Depth,
}

impl Exchange for WhoExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        let bytes = match input {
            Input::Start | Input::Timeout => {
                out.extend(b"WHO?");
                out.extend(self.id.to_le_bytes());
                return Step::Send;
            }
            Input::GiveUp | Input::Continue | Input::Closed(_) => return Step::Wait,
            Input::Datagram(bytes) => bytes,
        };
        let mut notes = Notes::default();
        match read_reply(bytes, &mut notes) {
            Err(error) => Step::Bad(error.into()),
            Ok(reply) if reply.id != self.id => Step::Wait,
            Ok(_) if self.depth == Depth::Ping => Step::Done(Box::default()),
            Ok(reply) => {
                let name = Some(Text::unformatted(by_content(reply.name).0));
                let mut status = Status {
                    name,
                    ..Status::default()
                };
                status.players.online = Some(reply.online.into());
                status.players.max = Some(reply.max.into());
                Step::Done(Box::new(status))
            }
        }
    }

    fn stage(&self) -> usize {
        0
    }
}

// In the project: server.rs.

struct WhoResponder {
    body: Vec<u8>,
}

impl Responder for WhoResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !bytes.starts_with(b"WHO?") {
            return Verdict::Pass;
        }
        match read_request(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(id) => {
                out.extend(b"HERE");
                out.extend(id.to_le_bytes());
                out.extend(&self.body);
                Verdict::Reply { is_verified: false }
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut status = Status {
        name: Some(Text::unformatted("The first of its kind")),
        ..Status::default()
    };
    status.players.online = Some(3);
    status.players.max = Some(8);

    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    let address = socket.local_addr()?;
    let mut service = Service::new(Board::new(&[&Who], &status)?, Budget::default());
    let target = Target {
        game: None,
        protocol: Some(&Who),
        host: Host::Address(address.ip()),
        port: Some(address.port()),
    };
    let answer = tokio::select! {
        answer = async { Client::default().query(target).await } => answer?,
        () = service.run(&socket) => unreachable!("a service runs until dropped"),
    };
    assert_eq!(*answer.status, status);
    println!(
        "{} says: {} of {} players",
        answer.status.title().unwrap_or_default(),
        3,
        8
    );

    let mut notes = Notes::explaining();
    let seen = Who
        .explain(
            b"HERE\x07\0\0\0\x03\x08Hello",
            DatagramContext::Unknown,
            &mut notes,
        )
        .ok_or("not explained")?;
    println!("{}:", seen.message);
    for field in notes.fields() {
        println!(
            "  {:2}  {:8} {}",
            field.range.start, field.name, field.value
        );
    }
    Ok(())
}
