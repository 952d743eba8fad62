"""Types, documentation and the example of the package."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from conftest import ROOT, Farm, library

import hailer_query


def test_everything_public_is_documented_and_typed() -> None:
    for name in hailer_query.__all__:
        public = getattr(hailer_query, name)
        if name in ("__version__", "Depth"):
            continue
        assert inspect.getdoc(public), name
        if not inspect.isfunction(public):
            continue
        signature = inspect.signature(public)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Signature.empty, (name, parameter)
    package = Path(hailer_query.__file__).parent
    assert (package / "py.typed").is_file() and (package / "_native.pyi").is_file()


def test_stub_has_the_names_of_the_native_module() -> None:
    import ast

    stub = ast.parse((Path(hailer_query.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))
    native = sys.modules["hailer_query._native"]
    stubbed = {}
    for node in stub.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            stubbed[node.name] = node
    assert set(stubbed) == {name for name in dir(native) if not name.startswith("__")}
    for name, node in stubbed.items():
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)} - {"__init__"}
            own = {member for member in vars(getattr(native, name)) if not member.startswith("__") or member in members}
            assert own == members, name


def test_distribution_has_another_name_and_no_script() -> None:
    if "site-packages" not in hailer_query.__file__:
        pytest.skip("the package is not installed")
    distribution = metadata.distribution("hailer-query")
    assert distribution.version == hailer_query.__version__
    assert not list(distribution.entry_points) and not distribution.requires
    installed = {str(file) for file in distribution.files or ()}
    assert not any(file.startswith(("..", "hailer/")) for file in installed), installed
    assert any(file.endswith("LICENSE-MIT") for file in installed) and any(file.endswith("LICENSE-APACHE") for file in installed)


def test_licenses_are_those_of_the_project() -> None:
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert (ROOT / name).read_bytes() == (ROOT / "bindings/python" / name).read_bytes()


def test_version_is_that_of_the_project() -> None:
    versions = [
        re.search(r'^version = "(.+)"$', (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        for file in ("Cargo.toml", "bindings/python/Cargo.toml")
    ]
    assert {version and version[1] for version in versions} == {hailer_query.__version__}


def test_each_dependency_has_its_reason() -> None:
    manifest = (ROOT / "bindings/python/Cargo.toml").read_text(encoding="utf-8")
    lines = manifest.split("[dependencies]\n")[1].split("\n[")[0].strip().splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert len(names) >= 6
    for before, line in zip([""] + lines, lines):
        assert line.startswith("#") or before.startswith("#"), f"{line}: the line above it must state the reason"


def test_types_are_correct(tmp_path: Path) -> None:
    library("mypy")
    user = tmp_path / "user.py"
    user.write_text(
        "import hailer_query\n"
        "answer: hailer_query.Answer = hailer_query.query('127.0.0.1', timeout=2.0)\n"
        "names: tuple[str, ...] = answer.status.players.names\n"
        "async def main() -> list[str | None]:\n"
        "    return [result.title async for result in hailer_query.sweep(['127.0.0.1'])]\n"
        "for result in hailer_query.query_many(['127.0.0.1']):\n"
        "    latency: float | None = result.latency_ms\n"
        "hailer_query.query(1)  # type: ignore[arg-type]\n"
        "hailer_query.query('127.0.0.1', depth='deep')  # type: ignore[arg-type]\n"
    )
    # In its own folder, since mypy would check the neighbors of an installed package too.
    shutil.copytree(Path(hailer_query.__file__).parent, tmp_path / "hailer_query")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "hailer_query", user.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_spark_reads_a_sweep_of_two_workers(farm: Farm) -> None:
    if not os.environ.get("HAILER_SPARK"):
        pytest.skip("Spark needs a Java runtime: set HAILER_SPARK where pyspark and Java are installed")
    example = ROOT / "bindings/python/examples/spark_sweep.py"
    targets = farm.targets("a2s", 20)
    done = subprocess.run([sys.executable, str(example), "2", *targets], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert any(line.replace(" ", "").startswith("|a2s|true|") and "|20|" in line.replace(" ", "") for line in lines), done.stdout
    assert sum("a2s://" in line for line in lines) == 20
