"""Plays rounds of faults on a replica set of real processes, and checks what its clients were told.

The members run in network namespaces of their own where that is allowed (root on Linux), so that every link between two
of them can be cut, in one direction too; otherwise on loopback, with faults of processes only. In each round clients
write by pymongo while one fault comes and goes:

- a member killed, the primary killed, all killed, a member stopped for a while, a member stopped again and again;
- a member cut off, a link cut, only what a member sends lost, only what it receives lost, links that come and go;
- a full disk (each member's directory is a file system of its own), a slow disk (20 writes a second, by a control group
  of version 1 for block devices), two slow disks, the primary asked to step down;
- the clock of a member jumps by up to days, to and fro (with --faketime; the monotonic clock goes on);
- all members restarted one after the other, the primary after it has stepped down: no write may fail.

Then the set must be whole again within a minute, and

- lists to which clients append with `majority` and read `linearizable` are linearizable, nothing acknowledged is lost;
- transactions over several lists are under snapshot isolation;
- all members have the same documents, and every index agrees with its collection.

Usage: python replica_faults.py SERVER [--rounds N] [--seed N] [--members N] [--seconds S] [--faults a,b,..]
       [--faketime LIBRARY]
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
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from history import Operation, Transaction, check_linearizable, check_snapshot_isolation, test_checker

PORT = 27217
DISK_MIB = 768
LISTS = 6
BLOCK_GROUPS = "/sys/fs/cgroup/blkio"
SLOW_WRITES_PER_S = 20
WRITE_CONFLICT = 112
# How long the set may take after a fault until it writes again.
RECOVERY_S = 60


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def end(*words):
    """Runs a command that undoes what may not have been done."""
    with contextlib.suppress(OSError):
        subprocess.run(words, check=False, stderr=subprocess.DEVNULL)


class Namespaces:
    """A network namespace for each member, joined by a bridge; the clients are outside."""

    def __init__(self, members):
        self.members, self.name = members, f"spr{os.getpid() % 10000}"
        self.net = f"10.{77 + os.getpid() % 100}.0"
        try:
            self.begin()
        except (OSError, subprocess.CalledProcessError):
            self.end()
            raise

    def begin(self):
        run("ip", "link", "add", self.name, "type", "bridge")
        run("ip", "addr", "add", f"{self.net}.254/24", "dev", self.name)
        run("ip", "link", "set", self.name, "up")
        for number in range(self.members):
            space, outer = f"{self.name}m{number}", f"{self.name}v{number}"
            run("ip", "netns", "add", space)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "link", "set", outer, "master", self.name, "up")
            self.inside(number, "ip", "link", "set", "lo", "up")
            self.inside(number, "ip", "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
            self.inside(number, "ip", "link", "set", "eth0", "up")

    def inside(self, number, *words):
        run(*self.command(number), *words)

    def command(self, number):
        return ["ip", "netns", "exec", f"{self.name}m{number}"]

    def host(self, number):
        return f"{self.net}.{number + 1}"

    def cut(self, sender, receiver):
        """Loses what one member sends to another."""
        self.inside(sender, "ip", "route", "add", "blackhole", f"{self.host(receiver)}/32")

    def heal(self):
        for number in range(self.members):
            for other in range(self.members):
                end(*self.command(number), "ip", "route", "del", "blackhole", f"{self.host(other)}/32")

    def end(self):
        for number in range(self.members):
            end("ip", "netns", "del", f"{self.name}m{number}")
        end("ip", "link", "del", self.name)


class Loopback:
    """All members on loopback, with a port each."""

    def command(self, _):
        return []

    def host(self, _):
        return "127.0.0.1"

    def heal(self):
        pass

    def end(self):
        pass


def mount(folder):
    """Mounts a new file system at a folder, and gives the file that has it."""
    image = f"{folder}.image"
    run("truncate", "-s", f"{DISK_MIB}M", image)
    run("mkfs.ext4", "-q", "-F", image)
    run("mount", "-o", "loop", image, folder)
    return image


def can_mount(folder):
    place = os.path.join(folder, "try")
    os.mkdir(place)
    try:
        mount(place)
        run("umount", place)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class SlowDisk:
    """A control group for a member's process, in which writes to the member's disk can be made slow."""

    def __init__(self, folder, number):
        self.group = os.path.join(BLOCK_GROUPS, f"spr{os.getpid()}m{number}")
        device = os.stat(folder).st_dev
        self.device = f"{os.major(device)}:{os.minor(device)}"
        os.mkdir(self.group)

    def set(self, name, value):
        with open(os.path.join(self.group, name), "w", encoding="ascii") as setting:
            setting.write(value)

    def take(self, process):
        self.set("cgroup.procs", str(process.pid))

    def slow(self, writes_per_s):
        """At most so many writes a second; 0 ends that."""
        self.set("blkio.throttle.write_iops_device", f"{self.device} {writes_per_s}")

    def end(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.group)


def can_slow_disks():
    return os.access(os.path.join(BLOCK_GROUPS, "blkio.throttle.write_iops_device"), os.W_OK)


class Member:
    """A process of the set."""

    def __init__(self, number, binary, network, folder, addresses, own_disk, faketime):
        self.number, self.network, self.address = number, network, addresses[number]
        self.folder = os.path.join(folder, f"member{number}")
        os.mkdir(self.folder)
        self.disk = self.slow_disk = None
        if own_disk:
            self.disk = mount(self.folder)
            if can_slow_disks():
                self.slow_disk = SlowDisk(self.folder, number)
        self.clock, self.environment = os.path.join(folder, f"clock{number}"), None
        if faketime:
            self.set_clock(0)
            self.environment = os.environ | {
                "LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": self.clock,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1",
            }  # fmt: skip
        words = [binary, "serve", os.path.join(self.folder, "db"), "--listen", self.address, "--oplogSize", "64"]
        # Little memory, so that the redo log is short beside the disk.
        words += ["--memory", "64MiB"]
        self.words = [*network.command(number), *words, "--replSet", "rs0", "--members", ",".join(addresses)]
        self.process, self.log = None, os.path.join(folder, f"member{number}.log")

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, env=self.environment)
        if self.slow_disk:
            self.slow_disk.take(self.process)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.is_running():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def restart(self):
        """Ends it in order, and starts it again."""
        self.signal(signal.SIGTERM)
        self.process.wait(60)
        self.start()

    def set_clock(self, seconds):
        """Sets its clock so much ahead of the machine's; less than 0 for behind."""
        # The file is read at any moment.
        with open(f"{self.clock}.new", "w", encoding="ascii") as clock:
            clock.write(f"{seconds:+}")
        os.replace(f"{self.clock}.new", self.clock)

    def fill_disk(self):
        """Takes all but a little of the disk."""
        with open(os.path.join(self.folder, "filler"), "wb") as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"\1" * (1 << 16))
                filler.flush()

    def heal(self):
        self.signal(signal.SIGCONT)
        if self.slow_disk:
            self.slow_disk.slow(0)
        if self.environment:
            self.set_clock(0)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self.folder, "filler"))
        if not self.is_running():
            self.start()

    def end(self):
        if self.is_running():
            self.signal(signal.SIGCONT)
            self.kill()
        if self.slow_disk:
            self.slow_disk.end()
        if self.disk:
            end("umount", self.folder)

    def client(self):
        host, port = self.address.rsplit(":", 1)
        return MongoClient(host, int(port), directConnection=True, serverSelectionTimeoutMS=3000, socketTimeoutMS=20000)


