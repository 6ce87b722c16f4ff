"""Puts, gets, ranges and loads of Spinney, plyvel, lmdb and sqlite3, in one process: `python bench.py [--keys N]`.

Each engine stores the same keys (16 bytes, in random order) and values (100 bytes) in a directory of its own, without
a sync of each write. Engines that are not installed are left out. The rounds are interleaved; the table shows the
median of them in thousands of operations a second.
"""

import argparse
import pathlib
import random
import shutil
import sqlite3
import statistics
import tempfile
import time


class Spinney:
    """Tables of the layout lsm."""

    def __init__(self, path):
        import spinney

        self.db = spinney.open(path, memory_bytes=512 << 20, durability="buffered")
        self.table = self.db.open_or_create_table("t")
        self.get = self.table.get

    def put(self, key, value):
        self.table[key] = value

    def bulk(self, entries):
        self.table.update(entries)

    def settle(self):
        self.table.compact()

    def scan(self, start, count):
        return self.table[start:].__iter__().take(count)

    def all(self):
        return sum(1 for _ in self.table.items())

    def close(self):
        self.db.close()


class Plyvel:
    """LevelDB."""

    def __init__(self, path):
        import plyvel

        self.db = plyvel.DB(str(path), create_if_missing=True, lru_cache_size=512 << 20, write_buffer_size=64 << 20,
                            bloom_filter_bits=10)
        self.put, self.get = self.db.put, self.db.get

    def bulk(self, entries):
        for first in range(0, len(entries), 1000):
            with self.db.write_batch() as batch:
                for key, value in entries[first : first + 1000]:
                    batch.put(key, value)

    def settle(self):
        self.db.compact_range()

    def scan(self, start, count):
        found = []
        with self.db.iterator(start=start) as entries:
            for entry in entries:
                found.append(entry)
                if len(found) == count:
                    break
        return found

    def all(self):
        return sum(1 for _ in self.db)

    def close(self):
        self.db.close()


class Lmdb:
    """LMDB: each put a transaction of its own, the gets in one."""

    def __init__(self, path):
        import lmdb

        self.env = lmdb.open(str(path), map_size=8 << 30, sync=False, metasync=False, writemap=True)
        self.txn = None

    def put(self, key, value):
        with self.env.begin(write=True) as txn:
            txn.put(key, value)

    def bulk(self, entries):
        with self.env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(entries)

    def settle(self):
        self.txn = self.env.begin()
        self.get = self.txn.get

    def scan(self, start, count):
        found = []
        with self.txn.cursor() as cursor:
            if cursor.set_range(start):
                for entry in cursor.iternext():
                    found.append(entry)
                    if len(found) == count:
                        break
        return found

    def all(self):
        with self.txn.cursor() as cursor:
            return sum(1 for _ in cursor)

    def close(self):
        self.txn.abort()
        self.env.close()


class Sqlite:
    """SQLite, a table without rowid, WAL, synchronous off."""

    def __init__(self, path):
        path.mkdir()
        self.db = sqlite3.connect(path / "db", isolation_level=None, cached_statements=16)
        for pragma in ("journal_mode=wal", "synchronous=off", "cache_size=-524288", "mmap_size=1073741824"):
            self.db.execute(f"pragma {pragma}")
        self.db.execute("create table t (k blob primary key, v blob) without rowid")

    def put(self, key, value):
        self.db.execute("insert or replace into t values (?, ?)", (key, value))

    def get(self, key):
        return self.db.execute("select v from t where k = ?", (key,)).fetchone()[0]

    def bulk(self, entries):
        self.db.execute("begin")
        self.db.executemany("insert or replace into t values (?, ?)", entries)
        self.db.execute("commit")

    def settle(self):
        self.db.execute("pragma wal_checkpoint(truncate)")

    def scan(self, start, count):
        return self.db.execute("select k, v from t where k >= ? order by k limit ?", (start, count)).fetchall()

    def all(self):
        return sum(1 for _ in self.db.execute("select k, v from t"))

    def close(self):
        self.db.close()


STEPS = ("put", "get", "range of 10", "bulk", "scan")


def timed(count, work):
    """Thousands of operations a second."""
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin) / 1000


def measure(engine, root, keys):
    """The rates of one round."""
    chance = random.Random(7)
    names = [chance.randbytes(16) for _ in range(keys)]
    value = chance.randbytes(50) + bytes(50)
    entries = [(name, value) for name in names]
    some = chance.sample(names, min(keys, 50_000))
    rates = {}

    loaded = engine(root / "bulk")
    rates["bulk"] = timed(keys, lambda: loaded.bulk(entries))
    loaded.settle()
    for name in names:
        loaded.get(name)

    def get():
        find = loaded.get
        for name in names:
            find(name)

    rates["get"] = timed(keys, get)
    rates["range of 10"] = timed(len(some), lambda: [loaded.scan(name, 10) for name in some])
    rates["scan"] = timed(keys, loaded.all)
    loaded.close()

    single = engine(root / "put")

    def put():
        for name in some:
            single.put(name, value)

    rates["put"] = timed(len(some), put)
    single.settle()
    assert single.get(some[0]) == value
    single.close()
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rates = {}
    for _ in range(args.rounds):
        for engine in (Spinney, Plyvel, Lmdb, Sqlite):
            root = pathlib.Path(tempfile.mkdtemp())
            try:
                for step, rate in measure(engine, root, args.keys).items():
                    rates.setdefault(engine.__name__.lower(), {}).setdefault(step, []).append(rate)
            except ImportError as error:
                print(f"{engine.__name__.lower()} is left out: {error}")
            finally:
                shutil.rmtree(root)
    print(f"{'thousands/s':14}" + "".join(f"{step:>14}" for step in STEPS))
    for engine, steps in rates.items():
        print(f"{engine:14}" + "".join(f"{statistics.median(steps[step]):14.1f}" for step in STEPS))


if __name__ == "__main__":
    main()
