//! Bytes ⇄ messages. The only file that knows the layout (spec/teeworlds.md#2 to #5).

use super::deviation::{CUT_LIST, ODD_NUMBER};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content, first_nul, whole_number};
use alloc::{format, string::ToString, vec::Vec};

/// Starts most messages of 0.5 and 0.6.
const CONNECTIONLESS: [u8; 10] = [0xFF; 10];
/// Starts an extended request.
const EXTENDED: [u8; 2] = *b"xe";
/// Length of what precedes the four letters of a message of 0.5 and 0.6.
const PREFIX: usize = 10;
/// Ends the prefix.
const MARK: [u8; 4] = [0xFF; 4];
/// Starts a control message of 0.7.
const CONTROL: [u8; 3] = [4, 0, 0];
/// Kind of a control message: a token.
const TOKEN: u8 = 5;
/// Starts a message of 0.7 outside of a game session.
const SEVEN: u8 = 0x21;
/// Receiver of a message of 0.7 whose token is not known.
const NO_TOKEN: Token = [0xFF; 4];

const GET_FIVE_PLAIN: &[u8; 4] = b"gief";
const GET_FIVE: &[u8; 4] = b"gie2";
const GET_INFO: &[u8; 4] = b"gie3";
const GET_SIXTY_FOUR: &[u8; 4] = b"fstd";
const FIVE_PLAIN: &[u8; 4] = b"info";
const FIVE: &[u8; 4] = b"inf2";
const INFO: &[u8; 4] = b"inf3";
const SIXTY_FOUR: &[u8; 4] = b"dtsf";
const EXTENDED_INFO: &[u8; 4] = b"iext";
const EXTENDED_MORE: &[u8; 4] = b"iex+";

/// Length of a token request in bytes. Servers reply to no shorter one.
pub const TOKEN_REQUEST: usize = 519;
/// Length of an extended request in bytes.
pub const EXTENDED_REQUEST: usize = 15;
/// Bit of the flags: players need a password.
pub const FLAG_PASSWORD: i64 = 1;
/// Bit of the flags of 0.7: scores are times.
pub const FLAG_TIME_SCORE: i64 = 2;
/// Most clients that are read from one datagram.
pub const MAX_CLIENTS: usize = 1_024;
/// Largest number of a datagram with further clients.
const MAX_MORE: i64 = 63;

/// Token of 0.7.
pub type Token = [u8; 4];

