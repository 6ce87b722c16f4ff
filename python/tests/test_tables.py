"""Tables as mappings."""

import collections.abc
import threading

import pytest

import spinney


def test_a_table_is_a_mapping(db, table):
    assert isinstance(table, collections.abc.Mapping)
    assert table[b"a"] == b"A" and table.get(b"x") is None and table.get(b"x", 7) == 7
    assert b"a" in table and b"x" not in table
    with pytest.raises(KeyError):
        table[b"x"]
    del table[b"a"]
    assert list(table) == [b"b", b"c", b"d", b"e"]
    assert dict(table) == {b"b": b"B", b"c": b"C", b"d": b"D", b"e": b"E"}
    assert table.pop(b"b") == b"B" and b"b" not in table
    assert table.pop(b"b", None) is None
    with pytest.raises(KeyError):
        table.pop(b"b")
    assert table.setdefault(b"c", b"new") == b"C" and table.setdefault(b"f", b"new") == b"new"
    table.clear()
    assert table.count() == 0 and table.first() is None


def test_slices_and_ranges_go_both_ways(table):
    assert list(table[b"b":b"d"]) == [(b"b", b"B"), (b"c", b"C")]
    assert list(reversed(table[b"b":b"d"])) == [(b"c", b"C"), (b"b", b"B")]
    assert list(table[:b"c"].keys()) == [b"a", b"b"]
    assert list(table.values(b"d")) == [b"D", b"E"]
    assert list(reversed(table)) == [b"e", b"d", b"c", b"b", b"a"]
    assert list(table.keys(reverse=True)) == [b"e", b"d", b"c", b"b", b"a"]
    assert list(table.items(prefix=b"c")) == [(b"c", b"C")]
    assert (table.first(), table.last()) == ((b"a", b"A"), (b"e", b"E"))
    del table[b"b":b"d"]
    assert list(table) == [b"a", b"d", b"e"]
    walk = iter(table.keys())
    walk.seek(b"c")
    assert next(walk) == b"d" and walk.take(5) == [b"e"]
    with pytest.raises(TypeError, match="step"):
        table[b"a":b"c":2]


def test_a_range_sees_one_moment(table):
    walk = iter(table.items())
    assert next(walk) == (b"a", b"A")
    table.clear()
    assert len(list(walk)) == 4


def test_bytes_of_all_kinds(table):
    table[bytearray(b"x")] = memoryview(b"value")
    assert table[memoryview(b"x")] == b"value"
    with pytest.raises(TypeError, match="encode"):
        table["a"]
    with pytest.raises(TypeError, match="int"):
        table[b"a"] = 7


def test_many_at_once(db):
    table = db.create_table("numbers")
    numbers = [(number.to_bytes(4, "big"), b"%d" % number) for number in range(50_000)]
    table.update(numbers)
    assert table.count() == 50_000 and list(table.items()) == numbers
    assert list(table.items(reverse=True)) == numbers[::-1]
    table.update({b"one": b"1"})
    assert table.multi_get([b"one", b"two"]) == [b"1", None]
    loaded = db.create_table("loaded", layout="btree", compression="zstd")
    assert loaded.bulk_load(iter(numbers)) == 50_000 and list(loaded.items()) == numbers
    with pytest.raises(spinney.InvalidError, match="ascending"):
        loaded.bulk_load([(b"b", b""), (b"a", b"")])
    with pytest.raises(ValueError, match="unpack|tuple|length"):
        loaded.bulk_load([(b"b", b"", b"")])


def test_counters(db):
    counters = db.create_table("counters", merge="add")
    counters.add(b"hits")
    counters.add(b"hits", 41)
    assert int.from_bytes(counters[b"hits"], "little") == 42
    with pytest.raises(spinney.InvalidError, match="8 bytes"):
        counters.merge(b"hits", b"x")


