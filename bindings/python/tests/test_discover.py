"""Servers of the local network. The search stays on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading

import pytest

from hailer_query import discover

STATUS = b"\xff\xff\xff\xffstatusResponse\n\\sv_hostname\\Harbour\\mapname\\dock\\sv_maxclients\\8\n3 25 \"Anna\"\n"
INFO = b"\xff\xff\xff\xffinfoResponse\n\\hostname\\Harbour\\mapname\\dock\\sv_maxclients\\8\\clients\\1"


@pytest.mark.skipif(sys.platform != "linux", reason="the interface is called lo on Linux")
def test_search_finds_a_server_and_queries_it() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", 0))
        port = server.getsockname()[1]
        is_over = threading.Event()

        def reply() -> None:
            server.settimeout(0.1)
            while not is_over.is_set():
                try:
                    request, peer = server.recvfrom(2_048)
                except TimeoutError:
                    continue
                words = request[4:].split()
                challenge = words[1] if len(words) > 1 else b""
                if words[:1] == [b"getinfo"]:
                    server.sendto(INFO + b"\\challenge\\" + challenge, peer)
                elif words[:1] == [b"getstatus"]:
                    head, tail = STATUS.split(b"\n", 2)[:2], STATUS.split(b"\n", 2)[2]
                    server.sendto(head[0] + b"\n" + head[1] + b"\\challenge\\" + challenge + b"\n" + tail, peer)

        thread = threading.Thread(target=reply)
        thread.start()
        try:
            options = {"interfaces": "lo", "ports": [port], "duration": 1.0}
            found = list(discover(protocols="quake3", **options))  # type: ignore[arg-type]

            async def first() -> str | None:
                async for result in discover(protocols=["quake3"], **options):  # type: ignore[arg-type]
                    return result.title
                return None

            again = asyncio.run(first())
        finally:
            is_over.set()
            thread.join()
    (result,) = found
    assert (result.title, result.interface, result.seen_in) == ("Harbour", "lo", ("quake3",))
    assert result.get().status.players.names == ("Anna",)
    assert again == "Harbour"


def test_invalid_searches_are_value_errors() -> None:
    for options in ({"interfaces": "no-such-0"}, {"protocols": "klingon"}, {"game": "klingon"}, {"duration": 0.0}):
        with pytest.raises(ValueError):
            discover(**options)  # type: ignore[arg-type]