class ReplicaSet:
    """The members and the network between them."""

    def __init__(self, binary, folder, members, in_namespaces, faketime):
        self.network = Namespaces(members) if in_namespaces else Loopback()
        port = (lambda number: PORT) if in_namespaces else (lambda number: PORT + number)
        self.addresses = [f"{self.network.host(number)}:{port(number)}" for number in range(members)]
        self.has_network, self.has_disks = in_namespaces, in_namespaces and can_mount(folder)
        self.has_clocks = faketime is not None
        arguments = (binary, self.network, folder, self.addresses, self.has_disks, faketime)
        self.members = [Member(number, *arguments) for number in range(members)]

    def client(self):
        return MongoClient(
            f"mongodb://{','.join(self.addresses)}/?replicaSet=rs0",
            serverSelectionTimeoutMS=15000, socketTimeoutMS=15000, connectTimeoutMS=2000, heartbeatFrequencyMS=1000,
        )  # fmt: skip

    def primary(self):
        """The member that says it is the primary of the newest term; any when none does."""
        newest = (-1, self.members[0])
        for member in self.members:
            with contextlib.suppress(PyMongoError), member.client() as client:
                status = client.admin.command("replSetGetStatus")
                if status["myState"] == 1:
                    newest = max(newest, (status["term"], member), key=lambda pair: pair[0])
        return newest[1]

    def is_whole(self):
        """Whether every member has what the primary has."""
        with self.primary().client() as client:
            members = client.admin.command("replSetGetStatus")["members"]
        if not all("optime" in member for member in members):
            return False
        newest = max(member["optime"]["ts"] for member in members)
        states = sorted(member["state"] for member in members)
        caught_up = all(member["optime"]["ts"].time >= newest.time - 1 for member in members)
        return caught_up and states == [1] + [2] * (len(members) - 1)

    def heal(self):
        self.network.heal()
        for member in self.members:
            member.heal()

    def end(self):
        for member in self.members:
            member.end()
        self.network.end()