/// Request of a Teeworlds client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// For a server of 0.5.
    Five {
        /// Byte that the server returns. Without it, the reply has none.
        token: Option<u8>,
    },
    /// For a server of 0.6.
    Six {
        /// Byte that the server returns.
        token: u8,
    },
    /// For up to 64 clients, 24 in a datagram (DDNet).
    SixtyFour {
        /// Byte that the server returns.
        token: u8,
    },
    /// For all clients (DDNet).
    Extended {
        /// 24 bits that the server returns.
        token: u32,
    },
    /// For a token of 0.7.
    Token {
        /// Token of the client.
        client: Token,
    },
    /// For a server of 0.7.
    Seven {
        /// Token of the server.
        server: Token,
        /// Token of the client.
        client: Token,
        /// Number that the server returns.
        number: i32,
    },
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let mut plain = |letters: &[u8; 4], token: &[u8]| {
            out.extend(CONNECTIONLESS);
            out.extend(letters);
            out.extend(token);
        };
        match self {
            Self::Five { token: None } => plain(GET_FIVE_PLAIN, &[]),
            Self::Five { token: Some(token) } => plain(GET_FIVE, &[token]),
            Self::Six { token } => plain(GET_INFO, &[token]),
            Self::SixtyFour { token } => plain(GET_SIXTY_FOUR, &[token]),
            Self::Extended { token } => {
                let [_, high, middle, low] = token.to_be_bytes();
                out.extend(EXTENDED);
                out.extend([high, middle, 0, 0]);
                out.extend(MARK);
                out.extend(GET_INFO);
                out.push(low);
            }
            Self::Token { client } => {
                let end = out.len() + TOKEN_REQUEST;
                out.extend(CONTROL);
                out.extend(NO_TOKEN);
                out.push(TOKEN);
                out.extend(client);
                out.resize(end, 0);
            }
            Self::Seven {
                server,
                client,
                number,
            } => {
                out.push(SEVEN);
                out.extend(server);
                out.extend(client);
                out.extend(MARK);
                out.extend(GET_INFO);
                write_integer(number, out);
            }
        }
    }

    /// Returns whether bytes start like a request.
    pub fn is_request(bytes: &[u8]) -> bool {
        let letters = bytes.get(PREFIX..PREFIX + 4);
        let is = |known: &[u8; 4]| letters == Some(&known[..]);
        if bytes.starts_with(&CONNECTIONLESS) {
            return [GET_FIVE_PLAIN, GET_FIVE, GET_INFO, GET_SIXTY_FOUR]
                .into_iter()
                .any(is);
        }
        if bytes.starts_with(&EXTENDED) && bytes.get(6..PREFIX) == Some(&MARK) {
            return is(GET_INFO);
        }
        if is_seven(bytes, GET_INFO) {
            return true;
        }
        bytes.starts_with(&CONTROL)
            && bytes.get(3..7) == Some(&NO_TOKEN)
            && bytes.get(7) == Some(&TOKEN)
    }

    /// Parses a request of a Teeworlds client.
    ///
    /// # Errors
    ///
    /// Names the field that is missing, too long or of another protocol, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        match bytes.first() {
            Some(&SEVEN) => {
                let (server, client) = read_seven_start(&mut r)?;
                r.constant(GET_INFO, "command")?;
                let number = read_integer(&mut r, "number")?;
                r.end()?;
                Ok(Self::Seven {
                    server,
                    client,
                    number,
                })
            }
            Some(&first) if first == CONTROL[0] => {
                r.constant(&CONTROL, "header")?;
                r.constant(&NO_TOKEN, "receiver")?;
                r.constant(&[TOKEN], "kind")?;
                let client = read_token(&mut r, "client token")?;
                if client == NO_TOKEN {
                    return Err(Error::bad(
                        "client token",
                        8,
                        "a token other than FF FF FF FF",
                    ));
                }
                let padding = (TOKEN_REQUEST - 12).max(r.remaining());
                r.raw(padding, "padding")?;
                Ok(Self::Token { client })
            }
            Some(&first) if first == EXTENDED[0] => {
                r.constant(&EXTENDED, "header")?;
                let extra = r.u16_be("extra token")?;
                r.raw(2, "reserved")?;
                r.constant(&MARK, "header")?;
                r.constant(GET_INFO, "command")?;
                let token = r.u8("token")?;
                r.end()?;
                Ok(Self::Extended {
                    token: u32::from(extra) << 8 | u32::from(token),
                })
            }
            _ => Self::read_plain(&mut r),
        }
    }

    fn read_plain(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        r.constant(&CONNECTIONLESS, "header")?;
        let at = r.at();
        let letters: [u8; 4] = r.array("command")?;
        let is = |known: &[u8; 4]| letters == *known;
        let is_known = [GET_FIVE_PLAIN, GET_FIVE, GET_INFO, GET_SIXTY_FOUR]
            .into_iter()
            .any(is);
        if !is_known {
            return Err(Error::bad("command", at, "gief, gie2, gie3 or fstd"));
        }
        r.note(at, "command", || format!("{:?}", by_content(&letters).0));
        let token = if is(GET_FIVE_PLAIN) {
            None
        } else {
            Some(r.u8("token")?)
        };
        r.end()?;
        Ok(match token {
            Some(token) if is(GET_INFO) => Self::Six { token },
            Some(token) if is(GET_SIXTY_FOUR) => Self::SixtyFour { token },
            token => Self::Five { token },
        })
    }
}