def test_batches(db, table):
    other = db.create_table("other")
    with db.batch(durability="buffered") as batch:
        batch[table][b"f"] = b"F"
        batch[other][b"g"] = b"G"
        del batch[table][b"a":b"c"]
        assert len(batch) == 3 and b"f" not in table
    assert (list(table), list(other)) == ([b"c", b"d", b"e", b"f"], [b"g"])
    with pytest.raises(ZeroDivisionError), db.batch() as batch:
        batch[table].clear()
        1 / 0
    assert table.count() == 4
    with pytest.raises(spinney.InvalidError, match="reads nothing"):
        db.batch()[table].get(b"a")


def test_snapshots(db, table):
    with db.snapshot() as snapshot:
        table.clear()
        assert snapshot[table][b"a"] == b"A" and snapshot[table].count() == 5
        with pytest.raises(spinney.InvalidError, match="snapshot"):
            snapshot[table][b"a"] = b""
    with pytest.raises(spinney.ClosedError):
        snapshot[table]


def test_threads_share_a_database(db):
    table = db.create_table("t")
    failed = []

    def run(number):
        try:
            for step in range(200):
                table[b"%d/%d" % (number, step)] = b"x"
                assert table.get(b"%d/%d" % (number, step)) == b"x"
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and table.count() == 800


def test_the_catalog(db):
    assert list(db) == [] and "t" not in db
    table = db.create_table("t")
    assert db.tables() == ["t"] and "t" in db and db["t"].name == "t"
    with pytest.raises(spinney.AlreadyExistsError):
        db.create_table("t")
    db.drop_table("t")
    with pytest.raises(spinney.DroppedError):
        table[b"a"] = b"b"
    with pytest.raises(spinney.NotFoundError):
        db["t"]
    with pytest.raises(LookupError):
        db.drop_table("t")


def test_options_are_checked(tmp_path):
    with pytest.raises(spinney.NotFoundError):
        spinney.open(tmp_path / "none", create=False)
    with pytest.raises(spinney.InvalidError, match="memory_bytes"):
        spinney.open(tmp_path / "db", memory_bytes=1)
    with pytest.raises(TypeError, match="memory_mb"):
        spinney.open(tmp_path / "db", memory_mb=1)
    with pytest.raises(spinney.InvalidError, match="sync, interval, buffered"):
        spinney.open(tmp_path / "db", durability="maybe")
    with spinney.open(tmp_path / "db", interval=0.5, log_keep_time=10) as db:
        with pytest.raises(spinney.InvalidError, match="btree, lsm, lsm-tiered"):
            db.create_table("t", layout="heap")
        db.create_table("t", layout="lsm-tiered", prefix_filter=b"/", time_to_live=60.0)
        assert db.stats() and db["t"].shape()["layout"] == "lsm-tiered"


def test_a_database_is_closed_and_opened_again(tmp_path):
    path = tmp_path / "db"
    db = spinney.open(path)
    table = db.create_table("t")
    table[b"a"] = b"1"
    with pytest.raises(spinney.LockedError):
        spinney.open(path)
    with spinney.open(path, read_only=True) as reader:
        assert reader.is_read_only and reader["t"][b"a"] == b"1"
        table[b"b"] = b"2"
        assert reader.refresh()["t"][b"b"] == b"2"
        with pytest.raises(spinney.Error):
            reader["t"][b"c"] = b""
    db.checkpoint(tmp_path / "copy")
    db.close()
    db.close()
    with pytest.raises(spinney.ClosedError):
        table[b"a"]
    with spinney.open(tmp_path / "copy") as copy:
        assert dict(copy["t"]) == {b"a": b"1", b"b": b"2"}
        assert copy.verify()


def test_scans_as_columns(table):
    arrow = pytest.importorskip("pyarrow")
    batches = list(table.items().to_arrow(rows=2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert arrow.Table.from_batches(batches).to_pydict()["value"] == [b"A", b"B", b"C", b"D", b"E"]
    assert next(table.keys().to_arrow()).column_names == ["key"]
    pytest.importorskip("pandas")
    frame = table[b"b":].to_pandas()
    assert list(frame["key"]) == [b"b", b"c", b"d", b"e"] and list(table.values().to_pandas()["value"])[0] == b"A"