class Worker(threading.Thread):
    """A client that appends, reads, and runs transactions until it is told to end."""

    def __init__(self, number, client, seed, ending):
        super().__init__(daemon=True)
        self.number, self.client, self.ending = number, client, ending
        self.random = random.Random(seed)
        database = client.faults
        majority, linearizable = WriteConcern("majority"), ReadConcern("linearizable")
        self.lists = database.get_collection("lists", write_concern=majority, read_concern=linearizable)
        self.cells = database.get_collection("cells")
        self.items = database.get_collection("items", write_concern=majority)
        self.operations, self.transactions, self.inserted = [], [], []
        self.failed = self.next = 0
        # What writes outside of transactions were told, which drivers send again by themselves.
        self.refused = []

    def run(self):
        while not self.ending.is_set():
            self.next += 1
            name = f"{self.number}.{self.next}"
            action = self.random.choice([self.append, self.read, self.transaction, self.insert])
            try:
                action(name)
            except PyMongoError as error:
                # Of two transactions that change one list, one is refused.
                if getattr(error, "code", None) != WRITE_CONFLICT:
                    self.failed += 1
                    if action in (self.append, self.insert):
                        self.refused.append(error)
                    time.sleep(0.05)

    def append(self, name):
        operation = Operation(self.random.randrange(LISTS), "append", name, time.monotonic())
        self.operations.append(operation)
        self.lists.update_one({"_id": operation.key}, {"$push": {"list": name}})
        operation.end = time.monotonic()

    def read(self, _):
        key, start = self.random.randrange(LISTS), time.monotonic()
        seen = self.lists.find_one({"_id": key})["list"]
        self.operations.append(Operation(key, "read", seen, start, time.monotonic()))

    def insert(self, name):
        self.items.insert_one({"_id": name, "a": self.random.randrange(100), "u": name, "t": "x" * 500})
        self.inserted.append(name)

    def transaction(self, name):
        told = Transaction(name)
        with self.client.start_session() as session:
            session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
            try:
                for number in range(self.random.randint(2, 4)):
                    self.step(told, f"{name}.{number}", session)
            except PyMongoError:
                with contextlib.suppress(PyMongoError):
                    session.abort_transaction()
                told.committed = False
                self.transactions.append(told)
                raise
            self.transactions.append(told)
            self.commit(session)
            told.committed = True

    def step(self, told, element, session):
        key = self.random.randrange(LISTS)
        if self.random.random() < 0.5:
            told.steps.append(("append", key, element))
            self.cells.update_one({"_id": key}, {"$push": {"list": element}}, session=session)
        else:
            told.steps.append(("read", key, self.cells.find_one({"_id": key}, session=session)["list"]))

    def commit(self, session):
        """Commits, again while the answer is not known."""
        for attempt in range(3):
            try:
                return session.commit_transaction()
            except (ConnectionFailure, OperationFailure) as error:
                if not error.has_error_label("UnknownTransactionCommitResult") or attempt == 2:
                    raise


