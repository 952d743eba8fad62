"""Dataclasses of answers. Their members and values are those of the tool's JSON (``schema/answer-v2.json``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

SCHEMA = "hailer/answer/2"


@dataclass(slots=True)
class Text:
    """Text of a server, which may have color codes. ``str()`` returns ``plain``."""

    #: Without codes and control characters.
    plain: str
    #: As received.
    raw: str

    def __str__(self) -> str:
        return self.plain


@dataclass(slots=True)
class Player:
    """A player of a server. Members that the protocol lacks are ``None``."""

    #: Name shown in the game.
    name: Text
    #: UUID of the account, in lower case with hyphens.
    uuid: str | None = None
    #: Points, kills or another score, as received.
    score: int | None = None
    #: Time since the player joined, in seconds.
    time_s: float | None = None
    #: Name or number of the player's team.
    team: str | None = None
    #: Latency between player and server, as measured by the server, in milliseconds.
    latency_ms: int | None = None
    #: Members of this protocol only.
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Players:
    """Player counts and the player list."""

    #: Players online as reported; can differ from the length of the list.
    online: int | None = None
    #: Maximum number of players.
    max: int | None = None
    #: Number of bots, which ``online`` may include or not.
    bots: int | None = None
    #: How complete ``list`` is: ``absent``, ``refused``, ``partial``, ``whole`` or ``sample``.
    roster: str = "absent"
    #: The players, in the order of the reply.
    list: list[Player] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the listed players, without codes."""
        return tuple(player.name.plain for player in self.list)


@dataclass(slots=True)
class Rule:
    """A setting that the owner publishes."""

    key: str
    value: str


@dataclass(slots=True)
class ServerAddress:
    """An address in the configuration of a server, often a private one."""

    host: str | None = None
    #: Port of the game, not necessarily that of the query.
    port: int | None = None


@dataclass(slots=True)
class Status:
    """The status that a server reports. Members that the protocol lacks, or the server leaves out, are ``None``."""

    #: Name of the server.
    name: Text | None = None
    #: Message of the day.
    motd: Text | None = None
    #: Game, as the server reports it.
    game: str | None = None
    #: Game mode, as the server names it.
    mode: str | None = None
    #: Name of the map or world.
    map: str | None = None
    #: Version of game or server.
    version: str | None = None
    #: Player counts and list.
    players: Players = field(default_factory=Players)
    #: Settings that the owner publishes, in the order of the reply.
    rules: list[Rule] = field(default_factory=list)
    #: Address in the configuration of the server.
    address: ServerAddress | None = None
    #: Whether players need a password to join.
    password: bool | None = None
    #: Whether the server uses the anti-cheat software of its platform, such as VAC.
    anti_cheat: bool | None = None
    #: Icon as a ``data:`` URI.
    icon: str | None = None
    #: Members of this protocol only.
    extra: dict[str, Any] = field(default_factory=dict)
    #: Names of the accepted deviations from the protocol.
    deviations: tuple[str, ...] = ()

    def rule(self, key: str) -> str | None:
        """Returns the value of the first rule with this key."""
        return next((rule.value for rule in self.rules if rule.key == key), None)


