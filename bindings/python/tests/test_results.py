"""Streams of results: several queries, sweeps, progress, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import pickle
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NETWORK, Farm, hailer
from test_query import timeless

import hailer_query
from hailer_query import Progress, Result, query, query_many, sweep


def threads() -> set[str]:
    """Names of the threads of this process, as Linux knows them."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            found.add((task / "comm").read_text().strip())
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits for at most 5 s."""
    end = time.monotonic() + 5
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    assert is_so()


def test_query_many_returns_each_target_once(farm: Farm, closed: str) -> None:
    targets = [*farm.targets("a2s", 50), *farm.targets("minecraft-status", 50), f"a2s://{closed}", "::::"]
    results = query_many(targets, concurrency=10)
    by_target = {result.target: result for result in results}
    assert set(by_target) == set(targets)
    failed = {target: result for target, result in by_target.items() if not result.ok}
    assert set(failed) == {f"a2s://{closed}", "::::"}
    assert isinstance(failed["::::"].error, hailer_query.TargetError)
    with pytest.raises(hailer_query.PortClosedError):
        failed[f"a2s://{closed}"].get()
    for target in targets[:3]:
        answer = by_target[target].get()
        assert timeless(answer.to_dict()) == timeless(query(target).to_dict())
    progress = results.progress
    assert (progress.total, progress.finished, progress.answered, progress.port_closed) == (102, 102, 100, 1)
    assert list(results) == []


def test_sweep_equals_the_sweep_of_the_tool(farm: Farm) -> None:
    port = farm.ports["minecraft-query"]
    target = f"minecraft-query://{NETWORK.split('/')[0]}/25:{port}"
    options = ("--rate", "100k", "--per-network", "100k")
    lines = [json.loads(line) for line in hailer("sweep", target, "--json", *options).splitlines()]
    expected = {line["target"]: timeless(line) for line in lines}
    results = {result.target: result for result in sweep(target, rate=100_000, per_network=100_000)}
    assert len(expected) >= 126
    assert {target: timeless(result.get().to_dict()) for target, result in results.items()} == expected


def test_facts_of_a_result_equal_its_answer(farm: Farm, silent: str) -> None:
    target = farm.target("a2s")
    (result,) = sweep([target])
    answer = result.get()
    assert result.ok and result.error is None and result.answer is answer
    assert (result.target, result.protocol, result.address) == (target, answer.protocol, answer.address)
    assert (result.title, result.latency_ms) == (answer.title, answer.latency_ms)
    players = answer.status.players
    assert (result.players_online, result.players_max) == (players.online, players.max)
    assert repr(result) == f"Result({target!r}, title={answer.title!r}, latency_ms={answer.latency_ms})"
    (failed,) = sweep([f"a2s://{silent}"], timeout=0.05, retries=0)
    assert not failed.ok and failed.answer is None and failed.title is None and failed.players_online is None
    assert isinstance(failed.error, hailer_query.SilenceError)
    for one in (result, failed):
        copy = pickle.loads(pickle.dumps(one))
        assert copy == one and hash(copy) == hash(one) and copy != (failed if one is result else result)
        for member in ("ok", "target", "protocol", "address", "title", "latency_ms", "players_online", "players_max"):
            assert getattr(copy, member) == getattr(one, member)
        assert repr(copy) == repr(one)
    with pytest.raises(ValueError, match="an answer or an error"):
        Result("a2s://127.0.0.1")


def test_sweep_reads_its_options(farm: Farm, silent: str) -> None:
    targets = farm.targets("a2s", 20)
    swept = sweep([*targets, targets[0], f"a2s://{silent}"], failures=False, timeout=0.1, retries=0, exclude=farm.host(1))
    assert {result.target for result in swept} == set(targets[1:])
    progress = swept.progress
    assert (progress.answered, progress.timed_out, progress.duplicates, progress.excluded) == (19, 1, 1, 1)
    # A game or protocols apply to targets without one.
    host, port = farm.host(3), farm.ports["ugp"]
    assert [result.protocol for result in sweep(f"{host}:{port}", protocols=["ugp"])] == ["ugp"]
    shares = [{result.target for result in sweep(targets, shard=(number, 2))} for number in (1, 2)]
    assert shares[0] | shares[1] == set(targets) and not shares[0] & shares[1] and all(shares)
    assert len(list(sweep(targets, threads=2))) == 20


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rate": 0}, "rate: expected a number above 0"),
        ({"per_network": float("nan")}, "per_network"),
        ({"threads": 0}, "threads"),
        ({"shard": (3, 2)}, "shard"),
        ({"protocols": "klingon"}, "no protocol has the id"),
        ({"game": "klingon"}, "no game has the id"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"depth": "deep"}, "depth"),
    ],
)
def test_invalid_options_of_a_sweep_are_value_errors(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        sweep("127.0.0.1", **options)  # type: ignore[arg-type]


def test_invalid_targets_of_a_sweep(farm: Farm) -> None:
    with pytest.raises(hailer_query.TargetError, match="1 to 65535"):
        sweep([farm.target("a2s"), "127.0.0.1:0"])
    with pytest.raises(TypeError):
        sweep([1])  # type: ignore[list-item]
    assert list(sweep([])) == []


def test_sweep_as_an_asynchronous_iterator(farm: Farm) -> None:
    targets = farm.targets("a2s", 300)

    async def main() -> tuple[set[str], int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        found = set()
        async with sweep(targets, rate=100_000, per_network=100_000) as results:
            async for result in results:
                found.add(result.target)
        other.cancel()
        return found, turns

    found, turns = asyncio.run(main())
    assert found == set(targets)
    assert turns > 3


def test_progress_is_reported(farm: Farm) -> None:
    seen: list[Progress] = []
    targets = farm.targets("a2s", 60)
    results = sweep(targets, rate=200, per_network=200, on_progress=seen.append)
    assert len(list(results)) == 60
    assert len(seen) >= 2 and seen == sorted(seen, key=lambda progress: progress.finished)
    last = results.progress
    assert (last.total, last.answered, last.finished, last.in_flight) == (60, 60, 60, 0)
    assert last.datagrams_sent >= 120 and last.bytes_received > last.bytes_sent > 0
    assert repr(results) == "<Results: 60 of 60 finished, 60 answered>"
    # In an event loop too.
    seen.clear()

    async def main() -> int:
        return len([result async for result in query_many(targets, concurrency=5, on_progress=seen.append)])

    assert asyncio.run(main()) == 60 and seen and seen[-1].answered > 0


def test_progress_is_reported_while_no_server_answers(silent: str) -> None:
    target = f"a2s://{silent}"
    seen: list[Progress] = []

    async def main() -> int:
        results = sweep(target, timeout=0.5, retries=0, on_progress=seen.append)
        return len([result async for result in results])

    assert asyncio.run(main()) == 1
    assert sum(progress.in_flight == 1 for progress in seen) >= 2
    seen.clear()
    assert len(list(sweep(target, timeout=0.5, retries=0, on_progress=seen.append))) == 1
    assert sum(progress.in_flight == 1 for progress in seen) >= 2


def test_two_tasks_share_a_stream(farm: Farm) -> None:
    targets = farm.targets("a2s", 200)

    async def main() -> list[str]:
        results = sweep(targets, rate=400, per_network=400)

        async def take() -> list[str]:
            return [result.target async for result in results]

        # Either task may take everything, if the machine is busy.
        first, second = await asyncio.gather(take(), take())
        return first + second

    assert sorted(asyncio.run(main())) == sorted(targets)


def test_exception_of_a_progress_function_is_raised(farm: Farm) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError(f"{progress.answered} answered")

    with pytest.raises(RuntimeError, match="answered"):
        list(sweep(farm.targets("a2s", 40), rate=100, on_progress=fail))


def test_cancelled_sweep_ends(farm: Farm) -> None:
    targets = farm.targets("a2s", 2_000)
    results = sweep(targets, rate=200, per_network=200)
    first = next(results)
    assert first.ok
    start = time.monotonic()
    results.cancel()
    rest = list(results)
    assert time.monotonic() - start < 1 and len(rest) < 1_000
    with sweep(targets, rate=200, per_network=200) as results:
        next(results)
    assert len(list(results)) < 1_000

    async def main() -> None:
        async with sweep(targets, rate=200, per_network=200) as results:
            async for _ in results:
                break
        # A task that waits for the next result is cancelled.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            waiting = sweep(f"a2s://127.0.0.1:{silent.getsockname()[1]}", timeout=30.0)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting.__anext__(), 0.2)

    asyncio.run(main())


def test_deleted_sweep_ends_its_thread(farm: Farm, silent: str) -> None:
    targets = [f"a2s://{silent}"]
    results = sweep(targets, timeout=60.0)
    many = query_many(targets, timeout=60.0)
    own = {"hailer-sweep", "hailer-many"}
    wait_until(lambda: own <= threads())
    # A function that refers to the stream keeps it only until the next collection.
    holder = []
    held = sweep(targets, timeout=60.0, on_progress=lambda progress: holder)
    holder.append(held)
    del results, many, held, holder
    gc.collect()
    wait_until(lambda: not own & threads())


def test_slow_reader_limits_the_queue(farm: Farm) -> None:
    port = farm.ports["quake3"]
    target = f"quake3://{NETWORK}:{port}"
    results = sweep(target, rate=1e9, per_network=1e9, players=False, rules=False)
    time.sleep(0.5)
    assert len(list(results)) == results.progress.total


def test_two_threads_share_a_stream(farm: Farm) -> None:
    targets = farm.targets("a2s", 500)
    results = sweep(targets, rate=20_000, per_network=20_000)
    found: list[str] = []

    def take() -> None:
        found.extend(result.target for result in results)

    takers = [threading.Thread(target=take) for _ in range(2)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert sorted(found) == sorted(targets)
