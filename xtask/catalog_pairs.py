"""Runs random pairs of catalog operations beside each other on real processes, ends these, and looks what comes back.

The operations are those that create, change and drop collections, views and indexes: create, drop, dropDatabase,
renameCollection with and without dropTarget, createIndexes and dropIndexes of all kinds, collMod, convertToCapped,
$out, $merge, and transactions that create collections. They use few names, so that they meet. In each round two of them
run again and again in threads of their own, with inserts beside them; then one process or all of them are killed, or
ended in order, in the middle or after the threads have stopped; and are started again. Then

- each process starts, serves within a minute, and none ends by itself;
- all members list the same databases, collections (with options and UUIDs) and indexes, and have the same documents;
- validate says of every collection at every member that it is valid, and every index finds what a scan finds;
- no answer says that data is damaged, or that the server met a fault of its own.

A deployment is one server, or a set of three members on loopback. Each has its rounds.

Usage: python catalog_pairs.py SERVER [--rounds N] [--first N] [--seed N] [--seconds S] [--kind server|set]
       [--pair a,b] [--port N] [--keep]
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from pymongo import MongoClient, ReadPreference
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

PORT = 27317
DATABASES = ("d", "e")
COLLECTIONS = ("a", "b", "c")
# How long a process may take to serve, and the members to be the same.
RECOVERY_S = 60
# DataCorruptionDetected and InternalError: nothing that a client does may lead to them.
NEVER = {374, 1}


class Process:
    """A process of the server."""

    def __init__(self, binary, folder, number, addresses, in_set):
        self.address, self.log = addresses[number], os.path.join(folder, f"member{number}.log")
        self.words = [binary, "serve", os.path.join(folder, f"member{number}"), "--listen", self.address]
        self.words += ["--memory", "64MiB"]
        if in_set:
            self.words += ["--replSet", "rs0", "--oplogSize", "64", "--members", ",".join(addresses)]
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)

    def end(self, number):
        """Ends it by a signal; it has 30 s for that."""
        self.process.send_signal(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.address} does not end 30 s after SIGTERM") from None

    def check(self):
        """It runs."""
        assert self.process.poll() is None, f"{self.address} ended by itself ({self.process.returncode}): {self.last()}"

    def last(self):
        """The last errors of its log."""
        with open(self.log, errors="replace", encoding="utf-8") as log:
            lines = log.readlines()
        return " | ".join(line.strip() for line in lines[-3:])

    def client(self):
        host, port = self.address.rsplit(":", 1)
        preference = ReadPreference.SECONDARY_PREFERRED
        return MongoClient(
            host, int(port), directConnection=True, read_preference=preference,
            serverSelectionTimeoutMS=2000, socketTimeoutMS=30000,
        )  # fmt: skip


class Deployment:
    """One server, or the members of a set."""

    def __init__(self, binary, folder, port, members):
        self.in_set = members > 1
        self.addresses = [f"127.0.0.1:{port + number}" for number in range(members)]
        os.mkdir(folder)
        self.processes = [Process(binary, folder, number, self.addresses, self.in_set) for number in range(members)]
        for process in self.processes:
            process.start()

    def client(self):
        names = ",".join(self.addresses)
        more = "?replicaSet=rs0" if self.in_set else "?directConnection=true"
        return MongoClient(
            f"mongodb://{names}/{more}", serverSelectionTimeoutMS=5000, socketTimeoutMS=30000,
            connectTimeoutMS=2000, heartbeatFrequencyMS=1000,
        )  # fmt: skip

    def check(self):
        for process in self.processes:
            process.check()

    def wait(self):
        """Waits until all serve, and there is a primary."""

        def serves():
            self.check()
            for process in self.processes:
                with process.client() as client:
                    hello = client.admin.command("hello")
                    if not (hello.get("isWritablePrimary") or hello.get("secondary")):
                        return False
            with self.client() as client:
                client.x.get_collection("x", write_concern=WriteConcern("majority")).insert_one({})
            return True

        until("all processes serve", serves)

    def kill(self):
        for process in self.processes:
            if process.process and process.process.poll() is None:
                process.process.kill()
                process.process.wait()


def until(what, check, seconds=RECOVERY_S):
    """Waits until a check holds; errors of a server that is not there yet count as no."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if check():
                return
        except PyMongoError as error:
            last = error
        time.sleep(0.05)
    raise AssertionError(f"not so within {seconds} s: {what}; the last error: {last}")


