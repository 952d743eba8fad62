"""Single queries: answers, exceptions, event loops, pickling."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import PROTOCOLS, Farm, hailer

import hailer_query
from hailer_query import Answer, QueryError, Status, Text, aquery, query


def timeless(line: dict[str, object]) -> dict[str, object]:
    """Returns a line without what differs from query to query."""
    return {**line, "latency_ms": None, "datagrams_sent": None, "datagrams_received": None}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_answer_equals_the_json_of_the_tool(farm: Farm, protocol: str) -> None:
    target = farm.target(protocol)
    answer = query(target)
    line = json.loads(hailer("query", "--json", target))
    assert timeless(answer.to_dict()) == timeless(line)
    assert list(answer.to_dict()) == list(line)
    assert answer.latency_ms > 0 and answer.datagrams_sent > 0
    assert Answer.from_dict(line).to_dict() == line
    assert Answer.from_dict(answer.to_dict()) == answer


def test_answer_is_typed(farm: Farm) -> None:
    answer = query(farm.target("a2s"))
    assert isinstance(answer.status, Status) and isinstance(answer.status.name, Text)
    assert str(answer.status.name) == answer.title
    assert answer.status.players.online == len(answer.status.players.list) > 0
    first = answer.status.players.list[0]
    assert isinstance(first.name.plain, str) and isinstance(first.score, int) and isinstance(first.time_s, float)
    rule = answer.status.rules[0]
    assert answer.status.rule(rule.key) == rule.value
    assert answer.status.rule("no such rule") is None


def test_options_change_the_query(farm: Farm) -> None:
    target = farm.target("a2s")
    full, bare = query(target), query(target, players=False, rules=False)
    assert full.status.players.list and full.status.rules
    assert not bare.status.players.list and not bare.status.rules
    assert query(target, depth="ping").status == Status()
    # Without a protocol, the port finds it.
    assert query(farm.address("quake3")).protocol == "quake3"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0.0}, "timeout: expected a number of seconds above 0"),
        ({"timeout": -1.0}, "timeout"),
        ({"deadline": float("nan")}, "deadline"),
        ({"depth": "deep"}, "depth: expected"),
        ({"charset": "klingon"}, "charset: expected a character set"),
        ({"source": "example.com"}, "source"),
        ({"name_server": "dns"}, "name_server: expected an address"),
    ],
)
def test_invalid_options_are_value_errors(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        query("127.0.0.1", **options)  # type: ignore[arg-type]


def test_target_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a target is a str"):
        query(("127.0.0.1", 25565))  # type: ignore[arg-type]


def test_invalid_target() -> None:
    with pytest.raises(hailer_query.TargetError, match="1 to 65535") as raised:
        query("127.0.0.1:0")
    assert isinstance(raised.value, ValueError)
    assert (raised.value.kind, raised.value.target, raised.value.address) == ("target", "127.0.0.1:0", None)


def test_closed_port(closed: str) -> None:
    with pytest.raises(hailer_query.PortClosedError, match="nothing listens") as raised:
        query(f"a2s://{closed}")
    error = raised.value
    assert isinstance(error, ConnectionRefusedError) and isinstance(error, hailer_query.UnreachableError)
    assert (error.kind, error.protocol, error.address) == ("port-closed", "a2s", closed)


def test_silence(silent: str) -> None:
    with pytest.raises(hailer_query.SilenceError, match="no answer in") as raised:
        query(f"a2s://{silent}", timeout=0.05, retries=1)
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.datagrams_sent == 2


def test_several_protocols_fail(closed: str) -> None:
    with pytest.raises(QueryError) as raised:
        query(closed, timeout=0.1, retries=0)
    failures = raised.value.failures
    assert len({failure.protocol for failure in failures}) > 1
    assert all(isinstance(failure, hailer_query.PortClosedError) for failure in failures), failures


def test_malformed_reply() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def reply() -> None:
            _, peer = server.recvfrom(100)
            server.sendto(b"\xff\xff\xff\xffI\x11no end", peer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(hailer_query.InvalidReplyError, match="malformed") as raised:
            query(f"a2s://127.0.0.1:{server.getsockname()[1]}", timeout=0.2, retries=0)
        thread.join()
    assert raised.value.kind == "malformed"
    assert raised.value.datagram is not None and raised.value.datagram.startswith(b"\xff\xff\xff\xffI")


def test_unknown_name() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as name_server:
        name_server.bind(("127.0.0.1", 0))
        name_server.settimeout(5)

        def no_such_name() -> None:
            # One lookup for each kind of address.
            for _ in range(2):
                request, peer = name_server.recvfrom(512)
                name_server.sendto(request[:2] + b"\x81\x83" + request[4:6] + bytes(6) + request[12:], peer)

        thread = threading.Thread(target=no_such_name)
        thread.start()
        with pytest.raises(hailer_query.ResolveError) as raised:
            query("a2s://no-such.example", name_server=f"127.0.0.1:{name_server.getsockname()[1]}")
        thread.join()
    assert isinstance(raised.value, OSError)
    assert raised.value.kind in ("name-not-found", "lookup")


def test_errors_equal_the_json_of_the_tool(closed: str) -> None:
    target = f"a2s://{closed}"
    line = json.loads(hailer("query", "--json", target))
    with pytest.raises(QueryError) as raised:
        query(target)
    assert timeless(raised.value.to_dict()) == timeless(line)
    assert QueryError.from_dict(line).to_dict() == line
    with pytest.raises(ValueError, match="no answer"):
        Answer.from_dict(line)


def test_answers_and_errors_are_pickled(farm: Farm, closed: str) -> None:
    answer = query(farm.target("minecraft-query"))
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert copy.deepcopy(answer) == answer
    for target in (f"a2s://{closed}", closed, "127.0.0.1:0"):
        with pytest.raises(QueryError) as raised:
            query(target, timeout=0.1, retries=0)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            restored = pickle.loads(pickle.dumps(raised.value, protocol))
            assert restored == raised.value and type(restored) is type(raised.value)
            assert str(restored) == str(raised.value)


def test_aquery(farm: Farm) -> None:
    async def all_protocols() -> list[Answer]:
        return await asyncio.gather(*(aquery(farm.target(protocol)) for protocol in PROTOCOLS))

    for answer, protocol in zip(asyncio.run(all_protocols()), PROTOCOLS):
        assert timeless(answer.to_dict()) == timeless(query(farm.target(protocol)).to_dict())


def test_aquery_raises_and_works_in_a_second_loop(silent: str, closed: str) -> None:
    for _ in range(2):
        with pytest.raises(hailer_query.SilenceError):
            asyncio.run(aquery(f"a2s://{silent}", timeout=0.05, retries=0))
        with pytest.raises(hailer_query.TargetError):
            asyncio.run(aquery("::::"))
        with pytest.raises(ValueError, match="timeout"):
            asyncio.run(aquery(closed, timeout=0.0))


def test_aquery_does_not_block_the_loop_and_is_cancelled(silent: str) -> None:
    async def main() -> tuple[int, float]:
        task = asyncio.create_task(aquery(f"a2s://{silent}", timeout=30.0))
        turns = 0
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            await asyncio.sleep(0.01)
            turns += 1
        assert not task.done()
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aquery(f"a2s://{silent}", timeout=30.0), 0.05)
        return turns, time.monotonic() - start

    turns, took = asyncio.run(main())
    assert turns >= 10 and took < 1


def test_queries_of_many_threads(farm: Farm) -> None:
    targets = farm.targets("a2s", 64)
    with ThreadPoolExecutor(16) as pool:
        titles = [answer.title for answer in pool.map(query, targets)]
    assert titles == [query(target).title for target in targets]


def test_query_releases_the_gil(silent: str) -> None:
    turns = 0
    is_over = False

    def count() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(hailer_query.SilenceError):
        query(f"a2s://{silent}", timeout=0.4, retries=0)
    is_over = True
    thread.join()
    assert turns > 40
