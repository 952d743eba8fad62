"""Types of the native module. The package documents and re-exports what is public."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

from ._errors import QueryError
from ._types import Answer, Progress

__version__: str

@final
class Result:
    """Result of one target: an ``answer`` or an ``error``.

    The dataclasses are made when they are first used, so that a sweep costs little for each server.
    """

    def __init__(
        self,
        target: str,
        answer: Answer | None = None,
        error: QueryError | None = None,
        interface: str | None = None,
        seen_in: list[str] = ...,
    ) -> None: ...
    @property
    def target(self) -> str:
        """The target as typed. In a sweep, an address is written as ``protocol://address:port``."""
    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
    @property
    def answer(self) -> Answer | None:
        """The answer, or ``None``."""
    @property
    def error(self) -> QueryError | None:
        """The reason of the failure, or ``None``. A new exception each time."""
    @property
    def protocol(self) -> str | None:
        """Id of the protocol, or ``None`` if nothing was sent."""
    @property
    def address(self) -> str | None:
        """Address and port of the query, or ``None`` if nothing was sent."""
    @property
    def latency_ms(self) -> float | None:
        """Latency of the answer, in milliseconds."""
    @property
    def title(self) -> str | None:
        """Name of the server without codes, or else the first readable line of its message of the day."""
    @property
    def players_online(self) -> int | None:
        """Players online as reported."""
    @property
    def players_max(self) -> int | None:
        """Maximum number of players."""
    @property
    def interface(self) -> str | None:
        """Network interface that ``discover`` saw the server at."""
    @property
    def seen_in(self) -> tuple[str, ...]:
        """Ids of the protocols that ``discover`` saw the server in."""
    def get(self) -> Answer:
        """Returns the answer, or raises the error."""

@final
class RecordBatch:
    """Arrow record batch of results, for any library that reads Arrow (``__arrow_c_array__``)."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Stream(Iterator[Result]):
    def __iter__(self) -> Iterator[Result]: ...
    def __next__(self) -> Result: ...
    def try_next(self) -> tuple[Result | None, bool]: ...
    def wake(self, wake: Callable[[], object]) -> bool: ...
    def cancel(self) -> None: ...
    def progress(self) -> Progress: ...
    def next_batch(self, rows: int) -> RecordBatch | None: ...
    def arrow_stream(self) -> object: ...
    @staticmethod
    def arrow_schema() -> object: ...

@final
class QueryTask:
    def cancel(self) -> None: ...

def query(target: str, options: dict[str, Any]) -> Answer: ...
def stop_background() -> None: ...
def start_query(
    target: str, options: dict[str, Any], done: Callable[[Answer | None, BaseException | None], object]
) -> QueryTask: ...
def start_query_many(
    targets: list[str],
    options: dict[str, Any],
    concurrency: int,
    on_progress: Callable[[Progress], object] | None,
) -> Stream: ...
def start_sweep(
    targets: Iterable[str],
    options: dict[str, Any],
    of_sweep: dict[str, Any],
    on_progress: Callable[[Progress], object] | None,
) -> Stream: ...
def start_discover(
    options: dict[str, Any],
    of_search: dict[str, Any],
    on_progress: Callable[[Progress], object] | None,
) -> Stream: ...
def decode(
    data: bytes, protocol_id: str | None, direction: str | None, request: bytes | None
) -> tuple[
    str | None,
    str | None,
    str | None,
    bool | None,
    bytes,
    list[tuple[int, int, str, str]],
    list[tuple[str, int, str]],
    tuple[str, int, str] | None,
]: ...
