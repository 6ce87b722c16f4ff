"""How long a replica set is without a primary, as a client of pymongo sees it that only writes.

Writers insert with `majority` and retryable writes; the primary is killed, and started again, or asked to step down, so
many times. Every write must succeed. Printed is the longest time that a writer waited for an answer each time.

Usage: python replica_failover.py SERVER [--times N] [--members N]
"""

import argparse
import shutil
import statistics
import tempfile
import threading
import time

from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from replica_set import Loopback, ReplicaSet, until


class Writer(threading.Thread):
    """Writes one document after another, and remembers the longest wait."""

    def __init__(self, number, collection):
        super().__init__(daemon=True)
        self.number, self.collection = number, collection
        self.ending = threading.Event()
        self.longest, self.written, self.failure = 0.0, 0, None

    def run(self):
        try:
            while not self.ending.is_set():
                start = time.monotonic()
                self.collection.insert_one({"_id": f"{self.number}.{self.written}", "text": "x" * 1000})
                self.longest = max(self.longest, time.monotonic() - start)
                self.written += 1
        except PyMongoError as error:
            self.failure = error


def waits(replica_set, client, times, fault):
    """The longest wait at each of so many faults."""
    longest = []
    collection = client.failover.get_collection("items", write_concern=WriteConcern("majority"))
    collection.drop()
    writers = [Writer(number, collection) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(times):
        until("equal members", lambda: replica_set.is_whole())
        time.sleep(1)
        for writer in writers:
            writer.longest = 0.0
        fault(replica_set.primary())
        time.sleep(6)
        longest.append(max(writer.longest for writer in writers))
        replica_set.heal()
    for writer in writers:
        writer.ending.set()
    for writer in writers:
        writer.join(30)
        assert writer.failure is None, f"a write failed: {writer.failure}"
    written = sum(writer.written for writer in writers)
    assert collection.count_documents({}) == written, "a document was lost, or came twice"
    return longest, written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--members", type=int, default=3)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="spinney-failover-")
    replica_set = ReplicaSet(arguments.server, folder, Loopback(), arguments.members)

    def step_down(member):
        with member.client() as client:
            client.admin.command("replSetStepDown", 5)

    try:
        replica_set.heal()
        client = replica_set.client()
        until("a primary", lambda: client.admin.command("ping")["ok"] == 1)
        for name, fault in (("kill -9", lambda member: member.kill()), ("step-down", step_down)):
            longest, written = waits(replica_set, client, arguments.times, fault)
            print(
                f"{name}: {len(longest)} times, {written} writes, all succeeded; the longest wait "
                f"{statistics.median(longest):.2f} s in the median, {max(longest):.2f} s at most"
            )
    finally:
        replica_set.end()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
