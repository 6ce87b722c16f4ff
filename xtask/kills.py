"""Kills the server again and again while clients write by pymongo, and checks what is left.

Each round: threads insert, update, push and move documents, half of them in transactions; the server is killed and
started again; the threads go on until their statements are answered, and wait. Then

- every acknowledged document is there, and no document is there that nobody has sent;
- every counter has been increased once for each acknowledged increment, and at most once for each that failed;
- no list has an element twice;
- a transaction has happened in all of its collections, or in none;
- each index agrees with its collection.

Usage: python kills.py SERVER [--rounds N] [--threads N] [--standalone] [--port N]
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pymongo
from pymongo import InsertOne, MongoClient, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.write_concern import WriteConcern

# Collections are new after so many rounds, so that a check reads few documents.
ROUNDS_OF_COLLECTION = 10


class Server:
    """The server's process."""

    def __init__(self, binary, folder, port, standalone):
        self.words = [binary, "serve", os.path.join(folder, "db"), "--listen", f"127.0.0.1:{port}"]
        if not standalone:
            self.words += ["--replSet", "rs0", "--oplogSize", "64"]
        self.errors = open(os.path.join(folder, "errors"), "ab")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=self.errors)
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the server did not start: {self.process.wait()}")
            if line.startswith(b"listening"):
                return

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Writer(threading.Thread):
    """A thread that writes. What it was told is in its fields, which are read while it waits."""

    def __init__(self, number, client, standalone):
        super().__init__(daemon=True)
        self.number, self.client, self.standalone = number, client, standalone
        self.random = random.Random(number)
        self.may_write, self.waits = threading.Event(), threading.Event()
        self.next_id = 0
        self.failure = None
        self.begin("none")

    def begin(self, name):
        """Goes on in other collections."""
        self.name = name
        self.acknowledged, self.unknown = {}, {}
        self.increments = [0, 0]
        self.pushed, self.maybe_pushed = set(), set()
        self.pairs, self.maybe_pairs = set(), set()
        self.statements = self.failed = 0

    def collection(self, name):
        database = self.client.get_database("kills", write_concern=WriteConcern("majority"))
        return database[f"{self.name}_{name}"]

    def run(self):
        try:
            while True:
                if not self.may_write.is_set():
                    self.waits.set()
                    self.may_write.wait()
                    self.waits.clear()
                self.statement()
        except BaseException as error:  # noqa: BLE001
            self.failure = error
            self.waits.set()

    def statement(self):
        kinds = [self.insert, self.insert_many, self.increment, self.push, self.bulk]
        if not self.standalone:
            kinds += [self.transaction, self.transaction, self.find_and_modify]
        kind = self.random.choice(kinds)
        self.statements += 1
        self.next_id += 1
        try:
            kind(f"{self.number}.{self.next_id}")
        except BulkWriteError as error:
            raise AssertionError(f"a write was refused: {error.details}") from error
        except PyMongoError as error:
            # Nothing is known of it but that it was done once at most.
            if getattr(error, "code", None) == 11000 and not self.standalone:
                raise AssertionError(f"a write was done twice: {error}") from error
            self.failed += 1

    def document(self, name):
        numbers = self.random.sample(range(50), 3)
        return {"_id": name, "thread": self.number, "a": numbers, "b": {"c": numbers[0]}, "u": name, "t": "x" * 100}

    def told(self, documents, send):
        """Sends documents; whether it was acknowledged."""
        for document in documents:
            self.unknown[document["_id"]] = document
        send()
        for document in documents:
            self.acknowledged[document["_id"]] = self.unknown.pop(document["_id"])

    def insert(self, name):
        document = self.document(name)
        self.told([document], lambda: self.collection("items").insert_one(document))

    def insert_many(self, name):
        documents = [self.document(f"{name}.{number}") for number in range(self.random.randint(2, 20))]
        self.told(documents, lambda: self.collection("items").insert_many(documents))

    def bulk(self, name):
        documents = [self.document(f"{name}.{number}") for number in range(3)]
        self.increments[1] += 1
        request = [InsertOne(document) for document in documents] + [UpdateOne({"_id": self.number}, {"$inc": {"n": 1}})]
        # The counter is in a collection of its own.
        self.told(documents, lambda: self.collection("items").bulk_write(request[:3]))
        self.collection("counters").bulk_write(request[3:])
        self.increments[0] += 1
        self.increments[1] -= 1

    def increment(self, _):
        self.increments[1] += 1
        self.collection("counters").update_one({"_id": self.number}, {"$inc": {"n": 1}})
        self.increments[0] += 1
        self.increments[1] -= 1

    def find_and_modify(self, _):
        self.increments[1] += 1
        self.collection("counters").find_one_and_update({"_id": self.number}, {"$inc": {"n": 1}})
        self.increments[0] += 1
        self.increments[1] -= 1

    def push(self, name):
        self.maybe_pushed.add(name)
        self.collection("counters").update_one({"_id": self.number}, {"$push": {"list": name}})
        self.maybe_pushed.remove(name)
        self.pushed.add(name)

    def transaction(self, name):
        """A document in two collections, and an increment."""
        self.maybe_pairs.add(name)
        self.increments[1] += 1

        def body(session):
            self.collection("left").insert_one({"_id": name, "thread": self.number}, session=session)
            self.collection("counters").update_one({"_id": self.number}, {"$inc": {"n": 1}}, session=session)
            self.collection("right").insert_one({"_id": name, "thread": self.number}, session=session)

        with self.client.start_session() as session:
            session.with_transaction(body, write_concern=WriteConcern("majority"))
        self.maybe_pairs.remove(name)
        self.pairs.add(name)
        self.increments[0] += 1
        self.increments[1] -= 1

    def check(self):
        """What the server has must be what this thread was told."""
        by_thread = {"thread": self.number}
        there = {document["_id"]: document for document in self.collection("items").find(by_thread)}
        for name, document in self.acknowledged.items():
            assert there.get(name) == document, f"lost or changed: {name} {there.get(name)}"
        for name, document in there.items():
            assert self.acknowledged.get(name) == document or self.unknown.get(name) == document, f"invented: {name}"
        counter = self.collection("counters").find_one({"_id": self.number})
        done, maybe = self.increments
        assert done <= counter["n"] <= done + maybe, f"{counter['n']} increments, {done} and perhaps {maybe} were sent"
        pushed = counter["list"]
        assert len(set(pushed)) == len(pushed), f"twice in a list: {pushed}"
        assert self.pushed <= set(pushed) <= self.pushed | self.maybe_pushed, "a list lost or invented an element"
        sides = [{document["_id"] for document in self.collection(side).find(by_thread)} for side in ("left", "right")]
        assert sides[0] == sides[1], f"half of a transaction: {sides[0] ^ sides[1]}"
        assert self.pairs <= sides[0] <= self.pairs | self.maybe_pairs, "a transaction was lost or invented"


