"""Functions of the package."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Literal

from . import _native
from ._native import RecordBatch, Result
from ._types import Answer, Datagram, DatagramDeviation, DatagramError, DatagramField, Progress

Depth = Literal["full", "basic", "ping"]

#: Results after which a stream lets other tasks of the event loop run.
_TURN = 100


def _text(target: object) -> str:
    if not isinstance(target, str):
        raise TypeError(f"a target is a str such as 'play.example.com:25565', not {type(target).__name__}")
    return target


def _listed(texts: str | Iterable[str] | None) -> list[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else [_text(text) for text in texts]


def query(
    target: str,
    *,
    timeout: float | None = None,
    retries: int | None = None,
    deadline: float | None = None,
    depth: Depth = "full",
    players: bool = True,
    rules: bool = True,
    charset: str | None = None,
    auth_token: str | None = None,
    strict: bool = False,
    source: str | None = None,
    name_server: str | None = None,
) -> Answer:
    """Queries a server and returns its answer.

    >>> import hailer_query
    >>> answer = hailer_query.query("minecraft://play.example.com")  # doctest: +SKIP
    >>> print(answer.title, answer.status.players.online)  # doctest: +SKIP

    The GIL is released meanwhile. ``Ctrl-C`` ends the query.

    Args:
        target: ``HOST``, ``HOST:PORT``, ``PROTOCOL://HOST:PORT`` or ``GAME://HOST:PORT``. Without a protocol or game, the common
            protocols are tried. Follows SRV records where the game has them.
        timeout: Longest time to wait for one reply, in seconds. ``None``: 1.
        retries: Repetitions of a request after timeouts. ``None``: 3.
        deadline: Limit of the whole query without the name lookup, in seconds. ``None``: 10, or as long as all retries.
        depth: ``full``; ``basic``: the short reply of the protocol; ``ping``: only whether the server replies, and its latency.
        players: Whether to request the list of players.
        rules: Whether to request the rules, if the protocol has a separate request for them.
        charset: Character set of texts whose protocol declares none. ``None``: guessed.
        auth_token: Token for protocols that protect their replies.
        strict: Whether an answer that deviates from its protocol is an error.
        source: Local address, or address and port, to send from.
        name_server: Address of a name server, instead of the system's.

    Raises:
        QueryError: There is no answer. Its subclasses group the causes: ``TargetError``, ``ResolveError``, ``UnreachableError``,
            ``PortClosedError``, ``SilenceError``, ``RefusedError``, ``InvalidReplyError``.
        ValueError: An argument is invalid.
    """
    return _native.query(_text(target), _options(locals()))


async def aquery(
    target: str,
    *,
    timeout: float | None = None,
    retries: int | None = None,
    deadline: float | None = None,
    depth: Depth = "full",
    players: bool = True,
    rules: bool = True,
    charset: str | None = None,
    auth_token: str | None = None,
    strict: bool = False,
    source: str | None = None,
    name_server: str | None = None,
) -> Answer:
    """Queries a server without blocking the event loop of asyncio. Arguments, result and exceptions are those of ``query``.

    Cancelling the task ends the query.
    """
    options = _options(locals())
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def done(answer: Answer | None, error: BaseException | None) -> None:
        # Another thread calls this, perhaps after the end of the loop.
        try:
            loop.call_soon_threadsafe(_set, future, answer, error)
        except RuntimeError:
            pass

    task = _native.start_query(_text(target), options, done)
    try:
        return await future
    finally:
        task.cancel()


def _set(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


class Results(Iterator[Result], AsyncIterator[Result]):
    """Results of many queries as they arrive: an iterator and an asynchronous iterator.

    It is also a stream of Arrow record batches (``__arrow_c_stream__``), which pandas, pyarrow, Polars and DuckDB read without
    copies. Each result is delivered once, in whatever way it is taken. At most 8,192 results wait to be taken; then no query starts.

    The queries end when the object is deleted, when ``cancel`` is called, or at the end of a ``with`` block.
    """

    __slots__ = ("_stream", "_taken", "__weakref__")

    def __init__(self, stream: _native.Stream) -> None:
        self._stream = stream
        self._taken = 0

    def __iter__(self) -> Iterator[Result]:
        # The native iterator saves a call for each result.
        return self._stream

    def __next__(self) -> Result:
        return next(self._stream)

    def __aiter__(self) -> AsyncIterator[Result]:
        return self

    async def __anext__(self) -> Result:
        self._taken += 1
        if self._taken % _TURN == 0:
            await asyncio.sleep(0)
        while True:
            result, is_ended = self._stream.try_next()
            if result is not None:
                return result
            if is_ended:
                raise StopAsyncIteration
            await self._wait()

    async def _wait(self) -> None:
        """Waits until there is something to take or to report."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            # Another thread calls this, perhaps after the end of the loop.
            try:
                loop.call_soon_threadsafe(_set, future, None, None)
            except RuntimeError:
                pass

        if self._stream.wake(wake):
            await future

    def cancel(self) -> None:
        """Stops the queries. The results that have arrived can still be taken."""
        self._stream.cancel()

    @property
    def progress(self) -> Progress:
        """The progress so far."""
        return self._stream.progress()

    def batches(self, rows: int = 4_096) -> Iterator[RecordBatch]:
        """Yields the remaining results as Arrow record batches of at most ``rows`` rows.

        A batch has fewer rows at the end, and if results arrive slowly: the first row waits for at most 1 s.
        """
        while (batch := self._stream.next_batch(rows)) is not None:
            yield batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the remaining results as a PyCapsule with an ``ArrowArrayStream``. ``requested_schema`` is ignored."""
        return self._stream.arrow_stream()

    def __arrow_c_schema__(self) -> object:
        """Returns the columns as a PyCapsule with an ``ArrowSchema``."""
        return self._stream.arrow_schema()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Results:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def __repr__(self) -> str:
        progress = self.progress
        total = "?" if progress.total is None else progress.total
        return f"<Results: {progress.finished} of {total} finished, {progress.answered} answered>"


def query_many(
    targets: str | Iterable[str],
    *,
    concurrency: int = 100,
    on_progress: Callable[[Progress], object] | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    deadline: float | None = None,
    depth: Depth = "full",
    players: bool = True,
    rules: bool = True,
    charset: str | None = None,
    auth_token: str | None = None,
    strict: bool = False,
    source: str | None = None,
    name_server: str | None = None,
) -> Results:
    """Queries many servers as ``query`` does, ``concurrency`` at a time, and returns their results as they arrive.

    >>> for result in hailer_query.query_many(["play.example.com", "a2s://192.0.2.7"]):  # doctest: +SKIP
    ...     print(result.target, result.title if result.ok else result.error)

    A failure is a result with an ``error``. For more than about ten thousand servers, or with a rate limit, use ``sweep``.

    Args:
        on_progress: Called with a ``Progress`` by the thread that takes results, when there is a change.

    The other arguments are those of ``query``.
    """
    options = _options(locals())
    return Results(_native.start_query_many(_listed(targets), options, concurrency, on_progress))


def sweep(
    targets: str | Iterable[str],
    *,
    protocols: str | Iterable[str] | None = None,
    game: str | None = None,
    exclude: str | Iterable[str] | None = None,
    rate: float = 1_000.0,
    per_network: float = 50.0,
    bandwidth: float | None = None,
    failures: bool = True,
    on_progress: Callable[[Progress], object] | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    deadline: float | None = None,
    depth: Depth = "full",
    players: bool = True,
    rules: bool = True,
    charset: str | None = None,
    auth_token: str | None = None,
    strict: bool = False,
    source: str | None = None,
    name_server: str | None = None,
    threads: int = 1,
    seed: int = 0,
    shard: tuple[int, int] | None = None,
    max_in_flight: int | None = None,
    max_memory: int | None = None,
) -> Results:
    """Queries any number of servers at a limited rate, each once, in random order.

    >>> with hailer_query.sweep(["a2s://192.0.2.0/24", "play.example.com"], rate=500) as results:  # doctest: +SKIP
    ...     for result in results:
    ...         print(result.target, result.title if result.ok else result.error)

    Servers can take a sweep for an attack: ask their owners first, or keep the default rate.

    Args:
        targets: Targets as of ``query``, and ranges: ``192.0.2.0/24``, ``a2s://192.0.2.1-192.0.2.9:27015``.
        protocols: Ids of the protocols of targets without one. ``None``: the common protocols.
        game: Game of targets without one.
        exclude: Addresses and ranges that are not queried, even if a name leads there.
        rate: Datagrams per second to all servers together.
        per_network: Datagrams per second to one network: an IPv4 /24 or an IPv6 /48.
        bandwidth: Limit in bits per second, with the headers of IP and UDP.
        failures: Whether servers without an answer are results, with an ``error``.
        on_progress: Called with a ``Progress`` by the thread that takes results, about every 100 ms.
        retries: Repetitions of a request after timeouts. ``None``: 2.
        threads: Number of threads of the sweep, from 1 to 64.
        seed: Seed of the order.
        shard: ``(number, of)``, from ``(1, of)``: queries only this share of the targets.
        max_in_flight: Most queries in flight, about 42 bytes each. ``None``: 750,000.
        max_memory: Memory for servers that have replied, in bytes. ``None``: 256 MiB.

    The other arguments are those of ``query``.

    Raises:
        TargetError: A target is invalid.
        ValueError: An argument is invalid.
    """
    values = locals()
    options = _options(values)
    of_sweep = {
        **{name: values[name] for name in _SWEEP_OPTIONS},
        "protocols": _listed(protocols),
        "exclude": _listed(exclude),
    }
    given = [targets] if isinstance(targets, str) else targets
    return Results(_native.start_sweep(given, options, of_sweep, on_progress))


def discover(
    *,
    protocols: str | Iterable[str] | None = None,
    game: str | None = None,
    interfaces: str | Iterable[str] | None = None,
    ports: Iterable[int] = (),
    duration: float = 3.0,
    on_progress: Callable[[Progress], object] | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    deadline: float | None = 2.5,
    players: bool = True,
    rules: bool = True,
    charset: str | None = None,
    auth_token: str | None = None,
) -> Results:
    """Searches the local network for servers by broadcasts and announcements, and queries them.

    Results have the members ``interface`` and ``seen_in``.

    Args:
        protocols: Ids of the protocols to search in. ``None``: all that have broadcasts or announcements.
        game: Game to search for.
        interfaces: Names or addresses of the interfaces to search. ``None``: all with a private address.
        ports: Ports to send to. Empty: those of the protocols and their games.
        duration: Time to wait for replies and announcements, in seconds.

    The other arguments are those of ``query``.
    """
    values: dict[str, Any] = {"depth": "full", "strict": False, "source": None, "name_server": None, **locals()}
    of_search = {
        "interfaces": _listed(interfaces),
        "protocols": _listed(protocols),
        "game": game,
        "ports": list(ports),
        "duration": duration,
    }
    return Results(_native.start_discover(_options(values), of_search, on_progress))


def decode(
    data: bytes | bytearray | memoryview | str,
    *,
    protocol: str | None = None,
    direction: Literal["request", "reply"] | None = None,
    request: bytes | None = None,
) -> Datagram:
    """Explains a datagram: its protocol, its message and each of its fields.

    >>> import hailer_query
    >>> hailer_query.decode("fe fd 09 00 00 00 01").message
    'handshake request'

    Args:
        data: The datagram, as bytes or in hexadecimal.
        protocol: Id of the protocol. ``None``: found by the bytes.
        direction: ``request`` or ``reply``, if it is known.
        request: The request before a reply. Some deviations of a reply show only next to it.
    """
    raw = bytes.fromhex(data) if isinstance(data, str) else bytes(data)
    found = _native.decode(raw, protocol, direction, request)
    protocol_id, message, way, is_certain, shown, fields, deviations, error = found
    return Datagram(
        protocol_id,
        message,
        way,
        is_certain,
        shown,
        [DatagramField(*each) for each in fields],
        [DatagramDeviation(*each) for each in deviations],
        None if error is None else DatagramError(*error),
    )


_OPTIONS = (
    "timeout",
    "retries",
    "deadline",
    "depth",
    "players",
    "rules",
    "charset",
    "auth_token",
    "strict",
    "source",
    "name_server",
)
_SWEEP_OPTIONS = (
    "game",
    "rate",
    "per_network",
    "bandwidth",
    "threads",
    "seed",
    "shard",
    "max_in_flight",
    "max_memory",
    "failures",
)


def _options(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _OPTIONS}


# Before the interpreter ends, which would end the thread that wakes event loops in the middle of its work.
atexit.register(_native.stop_background)
