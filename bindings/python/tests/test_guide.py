"""The guide: its calls of other libraries return what `hailer_query` returns, and its programs run."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import types
from typing import Any

import pytest
from conftest import ROOT, Farm, library

import hailer_query

GUIDE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, str, str]]:
    """Returns the rows of the tables of calls: library, its call, ours."""
    found = []
    name = ""
    for line in GUIDE.splitlines():
        if header := re.fullmatch(r"\| (\S+) \| hailer_query \|", line):
            name = header[1]
        elif call := re.fullmatch(r"\| `(.+)` \| `(.+)` \|", line):
            if name:
                found.append((name, call[1], call[2]))
        elif not line.startswith("|"):
            name = ""
    return found


def test_guide_has_calls_of_each_library() -> None:
    counts = {name: sum(row[0] == name for row in rows()) for name in ("mcstatus", "python-a2s", "opengsq")}
    assert counts["mcstatus"] >= 15 and counts["python-a2s"] >= 12 and counts["opengsq"] >= 8, counts


def names(farm: Farm) -> dict[str, Any]:
    """Returns what the calls of the guide refer to."""
    import a2s
    from mcstatus import BedrockServer, JavaServer
    from opengsq.protocols import Minecraft, Quake3, RakNet, Source

    def pair(protocol: str) -> tuple[str, int]:
        return farm.host(), farm.ports[protocol]

    return {
        "a2s": a2s,
        "BedrockServer": BedrockServer,
        "JavaServer": JavaServer,
        "Minecraft": Minecraft,
        "Quake3": Quake3,
        "RakNet": RakNet,
        "Source": Source,
        "query": hailer_query.query,
        "aquery": hailer_query.aquery,
        "java": farm.address("minecraft-status"),
        "bedrock": farm.address("minecraft-bedrock"),
        "udp": farm.address("minecraft-query"),
        "source": pair("a2s"),
        "minecraft": pair("minecraft-status"),
        "raknet": pair("minecraft-bedrock"),
        "quake": pair("quake3"),
    }


def evaluate(expression: str, values: dict[str, Any]) -> Any:
    code = compile(expression, "docs/python.md", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, values)
    return asyncio.run(result) if isinstance(result, types.CoroutineType) else result


@pytest.mark.parametrize(("name", "theirs", "ours"), rows())
def test_both_libraries_return_the_same(farm: Farm, name: str, theirs: str, ours: str) -> None:
    values = names(farm)
    their, our = evaluate(theirs, values), evaluate(ours, values)
    if ours.endswith("latency_ms"):
        assert 0 < our < 1_000 and 0 < their < 1_000
    else:
        assert our == their and type(our) is type(their)


def test_programs_of_the_guide_run(farm: Farm, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 3
    java, ranged = farm.target("minecraft-status"), f"{farm.target('a2s', 8).rsplit(':', 1)[0]}/30:{farm.ports['a2s']}"
    replaced = {
        "minecraft://play.example.com": java,
        "play.example.com": java,
        "a2s://192.0.2.0/24": ranged,
    }
    values: dict[str, Any] = {"hailer_query": hailer_query, "targets": farm.targets("a2s", 4)}
    for name in ("duckdb", "pandas", "polars", "pyarrow"):
        if name in blocks[2]:
            values[name] = library(name)
    for block in blocks:
        for host, target in replaced.items():
            block = block.replace(f'"{host}"', f'"{target}"')
        assert "example.com" not in block and "192.0.2" not in block
        if "from_arrow" in block and not hasattr(values["pandas"].DataFrame, "from_arrow"):
            block = re.sub(r"^.*from_arrow.*\n", "", block, flags=re.MULTILINE)
        exec(compile(block, "docs/python.md", "exec"), values)
    output = capsys.readouterr().out.splitlines()
    assert " of " in output[0] and len(output) > 5


def test_guide_names_every_function_and_exception() -> None:
    for name in hailer_query.__all__:
        public = getattr(hailer_query, name)
        if isinstance(public, types.FunctionType) or (isinstance(public, type) and issubclass(public, Exception)):
            assert f"`{name}" in GUIDE or f"await {name}(" in GUIDE, name
    rows = re.findall(r"^\| `(\w+Error)` \| (.*?) \|", GUIDE, re.MULTILINE)
    assert len(rows) == 7
    for name, bases in rows:
        for base in re.findall(r"`(\w+)`", bases):
            parent = getattr(hailer_query, base, None) or getattr(sys.modules["builtins"], base)
            assert issubclass(getattr(hailer_query, name), parent), (name, base)