/// Returns whether bytes start like a message of 0.7 with these letters.
fn is_seven(bytes: &[u8], letters: &[u8; 4]) -> bool {
    let start = bytes.first() == Some(&SEVEN) && bytes.get(9..13) == Some(&MARK);
    start && bytes.get(13..17) == Some(letters)
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// 0.5.
    Five,
    /// 0.6: at most 16 clients.
    #[default]
    Six,
    /// 64 players: 24 in a datagram.
    SixtyFour,
    /// Extended: all clients.
    Extended,
    /// 0.7.
    Seven,
}

impl Form {
    /// Returns the name, as the status has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Five => "0.5",
            Self::Six => "0.6",
            Self::SixtyFour => "0.6-64",
            Self::Extended => "0.6-extended",
            Self::Seven => "0.7",
        }
    }
}

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each reply"
)]
pub enum Reply<'a> {
    /// Server and clients.
    Info(Info<'a>),
    /// Further clients of an extended reply.
    More {
        /// Returned token.
        token: Option<i64>,
        /// Number of the datagram, 1 to 63.
        number: i64,
        /// Further clients.
        list: Vec<Client<'a>>,
    },
    /// A token of 0.7.
    Token {
        /// Token of the client.
        client: Token,
        /// Token of the server.
        server: Token,
    },
}

/// Server and clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info<'a> {
    /// Form of the reply.
    pub form: Form,
    /// Returned token or number.
    pub token: Option<i64>,
    /// Tokens of client and server (0.7).
    pub tokens: [Token; 2],
    /// Version of the server.
    pub version: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the host (0.7).
    pub host: &'a [u8],
    /// Name of the current map.
    pub map: &'a [u8],
    /// CRC-32 of the map (extended).
    pub map_crc: Option<i64>,
    /// Size of the map in bytes (extended).
    pub map_size: Option<i64>,
    /// Game type, as the server names it.
    pub game_type: &'a [u8],
    /// Bits: 1 is a password, 2 in 0.7 is a score in time.
    pub flags: Option<i64>,
    /// Progress of the match (0.5).
    pub progression: Option<i64>,
    /// Level of skill (0.7).
    pub skill: Option<i64>,
    /// Clients that play.
    pub players: Option<i64>,
    /// Maximum of clients that play.
    pub max_players: Option<i64>,
    /// All clients. Absent in 0.5.
    pub clients: Option<i64>,
    /// Maximum of clients. Absent in 0.5.
    pub max_clients: Option<i64>,
    /// Number of the first client (64 players).
    pub offset: i64,
    /// Text without a defined meaning (extended).
    pub reserved: &'a [u8],
    /// Clients in this datagram.
    pub list: Vec<Client<'a>>,
}