class Operations:
    """The operations on the catalog: each is a method of a name that tells what it does."""

    def __init__(self, client, chance):
        self.client, self.chance = client, chance

    def database(self):
        return self.client[self.chance.choice(DATABASES[:1] * 3 + DATABASES)]

    def name(self):
        return self.chance.choice(COLLECTIONS[:1] * 2 + COLLECTIONS)

    def collection(self):
        return self.database()[self.name()]

    def key(self):
        return self.chance.choice([[("x", 1)], [("y", -1)], [("x", 1), ("y", 1)], [("z", "hashed")], [("$**", 1)]])

    def create(self):
        options = self.chance.choice([
            {}, {}, {"capped": True, "size": 1 << 16}, {"validator": {"x": {"$gte": 0}}},
            {"collation": {"locale": "en", "strength": 2}}, {"changeStreamPreAndPostImages": {"enabled": True}},
        ])  # fmt: skip
        self.database().command("create", self.name(), **options)

    def create_view(self):
        self.database().command("create", "v", viewOn=self.name(), pipeline=[{"$match": {"x": {"$gt": 1}}}])

    def drop_view(self):
        self.database().drop_collection("v")

    def drop(self):
        self.database().command("drop", self.name())

    def drop_database(self):
        self.database().command("dropDatabase")

    def rename(self):
        self.move(False)

    def rename_over(self):
        self.move(True)

    def move(self, drops_target):
        source, target = (f"{self.database().name}.{self.name()}" for _ in range(2))
        self.client.admin.command("renameCollection", source, to=target, dropTarget=drops_target)

    def create_index(self):
        options = self.chance.choice([{}, {}, {"unique": True}, {"sparse": True}, {"hidden": True}])
        self.collection().create_index(self.key(), **options)

    def create_indexes(self):
        keys = [{"key": {name: 1}, "name": name} for name in ("x", "y", "w")]
        self.database().command("createIndexes", self.name(), indexes=keys)

    def create_ttl_index(self):
        self.collection().create_index("t", expireAfterSeconds=self.chance.choice([0, 3600]), name="ttl")

    def drop_index(self):
        self.database().command("dropIndexes", self.name(), index=dict(self.key()))

    def drop_indexes(self):
        self.database().command("dropIndexes", self.name(), index="*")

    def coll_mod(self):
        validator = self.chance.choice([{}, {"x": {"$gte": 0}}])
        self.database().command("collMod", self.name(), validator=validator)

    def coll_mod_index(self):
        change = self.chance.choice([{"name": "ttl", "expireAfterSeconds": 7200}, {"name": "x_1", "hidden": True}])
        self.database().command("collMod", self.name(), index=change)

    def convert_to_capped(self):
        self.database().command("convertToCapped", self.name(), size=1 << 16)

    def clone_as_capped(self):
        self.database().command("cloneCollectionAsCapped", self.name(), toCollection=self.name(), size=1 << 16)

    def re_index(self):
        self.database().command("reIndex", self.name())

    def out(self):
        target = {"db": self.database().name, "coll": self.name()}
        self.collection().aggregate([{"$match": {"x": {"$lt": 50}}}, {"$out": target}])

    def merge(self):
        target = {"db": self.database().name, "coll": self.name()}
        self.collection().aggregate([{"$set": {"m": 1}}, {"$merge": {"into": target, "whenMatched": "replace"}}])

    def transaction(self):
        with self.client.start_session() as session, session.start_transaction():
            database = self.database()
            if self.chance.random() < 0.5:
                database.create_collection(self.name(), session=session)
            else:
                database[self.name()].create_index("x", session=session)
            database[self.name()].insert_one(self.document(), session=session)

    def document(self):
        number = self.chance.randrange(100)
        return {"x": number, "y": [number, number + 1], "z": str(number), "w": {"v": number}}

    def insert(self):
        self.collection().insert_many([self.document() for _ in range(self.chance.choice([1, 5, 50]))], ordered=False)


# What is not an operation by itself, and the inserts, which are beside each pair.
PARTS = {"database", "name", "collection", "key", "document", "move", "insert"}
KINDS = sorted(name for name in vars(Operations) if not name.startswith("_") and name not in PARTS)


class Worker(threading.Thread):
    """A thread that does one kind of operation again and again."""

    def __init__(self, deployment, kind, seed, ending):
        super().__init__(daemon=True)
        self.deployment, self.kind, self.seed, self.ending = deployment, kind, seed, ending
        self.done, self.refused, self.failure = 0, 0, None

    def run(self):
        with self.deployment.client() as client:
            act = getattr(Operations(client, random.Random(self.seed)), self.kind)
            while not self.ending.is_set() and self.failure is None:
                self.once(act)

    def once(self, act):
        try:
            act()
            self.done += 1
        except OperationFailure as error:
            self.refused += 1
            if error.code in NEVER:
                self.failure = f"{self.kind} was answered with {error.code}: {error}"
        except ConnectionFailure:
            self.refused += 1
            self.ending.wait(0.05)
        except PyMongoError:
            self.refused += 1


