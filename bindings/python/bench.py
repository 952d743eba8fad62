"""Compares `hailer_query` with the tool, and with mcstatus, python-a2s and opengsq, in one run on loopback.

    cargo build --release -p hailer-cli
    HAILER_BIN=target/release/hailer python bindings/python/bench.py [--count 100000] [--rounds 3]

The servers are those of `hailer farm`, in a process of its own, whose time does not count. Each sweep is a process of its own too.
CPU is that of the client, user and system. Figures are medians, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "tests"))

#: The sweeps: how a program takes the results.
SWEEPS = {
    "iterate": "for result in results: count += result.ok",
    "read title and players": "for result in results: result.title; result.players_online; count += result.ok",
    "dataclasses of all answers": "for result in results: result.answer; count += result.ok",
    "Arrow batches": "for batch in results.batches(): count += len(batch)",
    "async for": "import asyncio\nasync def main():\n    global count\n    async for result in results: count += result.ok\nasyncio.run(main())",
}
SWEEP = """
import sys, resource
import hailer_query
target, = sys.argv[1:]
count = 0
before = resource.getrusage(resource.RUSAGE_SELF)
results = hailer_query.sweep(target, rate=1e9, per_network=1e9, retries=2)
{take}
after = resource.getrusage(resource.RUSAGE_SELF)
print(count, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""


@contextmanager
def farm(network: str) -> Iterator[Any]:
    import conftest

    conftest.NETWORK = network
    process, running = conftest.start_farm()
    try:
        yield running
    finally:
        process.terminate()
        process.wait()


def shown(values: list[float], unit: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):.1f} {unit} ({low:.1f} to {high:.1f})"


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def tool(target: str) -> tuple[int, float]:
    """Sweeps with the tool. Returns the number of answers and the CPU time in seconds."""
    import conftest

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open("/dev/null", "wb") as null:
        command = [str(conftest.HAILER), "sweep", target, "--rate", "1G", "--per-network", "1G", "--json", "--summary", "/dev/stderr"]
        done = subprocess.run(command, stdout=null, stderr=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = next(json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    return summary["counts"]["answered"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sweeps(count: int, rounds: int) -> None:
    """Compares sweeps with those of the tool."""
    with farm("127.64.0.0/10") as running:
        for protocol in ("minecraft-query", "a2s"):
            target = f"{protocol}://127.64.0.0-127.{64 + (count >> 16)}.{count >> 8 & 255}.{count & 255}:{running.ports[protocol]}"
            figures: dict[str, list[float]] = {}
            ratios: dict[str, list[float]] = {}
            for _ in range(rounds):
                answered, used = tool(target)
                own = used / answered * 1e6
                figures.setdefault("tool, NDJSON to /dev/null", []).append(own)
                for name, take in SWEEPS.items():
                    command = [sys.executable, "-c", SWEEP.format(take=take), target]
                    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                    answered, used = (float(word) for word in output.split())
                    figures.setdefault(name, []).append(used / answered * 1e6)
                    ratios.setdefault(name, []).append(used / answered * 1e6 / own)
            print(f"\n| {protocol}, {count:,} servers | CPU per answer | of the tool's |\n| --- | --- | --- |")
            for name, values in figures.items():
                ratio = f"{statistics.median(ratios[name]):.2f}" if name in ratios else ""
                print(f"| {name} | {shown(values, 'µs')} | {ratio} |", flush=True)


def one_by_one(name: str, call: Callable[[int], object], count: int, rounds: int) -> str:
    call(1)
    walls, cpus = [], []
    for _ in range(rounds):
        start, used = time.perf_counter(), cpu()
        for number in range(count):
            call(number % 200 + 1)
        walls.append((time.perf_counter() - start) / count * 1e3)
        cpus.append((cpu() - used) / count * 1e3)
    return f"| {name} | {statistics.median(walls):.2f} ms | {statistics.median(cpus):.2f} ms |"


async def at_once(call: Callable[[int], Awaitable[object]], count: int, concurrency: int) -> int:
    """Runs calls, several at a time. Returns the number of failures."""
    limit = asyncio.Semaphore(concurrency)
    failures = 0

    async def one(number: int) -> None:
        nonlocal failures
        async with limit:
            try:
                await call(number)
            except Exception:
                failures += 1

    await asyncio.gather(*(one(number + 1) for number in range(count)))
    return failures


def many(name: str, run: Callable[[], int], count: int, rounds: int) -> str:
    walls, cpus, failures = [], [], 0
    for _ in range(rounds):
        start, used = time.perf_counter(), cpu()
        failures += run()
        walls.append(time.perf_counter() - start)
        cpus.append((cpu() - used) / count * 1e6)
    lost = f", {failures} without an answer" if failures else ""
    return f"| {name} | {count / statistics.median(walls):,.0f} per second | {statistics.median(cpus):,.0f} µs{lost} |"


def libraries(count: int, rounds: int) -> None:
    """Compares queries with those of other libraries."""
    import a2s
    from mcstatus import JavaServer
    from opengsq.protocols import Minecraft, Source

    import hailer_query

    with farm("127.61.0.0/16") as running:
        status_port, source_port = running.ports["minecraft-status"], running.ports["a2s"]

        def host(number: int) -> str:
            return f"127.61.{number >> 8}.{number & 255}"

        def source(number: int) -> tuple[str, int]:
            return host(number), source_port

        def three(number: int) -> None:
            a2s.info(source(number))
            a2s.players(source(number))
            a2s.rules(source(number))

        async def athree(number: int) -> None:
            await a2s.ainfo(source(number))
            await a2s.aplayers(source(number))
            await a2s.arules(source(number))

        async def gsq_three(number: int) -> None:
            server = Source(*source(number))
            await server.get_info()
            await server.get_players()
            await server.get_rules()

        def java(number: int) -> str:
            return f"minecraft-status://{host(number)}:{status_port}"

        def valve(number: int) -> str:
            return f"a2s://{host(number)}:{source_port}"

        singles: list[tuple[str, Callable[[int], object]]] = [
            ("Minecraft status: mcstatus", lambda n: JavaServer(host(n), status_port).status()),
            ("opengsq", lambda n: asyncio.run(Minecraft(host(n), status_port).get_status())),
            ("hailer_query", lambda n: hailer_query.query(java(n))),
            ("A2S info, players, rules: python-a2s", three),
            ("opengsq", lambda n: asyncio.run(gsq_three(n))),
            ("hailer_query", lambda n: hailer_query.query(valve(n))),
        ]
        print("\n| one after the other | time | CPU |\n| --- | --- | --- |")
        for name, call in singles:
            print(one_by_one(name, call, 200, rounds), flush=True)

        def swept(target: Callable[[int], str]) -> int:
            targets = [target(number + 1) for number in range(count)]
            return sum(not result.ok for result in hailer_query.sweep(targets, rate=1e9, per_network=1e9))

        def queried(target: Callable[[int], str]) -> int:
            targets = [target(number + 1) for number in range(count)]
            return sum(not result.ok for result in hailer_query.query_many(targets, concurrency=100))

        def gathered(call: Callable[[int], Awaitable[object]]) -> Callable[[], int]:
            return lambda: asyncio.run(at_once(call, count, 100))

        crowds: list[tuple[str, Callable[[], int]]] = [
            ("Minecraft status: mcstatus", gathered(lambda n: JavaServer(host(n), status_port).async_status())),
            ("opengsq", gathered(lambda n: Minecraft(host(n), status_port).get_status())),
            ("hailer_query.aquery", gathered(lambda n: hailer_query.aquery(java(n)))),
            ("hailer_query.query_many", lambda: queried(java)),
            ("hailer_query.sweep", lambda: swept(java)),
            ("A2S info, players, rules: python-a2s", gathered(athree)),
            ("opengsq", gathered(gsq_three)),
            ("hailer_query.aquery", gathered(lambda n: hailer_query.aquery(valve(n)))),
            ("hailer_query.query_many", lambda: queried(valve)),
            ("hailer_query.sweep", lambda: swept(valve)),
        ]
        print(f"\n| {count:,} servers, 100 at a time | servers | CPU per server |\n| --- | --- | --- |")
        for name, run in crowds:
            print(many(name, run, count, rounds), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=100_000, help="servers of a sweep")
    arguments.add_argument("--many", type=int, default=2_000, help="servers that several libraries query")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {given.rounds} rounds")
    libraries(given.many, given.rounds)
    sweeps(given.count, given.rounds)


if __name__ == "__main__":
    main()