/// A client: a player, spectator or bot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client<'a> {
    /// Name of the player.
    pub name: &'a [u8],
    /// Clan of the player.
    pub clan: &'a [u8],
    /// Country by ISO 3166-1, or -1.
    pub country: Option<i64>,
    /// Score: points, or negative seconds.
    pub score: Option<i64>,
    /// 0.6: whether the client plays. 0.7: 0 plays, 1 watches, 2 is a bot.
    pub kind: Option<i64>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let is_text = bytes.get(6..PREFIX) == Some(&MARK)
            && bytes.first() != Some(&SEVEN)
            && Self::letters(bytes).is_some();
        is_text || is_seven(bytes, INFO) || Self::is_token(bytes)
    }

    /// Returns whether bytes have the shape of a token reply.
    fn is_token(bytes: &[u8]) -> bool {
        bytes.len() == 12
            && bytes.starts_with(&CONTROL)
            && bytes.get(3..7) != Some(&NO_TOKEN)
            && bytes.get(7) == Some(&TOKEN)
    }

    /// Returns the letters of a message of 0.5 or 0.6.
    fn letters(bytes: &[u8]) -> Option<&[u8]> {
        let letters = bytes.get(PREFIX..PREFIX + 4)?;
        let known = [
            FIVE_PLAIN,
            FIVE,
            INFO,
            SIXTY_FOUR,
            EXTENDED_INFO,
            EXTENDED_MORE,
        ];
        known
            .into_iter()
            .any(|known| letters == known)
            .then_some(letters)
    }

    /// Parses a reply of a Teeworlds server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        if bytes.first() == Some(&SEVEN) {
            return read_seven(&mut r).map(Self::Info);
        }
        if Self::is_token(bytes) {
            r.constant(&CONTROL, "header")?;
            let client = read_token(&mut r, "client token")?;
            r.constant(&[TOKEN], "kind")?;
            let server = read_token(&mut r, "server token")?;
            return Ok(Self::Token { client, server });
        }
        r.raw(6, "header")?;
        r.constant(&MARK, "header")?;
        let at = r.at();
        let letters: [u8; 4] = r.array("command")?;
        r.note(at, "command", || format!("{:?}", by_content(&letters).0));
        let form = match &letters {
            EXTENDED_MORE => return read_more(&mut r),
            FIVE_PLAIN | FIVE => Form::Five,
            INFO => Form::Six,
            SIXTY_FOUR => Form::SixtyFour,
            EXTENDED_INFO => Form::Extended,
            _ => {
                let expected = "info, inf2, inf3, dtsf, iext or iex+";
                return Err(Error::bad("command", at, expected));
            }
        };
        read_info(&mut r, form, letters != *FIVE_PLAIN).map(Self::Info)
    }
}

/// Reads a reply of 0.5 or 0.6.
fn read_info<'a>(r: &mut Reader<'a, '_>, form: Form, has_token: bool) -> Result<Info<'a>, Error> {
    let mut info = Info {
        form,
        ..Info::default()
    };
    if has_token {
        info.token = number(r, "token")?;
    }
    info.version = text(r, "version")?;
    info.name = text(r, "name")?;
    info.map = text(r, "map")?;
    if form == Form::Extended {
        info.map_crc = number(r, "map CRC")?;
        info.map_size = number(r, "map size")?;
    }
    info.game_type = text(r, "game type")?;
    info.flags = number(r, "flags")?;
    if form == Form::Five {
        info.progression = number(r, "progression")?;
    }
    info.players = number(r, "players")?;
    info.max_players = number(r, "max players")?;
    if form != Form::Five {
        info.clients = clients(r, number)?;
        info.max_clients = number(r, "max clients")?;
    }
    match form {
        Form::SixtyFour => info.offset = read_integer(r, "offset")?.into(),
        Form::Extended => info.reserved = text(r, "reserved")?,
        Form::Five | Form::Six | Form::Seven => {}
    }
    info.list = list(r, form, 0)?;
    Ok(info)
}

fn read_more<'a>(r: &mut Reader<'a, '_>) -> Result<Reply<'a>, Error> {
    let token = number(r, "token")?;
    let at = r.at();
    let number = number(r, "packet number")?;
    let number = number
        .filter(|number| (1..=MAX_MORE).contains(number))
        .ok_or(Error::bad("packet number", at, "a number from 1 to 63"))?;
    text(r, "reserved")?;
    Ok(Reply::More {
        token,
        number,
        list: list(r, Form::Extended, 0)?,
    })
}