def catalog(process):
    """What a process lists, and counts of what it has."""
    found = {}
    with process.client() as client:
        names = [name for name in client.list_database_names() if name in DATABASES]
        for name in names:
            database = client[name]
            for row in database.list_collections():
                told = {"type": row["type"], "options": row["options"], "uuid": row["info"].get("uuid")}
                if row["type"] == "collection" and not row["name"].startswith("system."):
                    collection = database[row["name"]]
                    told["indexes"] = sorted(str(dict(index)) for index in collection.list_indexes())
                    told["documents"] = collection.count_documents({})
                found[f"{name}.{row['name']}"] = told
    return found


def validate(process):
    """Whether all collections of a process are valid, and their indexes agree."""
    with process.client() as client:
        for space, told in catalog(process).items():
            name, _, collection = space.partition(".")
            if "indexes" not in told:
                continue
            result = client[name].command("validate", collection, full=True)
            assert result["valid"], f"{space} of {process.address} is not valid: {result}"
            documents = client[name][collection]
            scanned = sum(1 for _ in documents.find({}, {"_id": 1}).hint([("$natural", 1)]))
            counted = documents.count_documents({})
            assert scanned == counted, f"{space} of {process.address}: {counted} are counted, {scanned} are there"


def check(deployment):
    """All is as it must be after a round."""
    deployment.wait()
    states = []

    def same():
        deployment.check()
        states[:] = [catalog(process) for process in deployment.processes]
        return all(state == states[0] for state in states)

    try:
        until("all members list the same catalog", same, 20)
    except AssertionError as error:
        differences = [
            f"{space}: {[state.get(space) for state in states]}"
            for space in sorted(set().union(*states))
            if any(state.get(space) != states[0].get(space) for state in states)
        ]
        raise AssertionError(f"{error}: {differences[:3]}") from None
    for process in deployment.processes:
        validate(process)
    deployment.check()


def play(deployment, pair, seconds, chance):
    """One round; how many operations were done and refused."""
    ending = threading.Event()
    kinds = [*pair, "insert"]
    workers = [Worker(deployment, kind, chance.random(), ending) for kind in kinds]
    for worker in workers:
        worker.start()
    ending.wait(seconds)
    deployment.check()
    processes = deployment.processes if chance.random() < 0.5 else [chance.choice(deployment.processes)]
    number = chance.choice([signal.SIGKILL, signal.SIGTERM])
    is_in_the_middle = chance.random() < 0.5
    if not is_in_the_middle:
        ending.set()
        join(workers)
    for process in processes:
        process.end(number)
    ending.set()
    for process in processes:
        process.start()
    deployment.wait()
    join(workers)
    check(deployment)
    how = f"{number.name} of {len(processes)}{' in the middle' if is_in_the_middle else ''}"
    return sum(worker.done for worker in workers), sum(worker.refused for worker in workers), how


def join(workers):
    for worker in workers:
        worker.join(90)
        assert not worker.is_alive(), f"{worker.kind} waits for an answer"
        assert worker.failure is None, worker.failure


def rounds(arguments, kind, members):
    """Plays the rounds of one kind of deployment."""
    folder = tempfile.mkdtemp(prefix=f"spinney-catalog-{kind}-")
    deployment, begun, total = None, time.monotonic(), 0
    try:
        deployment = Deployment(arguments.server, os.path.join(folder, "db"), arguments.port, members)
        deployment.wait()
        for number in range(arguments.first, arguments.first + arguments.rounds):
            chance = random.Random(f"{arguments.seed}.{kind}.{number}")
            pair = arguments.pair.split(",") if arguments.pair else chance.sample(KINDS, 2)
            try:
                done, refused, how = play(deployment, pair, arguments.seconds, chance)
            except AssertionError as error:
                raise SystemExit(
                    f"{kind}, round {number}, {' beside '.join(pair)}: {error}\n"
                    f"the files stay in {folder}; replay: catalog_pairs.py SERVER --kind {kind} --seed {arguments.seed} "
                    f"--first {number} --rounds 20 --pair {','.join(pair)}"
                ) from error
            total += done
            print(f"{kind}, round {number}, {' beside '.join(pair)}, {how}: {done} done, {refused} refused", flush=True)
    finally:
        if deployment:
            deployment.kill()
    if not arguments.keep:
        shutil.rmtree(folder)
    spent = time.monotonic() - begun
    print(f"{kind}: {arguments.rounds} rounds, {total} operations, {spent:.0f} s: all started, all agree", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--rounds", type=int, default=10, help="of each kind of deployment")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="that a pair runs")
    parser.add_argument("--kind", choices=["server", "set"], help="only this deployment")
    parser.add_argument("--pair", help="only these two operations, with a comma between them")
    parser.add_argument("--port", type=int, default=PORT, help="the first of three")
    parser.add_argument("--keep", action="store_true", help="keep the files of a good run")
    arguments = parser.parse_args()
    for kind, members in (("server", 1), ("set", 3)):
        if arguments.kind in (None, kind):
            with contextlib.suppress(BrokenPipeError):
                rounds(arguments, kind, members)


if __name__ == "__main__":
    sys.exit(main())
