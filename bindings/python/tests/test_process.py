"""Signals and child processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import Farm, library, python
from test_query import timeless

from hailer_query import aquery, query, query_many, sweep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork of Unix")

INTERRUPTED = """
import sys, time
import hailer_query
target = sys.argv[1]
print("ready", flush=True)
start = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    print(f"interrupted {{time.monotonic() - start:.3f}}", flush=True)
    # The stream can be dropped, and further queries work.
    try:
        hailer_query.query(target, timeout=0.05, retries=0)
    except TimeoutError:
        print("silent", flush=True)
"""

CALLS = {
    "query": "hailer_query.query(target, timeout=60.0)",
    "iterator of a sweep": "list(hailer_query.sweep([target], timeout=60.0))",
    "iterator of several queries": "list(hailer_query.query_many([target], timeout=60.0))",
    "batches of a sweep": "list(hailer_query.sweep([target], timeout=60.0).batches())",
    "coroutine": "import asyncio; asyncio.run(hailer_query.aquery(target, timeout=60.0))",
}


def interrupt(process: subprocess.Popen[str]) -> list[str]:
    """Sends SIGINT in the middle of a call and returns the lines that follow."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert process.returncode == 0, errors
    return output.splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call(silent: str, call: str) -> None:
    first, second = interrupt(python(INTERRUPTED.format(call=CALLS[call]), f"a2s://{silent}"))
    word, took = first.split()
    assert word == "interrupted" and 0.3 < float(took) < 2
    assert second == "silent"


def test_ctrl_c_ends_the_reading_of_arrow(silent: str) -> None:
    library("pyarrow")
    # `pyarrow.table` would import pandas first, which loses signals.
    call = "pyarrow.RecordBatchReader.from_stream(hailer_query.sweep([target], timeout=60.0)).read_all()"
    script = INTERRUPTED.replace("import hailer_query", "import hailer_query, pyarrow").format(call=call)
    first, second = interrupt(python(script, f"a2s://{silent}"))
    word, took = first.split()
    assert word == "interrupted" and 0.3 < float(took) < 2
    assert second == "silent"


def test_signal_handler_that_raises_ends_the_reading_of_arrow(silent: str) -> None:
    library("pyarrow")
    script = """
import signal, sys
import hailer_query, pyarrow
def stop(number, frame):
    raise RuntimeError("stopped by a signal")
signal.signal(signal.SIGINT, stop)
reader = pyarrow.RecordBatchReader.from_stream(hailer_query.sweep(sys.argv[1:], timeout=60.0))
print("ready", flush=True)
try:
    reader.read_all()
except pyarrow.ArrowInvalid as error:
    print(error)
"""
    (line,) = interrupt(python(script, f"a2s://{silent}"))
    assert "stopped by a signal" in line


def test_ctrl_c_without_a_handler_ends_the_program(silent: str) -> None:
    script = "import sys, hailer_query; print('ready', flush=True); hailer_query.query(sys.argv[1], timeout=60.0)"
    process = python(script, f"a2s://{silent}")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_program_ends_while_queries_run(silent: str) -> None:
    script = """
import asyncio, sys, hailer_query
target = sys.argv[1]
swept = hailer_query.sweep([target], timeout=60.0)
many = hailer_query.query_many([target], timeout=60.0)
async def main():
    task = asyncio.create_task(hailer_query.aquery(target, timeout=60.0))
    waiting = asyncio.create_task(many.__anext__())
    await asyncio.sleep(0.2)
asyncio.run(main())
print("ready", flush=True)
"""
    process = python(script, f"a2s://{silent}")
    output, errors = process.communicate(timeout=10)
    assert (process.returncode, output, errors) == (0, "ready\n", "")


def test_program_ends_right_after_a_thread_woke_its_event_loop(farm: Farm) -> None:
    script = """
import asyncio, sys, hailer_query
async def main():
    count = 0
    async for result in hailer_query.sweep(sys.argv[1:], rate=1e9, per_network=1e9):
        count += result.ok
    return count
print(asyncio.run(main()))
"""
    targets = farm.targets("a2s", 300)
    for _ in range(10):
        process = python(script, *targets)
        output, errors = process.communicate(timeout=20)
        assert (process.returncode, output, errors) == (0, "300\n", "")


def in_child(target: str) -> list[object]:
    """Queries in every way in a child process."""
    answers = [
        query(target),
        asyncio.run(aquery(target)),
        next(query_many([target])).get(),
        next(sweep([target])).get(),
    ]
    return [timeless(answer.to_dict())["status"] for answer in answers]


def test_children_query_after_a_fork(farm: Farm, silent: str) -> None:
    targets = farm.targets("a2s", 8)
    # The threads of the parent run, and a query is in flight.
    expected = [in_child(target) for target in targets]
    running = sweep([f"a2s://{silent}"], timeout=60.0)
    assert running.progress.total == 1
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(in_child, targets, chunksize=1) == expected
        # Results go to and fro between processes.
        assert [answer.title for answer in pool.map(query, targets)] == [query(target).title for target in targets]
    # The parent goes on.
    assert [in_child(target) for target in targets] == expected


def test_stream_of_the_parent_is_an_error_in_a_child(farm: Farm) -> None:
    results = sweep(farm.targets("a2s", 200), rate=100)
    next(results)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for _ in range(100_000):
                next(results)
        except RuntimeError as error:
            status = 0 if "parent process" in str(error) else 2
        except BaseException:
            status = 3
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert next(results).ok