def prepare(client, name, writers):
    """New collections, with an index of each kind."""
    database = client["kills"]
    items = database[f"{name}_items"]
    items.create_index("a")
    items.create_index([("b.c", -1), ("thread", 1)])
    items.create_index("u", unique=True)
    items.create_index("thread", partialFilterExpression={"b.c": {"$gt": 25}}, name="partial")
    items.create_index("$**")
    items.create_index([("t", "hashed")])
    counters = database.get_collection(f"{name}_counters", write_concern=WriteConcern("majority"))
    for writer in writers:
        counters.insert_one({"_id": writer.number, "n": 0, "list": []})
        writer.begin(name)
    for side in ("left", "right"):
        database.create_collection(f"{name}_{side}").create_index("thread")


def validate(client, names):
    for name in names:
        told = client["kills"].validate_collection(name, full=True)
        assert told["valid"], f"{name} is not valid: {told}"


def rounds(server, client, writers, arguments):
    """Plays the rounds; how many statements were sent, and how many failed."""
    chance = random.Random(arguments.seed)
    totals = [0, 0]
    for number in range(arguments.rounds):
        if number % ROUNDS_OF_COLLECTION == 0:
            for writer in writers:
                totals = [totals[0] + writer.statements, totals[1] + writer.failed]
            prepare(client, f"c{number // ROUNDS_OF_COLLECTION}", writers)
        for writer in writers:
            writer.may_write.set()
        time.sleep(chance.uniform(0.05, 0.5))
        server.kill()
        server.start()
        for writer in writers:
            writer.may_write.clear()
        for writer in writers:
            assert writer.waits.wait(60), f"thread {writer.number} waits for an answer"
            if writer.failure is not None:
                raise writer.failure
        for writer in writers:
            writer.check()
        validate(client, [f"{writers[0].name}_{part}" for part in ("items", "counters", "left", "right")])
        if (number + 1) % 50 == 0:
            print(f"round {number + 1}: {totals[0]} statements, {totals[1]} without an answer", flush=True)
    for writer in writers:
        totals = [totals[0] + writer.statements, totals[1] + writer.failed]
    validate(client, client["kills"].list_collection_names())
    return totals


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--port", type=int, default=27117)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--standalone", action="store_true")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="spinney-kills-")
    server = Server(arguments.server, folder, arguments.port, arguments.standalone)
    server.start()
    more = {"directConnection": True} if arguments.standalone else {"replicaSet": "rs0"}
    client = MongoClient("127.0.0.1", arguments.port, serverSelectionTimeoutMS=30000, retryWrites=True, **more)
    writers = [Writer(number, client, arguments.standalone) for number in range(arguments.threads)]
    for writer in writers:
        writer.start()
        writer.waits.wait()
    begun = time.monotonic()
    try:
        statements, failed = rounds(server, client, writers, arguments)
    except BaseException:
        print(f"the database stays in {folder}", file=sys.stderr)
        raise
    finally:
        server.kill()
    shutil.rmtree(folder)
    print(
        f"{arguments.rounds} kills, {statements} statements, {failed} without an answer, "
        f"{time.monotonic() - begun:.0f} s: nothing lost, nothing twice, all indexes valid"
    )


if __name__ == "__main__":
    assert pymongo.version_tuple >= (4, 0)
    main()