fn read_seven<'a>(r: &mut Reader<'a, '_>) -> Result<Info<'a>, Error> {
    let (client, server) = read_seven_start(r)?;
    r.constant(INFO, "command")?;
    let integer = |r: &mut Reader<'a, '_>, field| read_integer(r, field).map(i64::from).map(Some);
    let token = integer(r, "number")?;
    let version = text(r, "version")?;
    let name = text(r, "name")?;
    let host = text(r, "host")?;
    let map = text(r, "map")?;
    let game_type = text(r, "game type")?;
    let mut info = Info {
        form: Form::Seven,
        token,
        tokens: [client, server],
        version,
        name,
        host,
        map,
        game_type,
        flags: integer(r, "flags")?,
        skill: integer(r, "skill level")?,
        players: integer(r, "players")?,
        max_players: integer(r, "max players")?,
        clients: clients(r, integer)?,
        max_clients: integer(r, "max clients")?,
        ..Info::default()
    };
    // Servers count the listed clients only.
    let counted = info
        .clients
        .and_then(|clients| usize::try_from(clients).ok());
    info.list = list(r, Form::Seven, counted.unwrap_or(0))?;
    Ok(info)
}

/// Reads the start of a message of 0.7: the tokens of receiver and sender.
fn read_seven_start(r: &mut Reader<'_, '_>) -> Result<(Token, Token), Error> {
    r.constant(&[SEVEN], "header")?;
    let receiver = read_token(r, "receiver's token")?;
    let sender = read_token(r, "sender's token")?;
    r.constant(&MARK, "header")?;
    Ok((receiver, sender))
}

