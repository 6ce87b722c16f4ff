"""Bulk inserts into several servers in turns: batches of 1,000 documents of 1 KB with three indexes. Documents become BSON
before the clock starts, so that the time is the server's and the socket's.

    python3 bulk_insert.py NAME=URI=PID ...

PID is the server's process: its CPU time is told beside the documents a second, since it depends less on what else the
machine does. pymongo up to 4.8 also connects to servers of an older protocol, such as mongo-java-server.
"""

import os
import random
import statistics
import string
import sys
import time

import bson
import pymongo
from bson.raw_bson import RawBSONDocument

BATCHES = 25
BATCH = 1_000


def cpu_seconds(pid):
    """What the threads of a process that run have used."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def main():
    draw = random.Random(1)
    text = "".join(draw.choices(string.ascii_lowercase + "      ", k=100_000))

    def document():
        at = draw.randrange(90_000)
        fields = {
            "_id": bson.ObjectId(),
            "a": draw.randrange(10**9),
            "b": draw.randrange(10**9),
            "c": text[at : at + 12],
            "text": text[at : at + 930],
        }
        return RawBSONDocument(bson.encode(fields))

    servers = []
    for argument in sys.argv[1:]:
        name, rest = argument.split("=", 1)
        uri, pid = rest.rsplit("=", 1)
        collection = pymongo.MongoClient(uri, retryWrites=False).bulk_insert.documents
        collection.drop()
        for field in "abc":
            collection.create_index(field)
        servers.append((name, pid, collection, [], []))
    for _ in range(BATCHES):
        batch = [document() for _ in range(BATCH)]
        for _, pid, collection, seconds, used in servers:
            begun, before = time.perf_counter(), cpu_seconds(pid)
            collection.insert_many(batch, ordered=False)
            seconds.append(time.perf_counter() - begun)
            used.append(cpu_seconds(pid) - before)
    for name, _, _, seconds, used in servers:
        rate = BATCH / statistics.median(seconds)
        print(f"{name:20} {rate:9.0f} documents/s {1e6 * statistics.median(used) / BATCH:8.1f} us of CPU each")


if __name__ == "__main__":
    main()