def faults_of(replica_set, chance):
    """The faults by their names: each begins one, and may wait in it."""
    members = replica_set.members
    one = chance.choice(members)
    others = [member for member in members if member is not one]

    def pause(times, stopped, running):
        for _ in range(times):
            one.signal(signal.SIGSTOP)
            time.sleep(stopped)
            one.signal(signal.SIGCONT)
            time.sleep(running)

    def cut(sends, receives, member, peers):
        for peer in peers:
            if sends:
                replica_set.network.cut(member.number, peer.number)
            if receives:
                replica_set.network.cut(peer.number, member.number)

    def step_down():
        with contextlib.suppress(PyMongoError), replica_set.primary().client() as client:
            client.admin.command("replSetStepDown", 5)

    def bad_links():
        for _ in range(10):
            cut(True, True, *chance.choice([(one, others), (others[0], [one])]))
            time.sleep(chance.uniform(0.05, 0.4))
            replica_set.network.heal()
            time.sleep(chance.uniform(0.05, 0.2))

    def jump(member):
        for _ in range(4):
            member.set_clock(int(chance.choice([-1, 1]) * 10 ** chance.uniform(0, 5.5)))
            time.sleep(0.6)

    faults = {
        "none": lambda: None,
        "kill": one.kill,
        "kill-primary": lambda: replica_set.primary().kill(),
        "kill-all": lambda: [member.kill() for member in members],
        "stop": lambda: pause(1, 4, 0),
        "stop-primary": lambda: replica_set.primary().signal(signal.SIGSTOP),
        "slow-member": lambda: pause(30, 0.1, 0.05),
        "step-down": step_down,
        "rolling-restart": lambda: restart_all(replica_set),
    }
    if replica_set.has_network:
        faults |= {
            "cut-off": lambda: cut(True, True, one, others),
            "cut-off-primary": lambda: isolate(replica_set, cut),
            "cut-link": lambda: cut(True, True, one, others[:1]),
            "cut-sent": lambda: cut(True, False, one, others),
            "cut-received": lambda: cut(False, True, one, others),
            "bad-links": bad_links,
        }
    if replica_set.has_disks:
        faults |= {
            "full-disk": one.fill_disk,
            "full-disk-primary": lambda: replica_set.primary().fill_disk(),
        }
    if all(member.slow_disk for member in members):
        faults |= {
            "slow-disk": lambda: one.slow_disk.slow(SLOW_WRITES_PER_S),
            "slow-disk-primary": lambda: replica_set.primary().slow_disk.slow(SLOW_WRITES_PER_S),
            "slow-disks": lambda: [member.slow_disk.slow(SLOW_WRITES_PER_S) for member in others],
        }
    if replica_set.has_clocks:
        faults |= {
            "clock": lambda: jump(one),
            "clock-primary": lambda: jump(replica_set.primary()),
        }
    return faults


def isolate(replica_set, cut):
    primary = replica_set.primary()
    cut(True, True, primary, [member for member in replica_set.members if member is not primary])


def restart_all(replica_set):
    """Restarts each member in its turn; the primary of the moment hands over first."""
    for member in replica_set.members:
        if member is replica_set.primary():
            with member.client() as client:
                client.admin.command("replSetStepDown", 60, secondaryCatchUpPeriodSecs=30)
        member.restart()
        until("a whole set", replica_set.is_whole)


