"""How fast a member of a replica set that lost its database gets another, and what its primary's clients feel of it.

The set is filled with documents of random bytes. Writers insert documents of 1 KB with `majority`; first the set is
whole, which gives their rate. Then a member is killed, its directory removed, and it is started again: it gets a copy of
the primary's database while the writers go on. Printed are the rate of the copy, from the start of the process until the
member has caught up, beside what the disk writes at best, and the rate of the writers meanwhile beside the first.

Usage: python replica_replace.py SERVER [--gigabytes N] [--seconds S] [--threads N] [--folder DIR]
"""

import argparse
import contextlib
import os
import shutil
import tempfile
import time

from pymongo import InsertOne, ReadPreference
from pymongo.write_concern import WriteConcern

from replica_failover import Writer
from replica_set import Loopback, ReplicaSet, until

DOCUMENT_BYTES = 16 << 10
BATCH = 200
PART_BYTES = 8 << 20


def disk_rate(folder):
    """Bytes that a new file takes in a second, until all of them are durable."""
    path, part = os.path.join(folder, "rate"), memoryview(bytearray(PART_BYTES))
    begun = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for _ in range(256):
        os.write(file, part)
    os.fsync(file)
    os.close(file)
    rate = 256 * PART_BYTES / (time.monotonic() - begun)
    os.remove(path)
    return rate


def size(folder):
    """Bytes of all files below a folder; those that go meanwhile count nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(path, name)).st_blocks * 512
    return total


def fill(client, gigabytes):
    collection = client.replace.get_collection("filler", write_concern=WriteConcern("majority"))
    batches = int(gigabytes * 1e9 / DOCUMENT_BYTES / BATCH)
    for number in range(batches):
        collection.bulk_write([InsertOne({"bytes": os.urandom(DOCUMENT_BYTES)}) for _ in range(BATCH)], ordered=False)
        if number % (batches // 10 + 1) == 0:
            print(f"filled {number * 100 // batches} %", flush=True)
    return collection.estimated_document_count()


def rate(writers, seconds):
    """What the writers write in a second, for so many seconds."""
    begun, before = time.monotonic(), sum(writer.written for writer in writers)
    time.sleep(seconds)
    return (sum(writer.written for writer in writers) - before) / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=20, help="of writing before the member is replaced")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--folder", help="where the members' directories are made")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="spinney-replace-", dir=arguments.folder)
    replica_set = ReplicaSet(arguments.server, folder, Loopback(), 3)
    try:
        replica_set.heal()
        client = replica_set.client()
        until("a primary", lambda: client.admin.command("ping")["ok"] == 1)
        filled = fill(client, arguments.gigabytes)
        until("equal members", replica_set.is_whole, 300)
        disk = disk_rate(folder)
        collection = client.replace.get_collection("items", write_concern=WriteConcern("majority"))
        writers = [Writer(number, collection) for number in range(arguments.threads)]
        for writer in writers:
            writer.start()
        time.sleep(2)
        whole = rate(writers, arguments.seconds)
        member = next(member for member in replica_set.members if member is not replica_set.primary())
        member.kill()
        member.empty()
        two = rate(writers, arguments.seconds)
        begun, before = time.monotonic(), sum(writer.written for writer in writers)
        member.start()
        until("a whole set", replica_set.is_whole, 3600)
        seconds = time.monotonic() - begun
        meanwhile = (sum(writer.written for writer in writers) - before) / seconds
        copied = size(member.database)
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            writer.join(30)
            assert writer.failure is None, f"a write failed: {writer.failure}"
        print(
            f"a member of {copied / 1e9:.1f} GB was replaced in {seconds:.1f} s: {copied / seconds / 1e6:.0f} MB/s, "
            f"{copied / seconds / disk:.2f} of the disk's {disk / 1e6:.0f} MB/s; the writers made {meanwhile:.0f} "
            f"documents/s meanwhile, {meanwhile / whole:.2f} of the {whole:.0f} before and {meanwhile / two:.2f} of the "
            f"{two:.0f} of two members"
        )
        with member.client() as other:
            database = other.get_database("replace", read_preference=ReadPreference.SECONDARY_PREFERRED)
            assert database.filler.estimated_document_count() == filled, "the copy lacks documents"
    finally:
        replica_set.end()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