@dataclass(slots=True)
class Answer:
    """Answer of a server."""

    #: The target as typed. In a sweep, an address is written as ``protocol://address:port``.
    target: str
    #: Id of the protocol, such as ``a2s`` or ``minecraft-status``.
    protocol: str
    #: Address and port that the query was sent to, IPv6 in brackets.
    address: str
    #: Shortest time between a request and its reply, in milliseconds with at most 3 decimals.
    latency_ms: float
    #: Name of the server without codes, or else the first readable line of the message of the day.
    title: str | None
    #: Datagrams sent, retries included; over TCP, requests.
    datagrams_sent: int
    #: Datagrams received; over TCP, messages.
    datagrams_received: int
    #: Names of the endpoints that the server refused, although others replied.
    refused: tuple[str, ...]
    #: The status that the server reports.
    status: Status
    #: Ids of the protocols of the members that are not from ``protocol``, such as ``players.list``.
    sources: dict[str, str] = field(default_factory=dict)
    #: Explanations for users, one sentence each.
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON object that ``hailer query --json`` prints."""
        line: dict[str, Any] = {
            "schema": SCHEMA,
            "target": self.target,
            "ok": True,
            "protocol": self.protocol,
            "address": self.address,
            "latency_ms": self.latency_ms,
            "title": self.title,
            "datagrams_sent": self.datagrams_sent,
            "datagrams_received": self.datagrams_received,
            "refused": list(self.refused),
            "status": _status_to_dict(self.status),
            "error": None,
        }
        if self.sources:
            line["sources"] = dict(self.sources)
        if self.notes:
            line["notes"] = list(self.notes)
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Answer:
        """Returns the answer of a JSON object of ``hailer query --json`` or ``hailer sweep --json``.

        Raises ``ValueError`` if the object is not an answer; ``QueryError.from_dict`` reads failures.
        """
        if line.get("schema") != SCHEMA or not line.get("ok"):
            raise ValueError(f"no answer of schema {SCHEMA}")
        return cls(
            target=line["target"],
            protocol=line["protocol"],
            address=line["address"],
            latency_ms=line["latency_ms"],
            title=line["title"],
            datagrams_sent=line["datagrams_sent"],
            datagrams_received=line["datagrams_received"],
            refused=tuple(line["refused"]),
            status=_status_from_dict(line["status"]),
            sources=dict(line.get("sources", {})),
            notes=tuple(line.get("notes", ())),
        )


def _present(**members: Any) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _text_to_dict(text: Text | None) -> dict[str, str] | None:
    return None if text is None else {"plain": text.plain, "raw": text.raw}


def _text_from_dict(text: Mapping[str, str] | None) -> Text | None:
    return None if text is None else Text(text["plain"], text["raw"])


def _player_to_dict(player: Player) -> dict[str, Any]:
    return {
        "name": _text_to_dict(player.name),
        **_present(
            uuid=player.uuid,
            score=player.score,
            time_s=player.time_s,
            team=player.team,
            latency_ms=player.latency_ms,
            extra=player.extra or None,
        ),
    }


def _status_to_dict(status: Status) -> dict[str, Any]:
    players = status.players
    address = status.address
    return {
        "name": _text_to_dict(status.name),
        "motd": _text_to_dict(status.motd),
        "game": status.game,
        "mode": status.mode,
        "map": status.map,
        "version": status.version,
        "players": {
            "online": players.online,
            "max": players.max,
            **_present(bots=players.bots),
            "roster": players.roster,
            "list": [_player_to_dict(player) for player in players.list],
        },
        "rules": [{"key": rule.key, "value": rule.value} for rule in status.rules],
        "address": None if address is None else {"host": address.host, "port": address.port},
        **_present(password=status.password, anti_cheat=status.anti_cheat, icon=status.icon),
        "extra": status.extra,
        "deviations": list(status.deviations),
    }


def _status_from_dict(status: Mapping[str, Any]) -> Status:
    players = status["players"]
    address = status["address"]
    listed = [
        Player(
            Text(player["name"]["plain"], player["name"]["raw"]),
            player.get("uuid"),
            player.get("score"),
            player.get("time_s"),
            player.get("team"),
            player.get("latency_ms"),
            dict(player.get("extra", {})),
        )
        for player in players["list"]
    ]
    return Status(
        _text_from_dict(status["name"]),
        _text_from_dict(status["motd"]),
        status["game"],
        status["mode"],
        status["map"],
        status["version"],
        Players(players["online"], players["max"], players.get("bots"), players["roster"], listed),
        [Rule(rule["key"], rule["value"]) for rule in status["rules"]],
        None if address is None else ServerAddress(address["host"], address["port"]),
        status.get("password"),
        status.get("anti_cheat"),
        status.get("icon"),
        dict(status["extra"]),
        tuple(status["deviations"]),
    )


@dataclass(slots=True)
class Progress:
    """Progress of a sweep, of several queries or of a search."""

    #: Number of queries, or ``None`` if it is not known.
    total: int | None
    #: Queries started.
    probes: int
    #: Queries that ended with an answer.
    answered: int
    #: Queries that timed out.
    timed_out: int
    #: Queries whose port is closed.
    port_closed: int
    #: Queries whose host is unreachable.
    unreachable: int
    #: Queries that ended with a malformed, oversized, refused or disallowed reply.
    invalid: int
    #: Targets whose names did not resolve.
    unresolved: int
    #: Datagrams sent; over TCP, requests.
    datagrams_sent: int
    #: Payload sent in a sweep, in bytes.
    bytes_sent: int
    #: Datagrams received; over TCP, messages.
    datagrams_received: int
    #: Payload received in a sweep, in bytes.
    bytes_received: int
    #: Datagrams that a sweep sent again because no reply arrived.
    datagrams_resent: int
    #: Datagrams that a sweep lost because its receive queue was full.
    dropped_datagrams: int
    #: Queries of a sweep that are not finished.
    in_flight: int
    #: Targets of a sweep that were given more than once.
    duplicates: int
    #: Targets of a sweep that are excluded.
    excluded: int
    #: Targets of a sweep that no server can have.
    reserved: int

    @property
    def finished(self) -> int:
        """Number of finished queries."""
        failed = self.timed_out + self.port_closed + self.unreachable + self.invalid + self.unresolved
        return self.answered + failed


@dataclass(slots=True)
class DatagramField:
    """An explained field of a datagram."""

    #: Offset of the first byte.
    start: int
    #: Offset after the last byte.
    end: int
    #: Name on the page of the protocol, with the index in a repeated group.
    name: str
    #: Value in readable form; ``not shown`` if it is secret.
    value: str


@dataclass(slots=True)
class DatagramDeviation:
    """An accepted deviation from the protocol."""

    name: str
    #: Offset in the datagram.
    offset: int
    #: What the sender does: one sentence.
    help: str


@dataclass(slots=True)
class DatagramError:
    """The first error of a datagram."""

    field: str
    #: Offset in the datagram.
    offset: int
    message: str


@dataclass(slots=True)
class Datagram:
    """An explained datagram, as ``hailer decode`` prints it."""

    #: Id of the protocol, or ``None`` if no protocol has such datagrams.
    protocol: str | None
    #: Name of the message.
    message: str | None
    #: ``request`` or ``reply``.
    direction: str | None
    #: Whether a magic number identifies the protocol; otherwise it is a guess by shape.
    is_certain: bool | None
    #: The bytes, with zeros in place of secrets.
    data: bytes
    fields: list[DatagramField] = field(default_factory=list)
    deviations: list[DatagramDeviation] = field(default_factory=list)
    error: DatagramError | None = None
