"""What a client can make long, on a server with little memory: how long each takes, beside what it may take.

Each step fills what it needs, and prints a line of the table. A figure over its bound fails the command.

- lists: a find by `$in` of 40,000 ObjectIds, of half of all documents by `_id` and by an index, and by an `$or` of
  10,000 values: the time to the first batch.
- windows: a sum and a maximum of the last 1,000 of a million rows.
- retries: updates in one bulk write, retryable against not retryable.
- changes: while a transaction holds one collection and an index is to be built on it, how long others wait, who write
  to new and old collections and change the catalog.
- opening: from the start of the process until it answers, with a log that is kept, after an orderly end and a kill.
- checkpoint: inserts a second while `spinney checkpoint` runs, against those without.

Usage: python limits.py SERVER [--only STEP,..] [--documents N] [--folder DIR]
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from pymongo import MongoClient, UpdateOne, WriteConcern
from pymongo.errors import PyMongoError
from bson import ObjectId

MEMORY = "64MiB"
BATCH = 10_000


class Server:
    """The process of a server that appears as a set of one."""

    def __init__(self, binary, folder, *options):
        self.binary, self.folder = binary, os.path.join(folder, "db")
        self.words = [binary, "serve", self.folder, "--listen", "127.0.0.1:0", "--replSet", "rs0", *options]
        self.process = self.client = None

    def start(self):
        """How long it takes until a client has an answer."""
        begun = time.monotonic()
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = next((line for line in self.process.stdout if line.startswith("listening")), None)
        if line is None:
            raise SystemExit(f"the server did not start: {self.process.wait()}")
        address = line.split()[2].rstrip(":")
        self.uri = f"mongodb://{address}/?directConnection=true"
        self.client = MongoClient(self.uri, retryWrites=True)
        self.client.admin.command("ping")
        return time.monotonic() - begun

    def end(self, kill=False):
        self.client.close()
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Table:
    """The lines of the table, and whether all figures are within their bounds."""

    def __init__(self):
        self.is_kept = True

    def line(self, step, what, figure, bound, unit="s", least=False):
        kept = figure >= bound if least else figure <= bound
        self.is_kept &= kept
        sign = "≥" if least else "≤"
        print(f"{step:<10} {what:<64} {figure:>9.3f} {unit:<2} {sign} {bound}{'' if kept else '  MISSED'}", flush=True)


def fill(collection, documents):
    """Inserts documents in batches."""
    batch = []
    for document in documents:
        batch.append(document)
        if len(batch) == BATCH:
            collection.insert_many(batch, ordered=False)
            batch = []
    if batch:
        collection.insert_many(batch, ordered=False)


def first_batch(collection, query):
    """How long a find takes until its first batch is there: the median of three."""
    times = []
    for _ in range(3):
        begun = time.monotonic()
        with collection.find(query, batch_size=101) as cursor:
            next(cursor)
            times.append(time.monotonic() - begun)
    return statistics.median(times)


def lists(server, table, documents):
    database = server.client.limits
    # As in a list of ids that another collection gave.
    shuffled = list(range(documents))
    random.Random(1).shuffle(shuffled)
    fill(database.numbers, ({"_id": number, "a": a} for number, a in enumerate(shuffled)))
    database.numbers.create_index("a")
    ids = [ObjectId() for _ in range(max(80_000, documents // 10))]
    fill(database.ids, ({"_id": id} for id in ids))
    asked = random.Random(2).sample(ids, 40_000)
    table.line("lists", "$in of 40,000 ObjectIds", first_batch(database.ids, {"_id": {"$in": asked}}), 0.1)
    half = shuffled[: documents // 2]
    for field in ["_id", "a"]:
        took = first_batch(database.numbers, {field: {"$in": half}})
        table.line("lists", f"$in of {len(half):,} int32, {field}, of {documents:,} documents", took, 2)
    took = first_batch(database.numbers, {"$or": [{"a": a} for a in shuffled[:10_000]]})
    table.line("lists", "$or of 10,000", took, 0.2)


def windows(server, table, documents):
    rows = server.client.limits.rows
    count = documents // 2
    fill(rows, ({"_id": number, "a": number * 7919 % 10_007} for number in range(count)))
    last = {"documents": [-999, "current"]}
    output = {"sum": {"$sum": "$a", "window": last}, "max": {"$max": "$a", "window": last}}
    pipeline = [{"$setWindowFields": {"sortBy": {"_id": 1}, "output": output}},
                {"$group": {"_id": None, "sum": {"$sum": "$sum"}, "max": {"$max": "$max"}}}]
    begun = time.monotonic()
    found = list(rows.aggregate(pipeline, allowDiskUse=True))
    took = time.monotonic() - begun
    assert found[0]["max"] == 10_006, found
    table.line("windows", f"a sum and a maximum of the last 1,000 of {count:,} rows", took, 3)


def retries(server, table, documents):
    count = documents // 20
    collection = server.client.limits.counters
    fill(collection, ({"_id": number, "n": 0} for number in range(count)))
    took = {True: [], False: []}
    for _ in range(3):
        for retryable in took:
            with MongoClient(server.uri, retryWrites=retryable) as client:
                updates = [UpdateOne({"_id": number}, {"$inc": {"n": 1}}) for number in range(count)]
                begun = time.monotonic()
                client.limits.counters.bulk_write(updates)
                took[retryable].append(time.monotonic() - begun)
    ratio = statistics.median(took[True]) / statistics.median(took[False])
    table.line("retries", f"{count:,} retryable updates against not retryable", ratio, 1.2, "")


def changes(server, table, _):
    database = server.client.changes
    for name in ["held", "other"]:
        database[name].insert_one({"_id": 0})
    longest, ended = [0.0], threading.Event()

    def work():
        with MongoClient(server.uri) as client:
            own = client.changes
            actions = [
                lambda at: own.other.insert_one({"at": at}),
                lambda at: own[f"new{at}"].insert_one({"at": at}),
                lambda at: own.other.create_index("at"),
                lambda at: own.other.drop_index("at_1"),
                lambda at: own.drop_collection(f"new{at - 3}"),
            ]
            at = 0
            while not ended.is_set():
                begun = time.monotonic()
                actions[at % len(actions)](at)
                if not ended.is_set():
                    longest[0] = max(longest[0], time.monotonic() - begun)
                at += 1
                time.sleep(0.02)

    def build():
        try:
            with MongoClient(server.uri) as client:
                client.changes.held.create_index("a")
        except PyMongoError:
            pass

    with server.client.start_session() as session, session.start_transaction():
        database.held.insert_one({"_id": 1}, session=session)
        builder, worker = threading.Thread(target=build), threading.Thread(target=work)
        builder.start()
        worker.start()
        time.sleep(4)
        ended.set()
        worker.join()
    builder.join()
    table.line("changes", "others beside a build that waits for a transaction: longest wait", longest[0], 0.05)


def opening(server, table, documents):
    collection = server.client.limits.logged
    text, megabytes = "x" * 1000, documents // 2000
    for _ in range(megabytes):
        collection.insert_many([{"text": text} for _ in range(1000)])
    for kill, what in [(False, "an orderly end"), (True, "a kill")]:
        collection.insert_one({})
        server.end(kill)
        took = server.start()
        log = sum(entry.stat().st_size for entry in os.scandir(os.path.join(server.folder, "log")))
        # Behind a kill the log since the last flush is read: told, and not bounded.
        bound = 0.3 if not kill else 5
        table.line("opening", f"until the first answer after {what}, {log >> 20:,} MiB of log kept", took, bound)
        collection = server.client.limits.logged


def checkpoint(server, table, documents):
    counts, ended = [0] * 4, threading.Event()

    def work(number):
        with MongoClient(server.uri) as client:
            collection = client.limits[f"busy{number}"].with_options(write_concern=WriteConcern(w=1, j=False))
            while not ended.is_set():
                collection.insert_many([{"text": "x" * 200} for _ in range(20)])
                counts[number] += 20

    workers = [threading.Thread(target=work, args=[number]) for number in range(len(counts))]
    [worker.start() for worker in workers]
    rates, target = {True: [], False: []}, os.path.join(os.path.dirname(server.folder), "copy")
    time.sleep(2)
    for _ in range(5):
        for copies in [False, True]:
            shutil.rmtree(target, ignore_errors=True)
            before, begun = sum(counts), time.monotonic()
            if copies:
                words = [server.binary, "checkpoint", server.folder, target]
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            else:
                time.sleep(2)
            rates[copies].append((sum(counts) - before) / (time.monotonic() - begun))
    ended.set()
    [worker.join() for worker in workers]
    subprocess.run([server.binary, "verify", target, "--documents"], check=True, stdout=subprocess.DEVNULL)
    ratio = statistics.median(rates[True]) / statistics.median(rates[False])
    table.line("checkpoint", "inserts a second beside it, against without", ratio, 0.9, "", least=True)


STEPS = {step.__name__: step for step in [lists, windows, retries, changes, opening, checkpoint]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("--only", default=",".join(STEPS), help=f"of {', '.join(STEPS)}")
    parser.add_argument("--documents", type=int, default=2_000_000)
    parser.add_argument("--folder", help="for the database")
    options = parser.parse_args()
    table = Table()
    for name in options.only.split(","):
        folder = tempfile.mkdtemp(prefix="limits-", dir=options.folder)
        server = Server(options.server, folder, "--memory", MEMORY)
        server.start()
        try:
            STEPS[name](server, table, options.documents)
        finally:
            server.end(kill=True)
            shutil.rmtree(folder)
    sys.exit(0 if table.is_kept else 1)


if __name__ == "__main__":
    main()
