"""Results as Arrow record batches, read by pyarrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import NETWORK, Farm, hailer, library

from hailer_query import query, query_many, sweep

pa = library("pyarrow")

FAST = {"rate": 100_000.0, "per_network": 100_000.0}


def test_table_equals_the_parquet_file_of_the_tool(farm: Farm, tmp_path: Path) -> None:
    import pyarrow.parquet

    target = f"a2s://{NETWORK.split('/')[0]}/26:{farm.ports['a2s']}"
    file = tmp_path / "sweep.parquet"
    hailer("sweep", target, "-o", str(file), "--rate", "100k", "--per-network", "100k", "--quiet", "--failed")
    expected = pyarrow.parquet.read_table(file).sort_by("target")
    table = pa.table(sweep(target, **FAST)).sort_by("target")
    assert table.num_rows == expected.num_rows >= 62
    assert table.column_names == expected.column_names
    varying = {"time", "latency_ms", "datagrams_sent", "datagrams_received"}
    for name in table.column_names:
        own, other = table.schema.field(name), expected.schema.field(name)
        assert own.nullable == other.nullable, name
        if name == "players":
            # The tool writes name and UUID.
            own_rows = [[{"name": it["name"], "uuid": it["uuid"]} for it in row] for row in table[name].to_pylist()]
            assert own_rows == expected[name].to_pylist()
            continue
        if name not in ("rules", "deviations"):
            assert own.type == other.type, name
        if name not in varying:
            assert table[name].to_pylist() == expected[name].to_pylist(), name
    assert max(table["time"].to_pylist()).tzinfo is not None


def test_rows_equal_answers(farm: Farm, silent: str) -> None:
    target = farm.target("a2s")
    table = pa.table(sweep([target, f"a2s://{silent}"], timeout=0.2, retries=0)).sort_by("ok")
    failed, row = table.to_pylist()
    answer = query(target)
    assert (row["target"], row["title"], row["map"]) == (target, answer.title, answer.status.map)
    assert row["players"] == [
        {
            "name": player.name.plain,
            "uuid": None,
            "score": player.score,
            "time_s": pytest.approx(player.time_s, rel=1e-6),
            "team": None,
            "latency_ms": None,
        }
        for player in answer.status.players.list
    ]
    assert row["rules"] == [{"key": rule.key, "value": rule.value} for rule in answer.status.rules]
    assert json.loads(row["extra"]) == answer.status.extra
    assert (row["ok"], row["error_kind"], row["error_message"]) == (True, None, None)
    assert (failed["ok"], failed["error_kind"], failed["players"], failed["title"]) == (False, "silence", None, None)


def test_batches_have_their_rows_and_can_be_read_one_by_one(farm: Farm) -> None:
    results = query_many(farm.targets("a2s", 25))
    batches = list(results.batches(rows=10))
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert batches[0].num_rows == 10 and repr(batches[0]).startswith("RecordBatch(10 rows, ")
    imported = [pa.record_batch(batch) for batch in batches]
    # An array can be imported again, and outlives its batch and stream.
    again = pa.record_batch(batches[0])
    assert batches[0].column_names == again.schema.names
    del results, batches
    assert again.equals(imported[0])
    again.validate(full=True)
    assert len({target for batch in imported for target in batch["target"].to_pylist()}) == 25
    assert pa.schema(query_many([])).names == again.schema.names
    assert pa.table(query_many([])).num_rows == 0


def test_reader_streams_while_the_sweep_runs(farm: Farm) -> None:
    results = sweep(farm.targets("a2s", 400), rate=200.0, per_network=200.0)
    reader = pa.RecordBatchReader.from_stream(results)
    first = reader.read_next_batch()
    # The first batch comes after about a second and not at the end.
    assert 0 < first.num_rows < 400
    reader.close()
    del reader, first
    assert results.progress.finished < 400


def test_each_result_is_taken_once(farm: Farm) -> None:
    targets = farm.targets("a2s", 100)
    results = sweep(targets, **FAST)
    taken = {next(results).target for _ in range(10)}
    rest = set(pa.table(results)["target"].to_pylist())
    assert len(rest) == 90 and taken | rest == set(targets)


def test_pandas_reads_a_sweep(farm: Farm) -> None:
    pandas = library("pandas")
    targets = farm.targets("a2s", 100)
    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(sweep(targets, **FAST))
    else:
        frame = pa.table(sweep(targets, **FAST)).to_pandas()
    assert len(frame) == 100 and frame["ok"].all()
    assert set(frame["target"]) == set(targets)
    assert frame["players_online"].sum() == sum(query(target).status.players.online or 0 for target in targets)


def test_polars_reads_a_sweep(farm: Farm) -> None:
    polars = library("polars")
    targets = farm.targets("a2s", 100)
    frame = polars.DataFrame(sweep(targets, **FAST))
    assert frame.height == 100 and set(frame["target"]) == set(targets)
    assert frame.schema["players_online"] == polars.Int64
    names = frame.explode("players").select(polars.col("players").struct.field("name"))
    assert names.height >= 100


def test_duckdb_reads_a_sweep(farm: Farm) -> None:
    duckdb = library("duckdb")
    targets = farm.targets("a2s", 100)
    results = sweep(targets, **FAST)
    with duckdb.connect() as connection:
        connection.register("results", results)
        row = connection.execute("select count(*), count(distinct target), sum(players_online) from results").fetchone()
    assert row[:2] == (100, 100)
    assert row[2] == sum(query(target).status.players.online or 0 for target in targets)