def until(what, check, seconds=RECOVERY_S):
    """Waits until a check holds; the errors of a server that is not there yet count as no."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if check():
                return
        except PyMongoError as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what} not within {seconds} s; the last error: {last}")


def begin(client):
    """New collections."""
    client.drop_database("faults")
    majority = client.get_database("faults", write_concern=WriteConcern("majority"))
    for name in ("lists", "cells"):
        majority[name].insert_many([{"_id": key, "list": []} for key in range(LISTS)])
    majority.items.create_index("a")
    majority.items.create_index("u", unique=True)


def final_lists(client, name):
    collection = client.faults.get_collection(name, read_concern=ReadConcern("linearizable"))
    return {document["_id"]: document["list"] for document in (collection.find_one({"_id": key}) for key in range(LISTS))}


def contents(member):
    """All documents of a member, and whether its indexes agree with them."""
    with member.client() as client:
        database = client.get_database("faults", read_preference=ReadPreference.SECONDARY_PREFERRED)
        documents = {name: list(database[name].find().sort("_id", 1)) for name in ("lists", "cells", "items")}
        for name in documents:
            told = database.command("validate", name, full=True, read_preference=ReadPreference.SECONDARY_PREFERRED)
            assert told["valid"], f"{name} of member {member.number} is not valid: {told}"
        return documents


def check_members(replica_set, name):
    def same():
        for member in replica_set.members:
            if not member.is_running():
                # A member whose disk is full ends; it may have seen that late.
                assert name.startswith("full-disk"), f"member {member.number} ended by itself"
                member.start()
        states = [contents(member) for member in replica_set.members]
        return all(state == states[0] for state in states)

    until("equal members", same)


def play(replica_set, name, fault, seconds, threads, seed):
    """One round; how many operations were answered, and how many were not."""
    client = replica_set.client()
    until("a primary", lambda: begin(client) is None)
    ending = threading.Event()
    workers = [Worker(number, client, f"{seed}.{number}", ending) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(seconds / 4)
    fault()
    time.sleep(seconds / 2)
    replica_set.heal()
    time.sleep(seconds / 4)
    ending.set()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), "a client waits for an answer"
    until("a write", lambda: client.faults.get_collection("lists", write_concern=WriteConcern("majority")).find_one_and_update(
        {"_id": 0}, {"$set": {"done": seed}}) is not None)
    lists, cells = final_lists(client, "lists"), final_lists(client, "cells")
    faults = check_linearizable([each for worker in workers for each in worker.operations], lists)
    faults += check_snapshot_isolation([each for worker in workers for each in worker.transactions], cells)
    there = {document["_id"] for document in client.faults.items.find({}, {"_id": 1})}
    lost = [name for worker in workers for name in worker.inserted if name not in there]
    faults += [f"lost documents, which were acknowledged: {lost[:5]}"] if lost else []
    refused = [error for worker in workers for error in worker.refused]
    if name == "rolling-restart" and refused:
        faults.append(f"{len(refused)} writes failed while members were restarted in order: {refused[0]}")
    assert not faults, "\n".join(faults[:20])
    check_members(replica_set, name)
    client.close()
    answered = sum(len(worker.operations) + len(worker.transactions) + len(worker.inserted) for worker in workers)
    return answered, sum(worker.failed for worker in workers)


def can_have_namespaces():
    try:
        network = Namespaces(1)
    except (OSError, subprocess.CalledProcessError):
        return False
    network.end()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8, help="of each round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", help="only these, with commas between them")
    parser.add_argument("--faketime", help="the library libfaketime.so.1, for clocks that jump")
    parser.add_argument("--loopback", action="store_true", help="no network namespaces, so only faults of processes")
    arguments = parser.parse_args()
    test_checker()
    folder = tempfile.mkdtemp(prefix="spinney-faults-")
    in_namespaces = not arguments.loopback and can_have_namespaces()
    if not in_namespaces:
        print("without network namespaces: faults of processes only", flush=True)
    replica_set = ReplicaSet(arguments.server, folder, arguments.members, in_namespaces, arguments.faketime)
    totals, begun = [0, 0], time.monotonic()
    try:
        for member in replica_set.members:
            member.start()
        for number in range(arguments.rounds):
            chance = random.Random(f"{arguments.seed}.{number}")
            faults = faults_of(replica_set, chance)
            names = arguments.faults.split(",") if arguments.faults else list(faults)
            name = names[number % len(names)]
            try:
                answered, failed = play(replica_set, name, faults[name], arguments.seconds, arguments.threads, number)
            except AssertionError as error:
                raise AssertionError(f"round {number}, {name}: {error}") from error
            totals = [totals[0] + answered, totals[1] + failed]
            print(f"round {number + 1}, {name}: {answered} operations, {failed} without an answer", flush=True)
    except BaseException:
        print(f"the logs stay in {folder}", file=sys.stderr)
        raise
    finally:
        replica_set.end()
    shutil.rmtree(folder)
    print(
        f"{arguments.rounds} rounds, {totals[0]} operations, {totals[1]} without an answer, "
        f"{time.monotonic() - begun:.0f} s: nothing lost, no violation, all members equal"
    )


if __name__ == "__main__":
    main()