fn read_token(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Token, Error> {
    let at = r.at();
    let token = r.array(field)?;
    r.note(at, field, || crate::wire::hexadecimal(&token));
    Ok(token)
}

/// Reads the number of clients with `read`.
fn clients<'a, 'n>(
    r: &mut Reader<'a, 'n>,
    read: impl FnOnce(&mut Reader<'a, 'n>, &'static str) -> Result<Option<i64>, Error>,
) -> Result<Option<i64>, Error> {
    let at = r.at();
    let clients = read(r, "clients")?;
    if clients.is_some_and(|clients| clients > MAX_CLIENTS as i64) {
        return Err(Error::limit("clients", at, MAX_CLIENTS));
    }
    Ok(clients)
}

/// Reads clients up to the end of the datagram, or up to one that is incomplete. A list that is not
/// empty has at least `least` clients.
fn list<'a>(r: &mut Reader<'a, '_>, form: Form, least: usize) -> Result<Vec<Client<'a>>, Error> {
    let mut list = Vec::new();
    while r.remaining() > 0 || (1..least).contains(&list.len()) {
        let at = r.at();
        if list.len() == MAX_CLIENTS {
            return Err(Error::limit("client", at, MAX_CLIENTS));
        }
        r.notes().group("clients", list.len());
        match read_client(r, form) {
            Ok(client) => list.push(client),
            Err(error) if list.len() < least => return Err(error),
            Err(_) => {
                r.notes().deviation(&CUT_LIST, at);
                break;
            }
        }
    }
    r.notes().ungroup();
    Ok(list)
}

fn read_client<'a>(r: &mut Reader<'a, '_>, form: Form) -> Result<Client<'a>, Error> {
    let mut client = Client {
        name: text(r, "name")?,
        ..Client::default()
    };
    match form {
        Form::Five => client.score = number(r, "score")?,
        Form::Seven => {
            client.clan = text(r, "clan")?;
            client.country = Some(read_integer(r, "country")?.into());
            client.score = Some(read_integer(r, "score")?.into());
            client.kind = Some(read_integer(r, "kind")?.into());
        }
        Form::Six | Form::SixtyFour | Form::Extended => {
            client.clan = text(r, "clan")?;
            client.country = number(r, "country")?;
            client.score = number(r, "score")?;
            client.kind = number(r, "is player")?;
        }
    }
    if form == Form::Extended {
        text(r, "reserved")?;
    }
    Ok(client)
}

/// Reads a text up to its NUL.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = first_nul(r.rest()).unwrap_or(r.remaining());
    let text = r.take(length + 1, field)?;
    let text = text.get(..length).unwrap_or_default();
    r.note(at, field, || format!("{:?}", by_content(text).0));
    Ok(text)
}

/// Reads a number in decimal, as a text up to its NUL. Other text is a deviation.
fn number(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Option<i64>, Error> {
    let at = r.at();
    let number = whole_number(text(r, field)?);
    if number.is_none() {
        r.notes().deviation(&ODD_NUMBER, at);
    }
    Ok(number)
}

/// Reads a variable-length integer (spec/teeworlds.md#5).
///
/// # Errors
///
/// Fails if the datagram ends too early, or the integer has more than 5 bytes.
pub fn read_integer(r: &mut Reader<'_, '_>, field: &'static str) -> Result<i32, Error> {
    const MAX_BYTES: usize = 5;
    let at = r.at();
    let [first] = r.array(field)?;
    let mut value = u32::from(first & 0x3F);
    let mut last = first;
    for place in 1..MAX_BYTES {
        if last & 0x80 == 0 {
            break;
        }
        [last] = r.array(field)?;
        value |= u32::from(last & 0x7F) << (7 * place - 1);
    }
    if last & 0x80 != 0 {
        return Err(Error::bad(field, at, "an integer of at most 5 bytes"));
    }
    let value = match first & 0x40 {
        0 => value as i32,
        _ => !(value as i32),
    };
    r.note(at, field, || value.to_string());
    Ok(value)
}

/// Appends a variable-length integer.
pub fn write_integer(value: i32, out: &mut Vec<u8>) {
    let sign = if value < 0 { 0x40 } else { 0 };
    let mut rest = (if value < 0 { !value } else { value }) as u32;
    let more = |rest: u32| if rest > 0 { 0x80 } else { 0 };
    let low = (rest & 0x3F) as u8;
    rest >>= 6;
    out.push(low | sign | more(rest));
    while rest > 0 {
        let low = (rest & 0x7F) as u8;
        rest >>= 7;
        out.push(low | more(rest));
    }
}

/// Appends the start of a reply of 0.5 or 0.6, up to the token.
pub fn write_start(form: Form, token: Option<u32>, out: &mut Vec<u8>) {
    out.extend(CONNECTIONLESS);
    out.extend(match (form, token) {
        (Form::Five, None) => FIVE_PLAIN,
        (Form::Five, Some(_)) => FIVE,
        (Form::SixtyFour, _) => SIXTY_FOUR,
        (Form::Extended, _) => EXTENDED_INFO,
        (Form::Six | Form::Seven, _) => INFO,
    });
    let Some(token) = token else { return };
    let start = out.len();
    let mut rest = token;
    loop {
        out.insert(start, b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push(0);
}

/// Appends the start of a reply of 0.7, up to the number.
pub fn write_seven_start(client: Token, server: Token, number: i32, out: &mut Vec<u8>) {
    out.push(SEVEN);
    out.extend(client);
    out.extend(server);
    out.extend(MARK);
    out.extend(INFO);
    write_integer(number, out);
}

/// Appends a token reply.
pub fn write_token(client: Token, server: Token, out: &mut Vec<u8>) {
    out.extend(CONTROL);
    out.extend(client);
    out.push(TOKEN);
    out.extend(server);
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let found = if Request::is_request(bytes) {
        Direction::Request
    } else if Reply::is_reply(bytes) {
        Direction::Reply
    } else {
        return None;
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => {
            let error = Request::read(bytes, notes).err();
            let letters = bytes.get(PREFIX..PREFIX + 4).unwrap_or_default();
            let message = match bytes.first() {
                Some(&SEVEN) => "0.7 request",
                Some(&first) if first == CONTROL[0] => "token request",
                Some(&first) if first == EXTENDED[0] => "extended request",
                _ if letters == GET_INFO => "0.6 request",
                _ if letters == GET_SIXTY_FOUR => "64-player request",
                _ => "0.5 request",
            };
            (message, error)
        }
        Direction::Reply => {
            let error = Reply::read(bytes, notes).err();
            let letters = Reply::letters(bytes).unwrap_or_default();
            let message = match bytes.first() {
                Some(&SEVEN) => "0.7 reply",
                _ if Reply::is_token(bytes) => "token reply",
                _ if letters == INFO => "0.6 reply",
                _ if letters == SIXTY_FOUR => "64-player reply",
                _ if letters == EXTENDED_INFO => "extended reply",
                _ if letters == EXTENDED_MORE => "extended list",
                _ => "0.5 reply",
            };
            (message, error)
        }
    };
    Some(Explanation {
        message,
        direction: found,
        is_certain: !Reply::is_token(bytes),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_seven_ends_only_before_or_after_its_list() {
        let bytes = b"!HAIL\xA1\xB2\xC3\xD4\xFF\xFF\xFF\xFFinf3\x88\x010.7.5\0Test\0\0ctf5\0CTF\0\
            \x01\x01\x01\x10\x02\x10Al\0clan\0\x94\x04\x0C\0Bo\0\0\x40\x42\x01";
        let is_read = |end: &usize| {
            read_seven(&mut Reader::new(&bytes[..*end], &mut Notes::default())).is_ok()
        };
        let ends: Vec<usize> = (0..=bytes.len()).filter(is_read).collect();
        // Servers above their limit of replies leave out the whole list.
        assert_eq!(ends, [bytes.len() - 19, bytes.len()]);
    }

    #[test]
    fn integers_both_ways() {
        let mut out = Vec::new();
        let values = [0, 63, 64, -1, 8_303, -65];
        values
            .into_iter()
            .for_each(|value| write_integer(value, &mut out));
        let bytes = [0x00, 0x3F, 0x80, 0x01, 0x40, 0xAF, 0x81, 0x01, 0xC0, 0x01];
        assert_eq!(out, bytes);
        for value in values
            .into_iter()
            .chain([i32::MAX, i32::MIN, 1 << 27, -(1 << 20)])
        {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            let mut notes = Notes::default();
            let mut r = Reader::new(&out, &mut notes);
            assert_eq!(read_integer(&mut r, "x"), Ok(value));
            assert_eq!(r.remaining(), 0);
            for end in 0..out.len() {
                let mut notes = Notes::default();
                let mut r = Reader::new(&out[..end], &mut notes);
                assert!(read_integer(&mut r, "x").is_err());
            }
        }
        let mut notes = Notes::default();
        let six = [0x80, 0x80, 0x80, 0x80, 0x80, 0];
        let error = read_integer(&mut Reader::new(&six, &mut notes), "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "x at offset 0: expected an integer of at most 5 bytes"
        );
    }

    #[test]
    fn requests_both_ways() {
        for request in [
            Request::Five { token: None },
            Request::Five { token: Some(7) },
            Request::Six { token: 0 },
            Request::SixtyFour { token: 255 },
            Request::Extended { token: 0x12_3448 },
            Request::Token { client: *b"HAIL" },
            Request::Seven {
                server: *b"ABCD",
                client: *b"HAIL",
                number: 72,
            },
        ] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert!(Request::is_request(&out), "{request:?}");
            assert!(!Reply::is_reply(&out), "{request:?}");
            assert_eq!(Request::read(&out, &mut Notes::default()), Ok(request));
            for end in 0..out.len() {
                let cut = Request::read(&out[..end], &mut Notes::default());
                assert!(cut.is_err(), "{request:?} {end}");
            }
        }
    }

    #[test]
    fn tokens_are_decimal() {
        for (token, expected) in [(0, "0"), (72, "72"), (1_193_032, "1193032")] {
            let mut out = Vec::new();
            write_start(Form::Extended, Some(token), &mut out);
            assert_eq!(
                out.get(14..),
                Some([expected.as_bytes(), b"\0"].concat().as_slice())
            );
        }
    }
}
