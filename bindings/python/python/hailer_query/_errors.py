"""Exceptions of queries, one class for each cause that a program can act on."""

from __future__ import annotations

from typing import Any, Mapping

from ._types import SCHEMA


class QueryError(Exception):
    """A query without an answer. Subclasses group the causes; ``kind`` is the exact one, as in the tool's JSON."""

    #: Cause, such as ``silence`` or ``port-closed``.
    kind: str
    #: One sentence for users.
    message: str
    #: The target as typed. In a sweep, an address is written as ``protocol://address:port``.
    target: str
    #: Id of the protocol; if several were tried, that of the most informative failure. ``None`` if nothing was sent.
    protocol: str | None
    #: Address and port of the query. ``None`` if nothing was sent.
    address: str | None
    datagrams_sent: int | None
    datagrams_received: int | None
    #: Names of the endpoints that the server refused.
    refused: tuple[str, ...]
    #: Bytes of an invalid message around its fault.
    datagram: bytes | None
    #: If these are not all bytes: the offset of the first one.
    datagram_offset: int | None
    #: If these are not all bytes: the length of the message.
    datagram_bytes: int | None
    #: The failure in each protocol, if several were tried, the most informative first.
    failures: tuple[QueryError, ...]

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        target: str = "",
        protocol: str | None = None,
        address: str | None = None,
        datagrams_sent: int | None = None,
        datagrams_received: int | None = None,
        refused: tuple[str, ...] = (),
        datagram: bytes | None = None,
        datagram_offset: int | None = None,
        datagram_bytes: int | None = None,
        failures: tuple[QueryError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.target = target
        self.protocol = protocol
        self.address = address
        self.datagrams_sent = datagrams_sent
        self.datagrams_received = datagrams_received
        self.refused = refused
        self.datagram = datagram
        self.datagram_offset = datagram_offset
        self.datagram_bytes = datagram_bytes
        self.failures = failures

    def __str__(self) -> str:
        return self.message

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.kind, self.message, self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        members = {key: value for key, value in self.__dict__.items() if key in _MEMBERS}
        return _restore, (type(self), self.message, members)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON object that ``hailer query --json`` prints."""
        error: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.datagram is not None:
            error["datagram"] = self.datagram.hex()
        if self.datagram_offset is not None:
            error["datagram_offset"] = self.datagram_offset
        if self.datagram_bytes is not None:
            error["datagram_bytes"] = self.datagram_bytes
        return {
            "schema": SCHEMA,
            "target": self.target,
            "ok": False,
            "protocol": self.protocol,
            "address": self.address,
            "latency_ms": None,
            "title": None,
            "datagrams_sent": self.datagrams_sent,
            "datagrams_received": self.datagrams_received,
            "refused": list(self.refused),
            "status": None,
            "error": error,
        }

    @staticmethod
    def from_dict(line: Mapping[str, Any]) -> QueryError:
        """Returns the exception of a JSON object of ``hailer query --json`` or ``hailer sweep --json``.

        Raises ``ValueError`` if the object is no failure.
        """
        if line.get("schema") != SCHEMA or line.get("ok") is not False:
            raise ValueError(f"no failure of schema {SCHEMA}")
        error = line["error"]
        datagram = error.get("datagram")
        return make_error(
            error["kind"],
            error["message"],
            line["target"],
            line["protocol"],
            line["address"],
            line["datagrams_sent"],
            line["datagrams_received"],
            tuple(line["refused"]),
            None if datagram is None else bytes.fromhex(datagram),
            error.get("datagram_offset"),
            error.get("datagram_bytes"),
            (),
        )


class TargetError(QueryError, ValueError):
    """The target is invalid (``target``), or the sweep excludes the address of its name (``excluded``)."""


class ResolveError(QueryError, OSError):
    """The name has no address (``name-not-found``), or could not be looked up (``lookup``)."""


class UnreachableError(QueryError, OSError):
    """There is no route to the address, or TLS fails (``unreachable``)."""


class PortClosedError(UnreachableError, ConnectionRefusedError):
    """The host reports that nothing listens on the port (``port-closed``)."""


class SilenceError(QueryError, TimeoutError):
    """No reply arrived, or not all of them (``silence``)."""


class RefusedError(QueryError):
    """The server refused to answer (``refused``)."""


class InvalidReplyError(QueryError):
    """A reply is no valid message (``malformed``), too long (``flood``), or deviates with ``strict`` (``deviates``)."""


_CLASSES: dict[str, type[QueryError]] = {
    "target": TargetError,
    "excluded": TargetError,
    "name-not-found": ResolveError,
    "lookup": ResolveError,
    "unreachable": UnreachableError,
    "port-closed": PortClosedError,
    "silence": SilenceError,
    "refused": RefusedError,
    "malformed": InvalidReplyError,
    "flood": InvalidReplyError,
    "deviates": InvalidReplyError,
}

_MEMBERS = frozenset(QueryError.__annotations__) - {"message"}


def _restore(error: type[QueryError], message: str, members: dict[str, Any]) -> QueryError:
    return error(message, **members)


def make_error(
    kind: str,
    message: str,
    target: str,
    protocol: str | None,
    address: str | None,
    datagrams_sent: int | None,
    datagrams_received: int | None,
    refused: tuple[str, ...],
    datagram: bytes | None,
    datagram_offset: int | None,
    datagram_bytes: int | None,
    failures: tuple[QueryError, ...],
) -> QueryError:
    """Returns the exception of a failed query, in the class of its kind."""
    return _CLASSES.get(kind, QueryError)(
        message,
        kind=kind,
        target=target,
        protocol=protocol,
        address=address,
        datagrams_sent=datagrams_sent,
        datagrams_received=datagrams_received,
        refused=refused,
        datagram=datagram,
        datagram_offset=datagram_offset,
        datagram_bytes=datagram_bytes,
        failures=failures,
    )
