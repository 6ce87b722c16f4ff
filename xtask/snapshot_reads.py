"""Reads from a replica set of real processes by snapshot sessions of pymongo, beside transfers between accounts.

Writers move money between the accounts of two collections, in transactions. Readers open snapshot sessions with the
read preferences `secondary`, `nearest` and `primary`, so that reads of one session go to several members: each session
adds up both collections twice, once by `find` and once by a pipeline that looks the second collection up. All sums of
a session must be equal to what there was at the beginning, and both readings must be the same. A second kind of reader
writes an account of its own and reads it in a causally consistent session at any member: it must see its own write.

Usage: python snapshot_reads.py SERVER [--seconds S] [--members N] [--readers N] [--writers N] [--port P]
"""

import argparse
import collections
import random
import shutil
import tempfile
import threading
import time

from pymongo import ReadPreference
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

import replica_faults
from replica_faults import ReplicaSet, until

ACCOUNTS = 5
BALANCE = 100
PREFERENCES = {
    "secondary": ReadPreference.SECONDARY,
    "nearest": ReadPreference.NEAREST,
    "primary": ReadPreference.PRIMARY,
}


class Thread(threading.Thread):
    """Does one thing after another until the run ends, and counts what came of them."""

    def __init__(self, name, client, ending):
        super().__init__(name=name, daemon=True)
        self.client, self.ending, self.random = client, ending, random.Random(name)
        self.counts, self.wrong, self.longest = collections.Counter(), [], 0.0

    def run(self):
        while not self.ending.is_set():
            start = time.monotonic()
            try:
                self.do()
                self.counts["done"] += 1
            except OperationFailure as error:
                self.counts[error.code] += 1
            except PyMongoError as error:
                self.counts[type(error).__name__] += 1
            self.longest = max(self.longest, time.monotonic() - start)


class Writer(Thread):
    """Moves money between two accounts."""

    def do(self):
        amount = self.random.randrange(1, 8)

        def move(session):
            for change in -amount, amount:
                accounts = self.client.bank[self.random.choice("xy")]
                account = {"_id": self.random.randrange(ACCOUNTS)}
                accounts.update_one(account, {"$inc": {"balance": change}}, session=session)

        with self.client.start_session() as session:
            session.with_transaction(move)


class Reader(Thread):
    """Adds up all accounts in snapshot sessions."""

    def __init__(self, name, client, ending, preference):
        super().__init__(name, client, ending)
        bank = client.get_database("bank", read_preference=preference)
        self.x, self.y = bank.x, bank.y

    def do(self):
        with self.client.start_session(snapshot=True) as session:
            first = self.balances(session)
            # So that other commits come between.
            time.sleep(self.random.choice([0, 0, 0.01, 0.1]))
            lookup = {"from": "y", "pipeline": [{"$sort": {"_id": 1}}], "as": "ys"}
            rows = list(self.x.aggregate([{"$sort": {"_id": 1}}, {"$lookup": lookup}], session=session, batchSize=2))
            joined = [row["balance"] for row in rows] + [row["balance"] for row in rows[0]["ys"]]
            second = self.balances(session)
        total = 2 * ACCOUNTS * BALANCE
        if not (first == joined == second and sum(first) == total):
            self.wrong.append((first, joined, second))

    def balances(self, session):
        found = [list(accounts.find(session=session).sort("_id").batch_size(2)) for accounts in (self.x, self.y)]
        return [account["balance"] for accounts in found for account in accounts]


class Causal(Thread):
    """Reads at any member what it has written itself."""

    def do(self):
        value = self.counts["done"] + 1
        own = {"_id": self.name}
        written = self.client.bank.get_collection("own", write_concern=WriteConcern("majority"))
        read = self.client.bank.get_collection("own", read_preference=ReadPreference.NEAREST)
        with self.client.start_session(causal_consistency=True) as session:
            written.update_one(own, {"$set": {"value": value}}, upsert=True, session=session)
            found = read.find_one(own, session=session)
        if found is None or found["value"] != value:
            self.wrong.append((value, found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--readers", type=int, default=2, help="of each read preference")
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--port", type=int, default=replica_faults.PORT)
    arguments = parser.parse_args()
    replica_faults.PORT = arguments.port
    folder = tempfile.mkdtemp(prefix="spinney-snapshots-")
    replica_set = ReplicaSet(arguments.server, folder, arguments.members, False, None)
    try:
        run(arguments, replica_set)
    finally:
        replica_set.end()
        shutil.rmtree(folder, ignore_errors=True)


def run(arguments, replica_set):
    for member in replica_set.members:
        member.start()
    until("equal members", lambda: replica_set.is_whole())
    client = replica_set.client()
    for name in "xy":
        client.bank[name].insert_many([{"_id": number, "balance": BALANCE} for number in range(ACCOUNTS)])
    until("equal members", lambda: replica_set.is_whole())
    ending = threading.Event()
    threads = [Writer(f"transfers {number}", replica_set.client(), ending) for number in range(arguments.writers)]
    for name, preference in PREFERENCES.items():
        for number in range(arguments.readers):
            threads.append(Reader(f"{name} {number}", replica_set.client(), ending, preference))
    threads.append(Causal("causal", replica_set.client(), ending))
    for thread in threads:
        thread.start()
    time.sleep(arguments.seconds)
    ending.set()
    wrong = []
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), f"'{thread.name}' has no answer"
        wrong += thread.wrong
        print(f"{thread.name}: {dict(thread.counts)}, {thread.longest:.2f} s at most, {len(thread.wrong)} wrong")
    done = sum(thread.counts["done"] for thread in threads)
    print(f"{done} in {arguments.seconds:.0f} s, {len(wrong)} wrong")
    assert not wrong, f"not one state: {wrong[0]}"
    quiet = [thread.name for thread in threads if thread.counts["done"] == 0]
    assert not quiet, f"nothing was done by {quiet}"


if __name__ == "__main__":
    main()
