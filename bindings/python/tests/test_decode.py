"""Explained datagrams."""

from __future__ import annotations

import doctest
import json

import pytest
from conftest import hailer

import hailer_query
from hailer_query import Datagram, decode

REQUEST = "fefd0900000001"
REPLY = "fffffffF49114e616d6500".lower()


@pytest.mark.parametrize("data", [REQUEST, REPLY, "00", "ffffffff54536f7572636520456e67696e6520517565727900"])
def test_datagram_equals_the_json_of_the_tool(data: str) -> None:
    line = json.loads(hailer("decode", "--json", data))
    found = decode(data)
    assert (found.protocol, found.message, found.direction, found.is_certain) == (
        line["protocol"],
        line["message"],
        line["direction"],
        line["is_certain"],
    )
    assert found.data.hex() == line["hex"] and len(found.data) == line["length_bytes"]
    assert [(it.start, it.end, it.name, it.value) for it in found.fields] == [
        (it["start"], it["end"], it["name"], it["value"]) for it in line["fields"]
    ]
    assert [vars_of(it) for it in found.deviations] == line["deviations"]
    assert (None if found.error is None else vars_of(found.error)) == line["error"]


def vars_of(it: object) -> dict[str, object]:
    return {name: getattr(it, name) for name in it.__dataclass_fields__}  # type: ignore[attr-defined]


def test_arguments() -> None:
    assert decode(bytes.fromhex(REQUEST)) == decode(bytearray.fromhex(REQUEST)) == decode("fe fd 09 00 00 00 01")
    assert decode(REQUEST, protocol="a2s") == Datagram(None, None, None, None, bytes.fromhex(REQUEST))
    assert decode(REQUEST, direction="request").direction == "request"
    reply = decode(b"\x09\x00\x00\x00\x0112345\x00", request=bytes.fromhex(REQUEST))
    assert (reply.protocol, reply.direction) == ("minecraft-query", "reply")
    for options in ({"protocol": "klingon"}, {"direction": "up"}, {"direction": "request", "request": b"x"}):
        with pytest.raises(ValueError):
            decode(REQUEST, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        decode("no hexadecimal")


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(hailer_query._api)
    assert results.attempted >= 2 and results.failed == 0
