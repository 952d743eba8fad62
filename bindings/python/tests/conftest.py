"""Simulated servers for the tests: `hailer farm` and sockets that never reply. All traffic stays on loopback."""

from __future__ import annotations

import importlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: The tool. `.ci/run` builds it before.
HAILER = Path(os.environ.get("HAILER_BIN", ROOT / "target/debug/hailer"))
PROTOCOLS = ("a2s", "minecraft-bedrock", "minecraft-query", "minecraft-status", "quake3", "ugp")
#: Network of the farm. Its ports are free ones, so several farms can have it.
NETWORK = "127.77.0.0/20"


@dataclass
class Farm:
    """A running farm."""

    ports: dict[str, int]

    @cached_property
    def typical(self) -> int:
        """Number of a server that has players in every protocol that lists them, and texts that mcstatus reads too.

        The statuses depend on the ports, which differ in each run.
        """
        import hailer_query

        def is_typical(number: int) -> bool:
            for protocol in PROTOCOLS:
                status = hailer_query.query(self.target(protocol, number)).status
                raw = "".join(text.raw for text in (status.name, status.motd) if text)
                if "§x" in raw or "\n" in raw or not (status.players.list or protocol == "minecraft-bedrock"):
                    return False
            return bool(hailer_query.query(self.target("a2s", number)).status.rules)

        return next(number for number in range(1, 2_000) if is_typical(number))

    def host(self, number: int | None = None) -> str:
        """Returns the address of the server with this number, or else of a typical one."""
        number = self.typical if number is None else number
        first, second, third, _ = NETWORK.split("/")[0].split(".")
        return f"{first}.{second}.{int(third) + number // 256}.{number % 256}"

    def address(self, protocol: str, number: int | None = None) -> str:
        return f"{self.host(number)}:{self.ports[protocol]}"

    def target(self, protocol: str, number: int | None = None) -> str:
        return f"{protocol}://{self.address(protocol, number)}"

    def targets(self, protocol: str, count: int, first: int = 1) -> list[str]:
        return [self.target(protocol, number) for number in range(first, first + count)]


def start_farm(*arguments: str) -> tuple[subprocess.Popen[str], Farm]:
    """Starts a farm at free ports."""
    command = [str(HAILER), "farm", NETWORK, *arguments]
    for protocol in PROTOCOLS:
        command += ["--protocol", protocol, "--port", f"{protocol}=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    ports = {}
    for line in process.stdout:
        found = re.fullmatch(r"listening on \S+:(\d+) for (\S+)\n", line)
        assert found, line
        ports[found[2]] = int(found[1])
        if len(ports) == len(PROTOCOLS):
            break
    return process, Farm(ports)


@pytest.fixture(scope="session")
def farm() -> Iterator[Farm]:
    process, farm = start_farm()
    yield farm
    process.terminate()
    process.wait()


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a socket that receives and never replies."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as open_socket:
        open_socket.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{open_socket.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """Address that nothing listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as open_socket:
        open_socket.bind(("127.0.0.1", 0))
        port = open_socket.getsockname()[1]
    return f"127.0.0.1:{port}"


def hailer(*arguments: str) -> str:
    """Runs the tool and returns its output."""
    done = subprocess.run([str(HAILER), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout or done.returncode == 0, done.stderr
    return done.stdout


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a script in a new interpreter. It should print `ready` when a signal may come."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def library(name: str) -> Any:
    """Imports a library that a test needs. Without it, the test is skipped; with `HAILER_NEEDS_TABLES`, it fails."""
    if os.environ.get("HAILER_NEEDS_TABLES"):
        return importlib.import_module(name)
    return pytest.importorskip(name)
