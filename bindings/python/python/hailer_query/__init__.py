"""Queries game servers: one, many, or a million in a sweep, in every common protocol.

>>> import hailer_query
>>> answer = hailer_query.query("minecraft://play.example.com")  # doctest: +SKIP
>>> print(answer.title, answer.status.players.online)  # doctest: +SKIP

- ``query`` and ``aquery`` query one server, ``query_many`` several.
- ``sweep`` queries any number at a limited rate.
- ``discover`` finds servers on the local network.
- ``decode`` explains a datagram.

Answers are dataclasses, failures are subclasses of ``QueryError``.
"""

from ._api import Depth, Results, aquery, decode, discover, query, query_many, sweep
from ._errors import (
    InvalidReplyError,
    PortClosedError,
    QueryError,
    RefusedError,
    ResolveError,
    SilenceError,
    TargetError,
    UnreachableError,
)
from ._native import RecordBatch, Result, __version__
from ._types import (
    Answer,
    Datagram,
    DatagramDeviation,
    DatagramError,
    DatagramField,
    Player,
    Players,
    Progress,
    Rule,
    ServerAddress,
    Status,
    Text,
)

__all__ = [
    "Answer",
    "Datagram",
    "DatagramDeviation",
    "DatagramError",
    "DatagramField",
    "Depth",
    "InvalidReplyError",
    "Player",
    "Players",
    "PortClosedError",
    "Progress",
    "QueryError",
    "RecordBatch",
    "RefusedError",
    "ResolveError",
    "Result",
    "Results",
    "Rule",
    "ServerAddress",
    "SilenceError",
    "Status",
    "TargetError",
    "Text",
    "UnreachableError",
    "__version__",
    "aquery",
    "decode",
    "discover",
    "query",
    "query_many",
    "sweep",
]
