"""Makes links bad between the members of a replica set of real processes: the set must live, and tell the truth.

The members run in network namespaces of their own, joined by a switch in user space (switch.py): root on Linux. In each
round clients work by pymongo (workload.py) while one fault comes and goes (link_faults.py). Then

- every write that was acknowledged is there, and every answer was right: lists are linearizable, transactions are
  under snapshot isolation, sums and sessions by each read preference are of one state, and each change stream shows
  each event once;
- all members have the same documents and indexes;
- while a majority of the members is connected with each other, writes go on within 5 s;
- 3 s after the heal, there is a primary that takes writes; 30 s after it, every call has an answer.

With --graphs, the links are cut in every way instead (graphs.py).

Usage: python partitions.py SERVER [--members N] [--seconds S] [--seed N] [--fault a,b,..] [--first N] [--graphs]
       [--self-test]
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

import pymongo
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

import graphs
from availability import Availability, ask_once
from history import check_inserts, test_checker
from link_faults import FAULTS, Faults
from replica_set import ReplicaSet, contents, until
from switch import Switch, test_links
from workload import PREFERENCES, Bank, Causal, Counter, Inserts, Registers, Streams, Transactions, Worker

# How long the work goes before a fault, and after it.
BEFORE_S, AFTER_S = 1.5, 3.5
# What must be true: how soon writes go on while a majority is connected, and after the heal; how soon all is answered.
CONNECTED_S, HEALED_S, ANSWERED_S = 5.0, 3.0, 30.0
# How long a worker pauses between two calls, in the mean.
PAUSE_S = 0.05
# The chance that a member without a vote is added and removed in a round, whatever its fault is.
CHANGES = 0.25
HELLO = {"hello": 1, "$db": "admin"}


class Work:
    """The clients of a round, and all that they were told, in a database of the round's own."""

    def __init__(self, replica_set, client, name):
        database = client[name]
        self.name, self.client = name, client
        self.registers, self.transactions = Registers(database), Transactions(database)
        self.inserts, self.unsafe = Inserts(database), Inserts(database, "items1", WriteConcern(1))
        self.bank, self.counter = Bank(database, len(replica_set.members)), Counter(database)
        self.causal = Causal(database)
        self.streams = Streams(replica_set.members, self.inserts)
        # The streams come last: they follow collections that are there, and their check ends them.
        self.parts = [self.registers, self.transactions, self.unsafe, self.bank, self.counter, self.causal]
        self.parts += [self.inserts, self.streams]
        self.ending, self.workers, self.availability = threading.Event(), [], None

    def prepare(self):
        self.client.drop_database(self.name)
        self.client[self.name].create_collection(Availability.COLLECTION)
        for part in self.parts:
            part.prepare()

    def begin(self, replica_set, seed):
        registers, bank = self.registers, self.bank
        actions = [[registers.append, registers.read], [bank.transfer, bank.sum_in_transaction],
                   [self.transactions.transaction], [self.inserts.insert, self.unsafe.insert]]  # fmt: skip
        actions = actions * 3 + [[self.counter.increase]] * 2
        actions += [[bank.snapshot(preference)] for preference in PREFERENCES]
        actions += [[self.causal.reader(preference)] for preference in PREFERENCES]
        self.workers = [
            Worker(number, each, f"{seed}.{number}", self.ending, PAUSE_S) for number, each in enumerate(actions)
        ]
        self.availability = Availability(replica_set.members, self.name)
        for worker in self.workers:
            worker.start()

    def end(self, until_s):
        """Ends the workers, and gives what those wait for that have not ended by a moment."""
        self.ending.set()
        for worker in self.workers:
            worker.join(max(0, until_s - time.monotonic()))
        self.availability.end()
        return [worker.waits_for for worker in self.workers if worker.is_alive() and worker.waits_for]

    def check(self):
        """What is not true of the answers, when the set is whole again."""
        faults = []
        for part in self.parts:
            try:
                with pymongo.timeout(ANSWERED_S):
                    faults += part.check()
            except PyMongoError as error:
                faults.append(f"{type(part).__name__} cannot be read: {error}")
        self.streams.end()
        acknowledged = self.availability.acknowledged()
        with pymongo.timeout(ANSWERED_S):
            there = [
                document["_id"] for document in self.client[self.name][Availability.COLLECTION].find({}, {"_id": 1})
            ]
        return faults + check_inserts(set(there), acknowledged, there)

    def answered(self):
        return sum(part.answered() for part in self.parts)


@dataclass
class Totals:
    """What all rounds of a fault gave: seconds of pauses, and violations."""

    rounds: int = 0
    answered: int = 0
    failed: int = 0
    pauses: list = field(default_factory=list)
    heals: list = field(default_factory=list)
    violations: int = 0

    def row(self, name):
        cells = [self.rounds, self.answered, self.failed, seconds(self.pauses), seconds(self.heals), self.violations]
        return " | ".join(["", name, *map(str, cells), ""]).strip()


def seconds(times):
    return f"{statistics.median(times):.2f} / {max(times):.2f} s" if times else ""


class Round:
    """One fault under work."""

    def __init__(self, replica_set, name, number, seed):
        self.replica_set, self.name, self.number = replica_set, name, number
        self.chance = random.Random(f"{seed}.{number}")
        self.violations, self.pause, self.heal, self.work = [], None, None, None
        self.changes = 0

    def play(self, totals):
        replica_set = self.replica_set
        with replica_set.client(answer_within_ms=None) as client:
            until("new collections", lambda: self.prepare(client))
            try:
                self.faulty(client)
            except AssertionError as error:
                self.violations.append(str(error))
            finally:
                self.work.ending.set()
                self.work.streams.end()
            self.end(client)
        totals.rounds += 1
        totals.answered += self.work.answered()
        totals.failed += sum(worker.failed for worker in self.work.workers)
        totals.pauses += [] if self.pause is None else [self.pause]
        totals.heals += [] if self.heal is None else [self.heal]
        totals.violations += len(self.violations)

    def prepare(self, client):
        if self.work:
            self.work.streams.end()
        self.work = Work(self.replica_set, client, f"round{self.number}")
        with pymongo.timeout(ANSWERED_S):
            self.work.prepare()
        return True

    def faulty(self, client):
        replica_set, work = self.replica_set, self.work
        faults = Faults(replica_set, self.chance)
        work.begin(replica_set, self.chance.random())
        time.sleep(BEFORE_S)
        if self.chance.random() < CHANGES and not self.name.startswith("change-members"):
            faults._begin_changes(votes=0)
        FAULTS[self.name](faults)
        ended = [member for member in replica_set.members if not member.is_running() and member not in faults._stopped]
        self.violations += [f"member {member.number} ended by itself: {member.last_words()}" for member in ended]
        replica_set.heal()
        # Processes that were started take their time.
        until("an answer of each member", lambda: all(ask_once(each, HELLO) for each in replica_set.members))
        healed = time.monotonic()
        time.sleep(AFTER_S)
        self.judge_writes(faults._holds, healed)
        waiting = work.end(healed + ANSWERED_S)
        if waiting:
            self.violations.append(f"{len(waiting)} calls without an answer {ANSWERED_S:.0f} s after the heal: "
                                   f"{ages(waiting)}; {operations(replica_set)}")  # fmt: skip
        if faults._changes:
            faults._changes.end()
            self.changes = faults._changes.count
        for action in faults._after:
            action()
        until("a whole set", replica_set.is_whole)
        self.violations += work.check()
        self.check_members()

    def judge_writes(self, holds, healed):
        """Whether writes went on in time, in the fault and behind it."""
        availability = self.work.availability
        connected = [availability.pause(hold.begun, hold.ended) for hold in holds if hold.is_connected]
        if connected:
            self.pause = max(connected)
            if self.pause > CONNECTED_S:
                self.violations.append(f"no write for {self.pause:.1f} s while a majority is connected")
        until("a write after the heal", lambda: availability.first_after(healed) is not None)
        self.heal = availability.first_after(healed)
        if self.heal > HEALED_S:
            self.violations.append(f"no primary took a write for {self.heal:.1f} s after the heal")

    def check_members(self):
        def same():
            states = [contents(member, self.work.name) for member in self.replica_set.members]
            return all(state == states[0] for state in states)

        until("equal members", same)

    def end(self, client):
        """Leaves a set in which the next round can begin."""
        if not self.violations:
            with contextlib.suppress(PyMongoError), pymongo.timeout(ANSWERED_S):
                client.drop_database(self.work.name)
        elif not self.is_alive():
            self.replica_set.heal()
            for member in self.replica_set.members:
                member.kill()
                member.start()
        until("a whole set", self.replica_set.is_whole)

    def is_alive(self):
        """Whether all calls have ended, and the set takes writes."""
        with contextlib.suppress(PyMongoError), self.replica_set.client() as client, pymongo.timeout(HEALED_S):
            client[self.work.name].alive.insert_one({})
            return not any(worker.is_alive() for worker in self.work.workers)
        return False

    def __str__(self):
        pause = "" if self.pause is None else f", writes paused for {self.pause:.2f} s"
        heal = "" if self.heal is None else f", a write {self.heal:.2f} s after the heal"
        failed = sum(worker.failed for worker in self.work.workers)
        changes = f", {self.changes} changes of members" if self.changes else ""
        return (
            f"round {self.number}, {self.name}{changes}: {self.work.answered()} answers, {failed} errors{pause}{heal}"
        )


def ages(waiting):
    now, kinds = time.monotonic(), defaultdict(list)
    for what, since in waiting:
        kinds[what].append(now - since)
    return ", ".join(f"{len(times)} {what} up to {max(times):.0f} s" for what, times in sorted(kinds.items()))


def operations(replica_set):
    """What the members say that they are doing for long."""
    found = []
    for member in replica_set.members:
        for row in ask_once(member, {"currentOp": 1, "$db": "admin"}).get("inprog", []):
            if row.get("secs_running", 0) >= HEALED_S:
                found.append(f"{row.get('op')} of {row.get('ns')} for {row['secs_running']} s")
        found.append(f"(member {member.number})")
    return "currentOp has " + ", ".join(found)


def rounds(replica_set, arguments):
    """Plays rounds until the time is over; whether all that must be true was."""
    names = arguments.fault.split(",") if arguments.fault else list(FAULTS)
    totals, begun = defaultdict(Totals), time.monotonic()
    for number in itertools.count(arguments.first):
        if time.monotonic() - begun > arguments.seconds:
            break
        name = names[number % len(names)]
        played = Round(replica_set, name, number, arguments.seed)
        played.play(totals[name])
        print(played, flush=True)
        for violation in played.violations:
            print(f"  VIOLATION {violation}", flush=True)
        if played.violations:
            print(f"  replay: cargo xtask partitions --members {arguments.members} --seed {arguments.seed} "
                  f"--fault {name} --first {number} --seconds 60", flush=True)  # fmt: skip
    print("| fault | rounds | answers | errors | pause of writes | first write after the heal | violations |")
    print("|---|---|---|---|---|---|---|")
    for name, total in totals.items():
        print(total.row(name))
    count, answered = (sum(getattr(total, name) for total in totals.values()) for name in ("rounds", "answered"))
    violations = sum(total.violations for total in totals.values())
    print(f"{count} rounds, {answered} answers, {time.monotonic() - begun:.0f} s: {violations} violations", flush=True)
    return violations == 0


def all_graphs(arguments):
    """Plays all graphs of each number of members; whether writes went on where they must."""
    measured = []
    for members in [arguments.members] if arguments.members else [3, 4, 5]:
        with running(arguments.server, members) as replica_set:
            database = replica_set.client()["graphs"]
            until("a collection", lambda: database.create_collection(f"begin{members}") is not None)
            found = set(graphs.graphs(members)) | set(graphs.graphs(3, one_way=True) if members == 3 else ())
            for number, graph in enumerate(sorted(found, key=lambda graph: (-len(graph.links), str(graph)))):
                one = graphs.measure(replica_set, graph, f"graphs{number}")
                measured.append(one)
                goes_on = f"writes paused for {one.pause:.2f} s" if one.goes_on else "no writes"
                print(f"{members} members, {graph}: {goes_on}, a write {one.heal:.2f} s after the heal", flush=True)
                if one.violation():
                    print(f"  VIOLATION {one.violation()}", flush=True)
    print(graphs.table(measured))
    must = [one for one in measured if one.graph.has_connected_majority()]
    violations = sum(one.violation() is not None for one in measured)
    pause = seconds([one.pause for one in must])
    print(
        f"{len(measured)} graphs; writes paused for {pause} in the {len(must)} where a majority is connected: "
        f"{violations} violations"
    )
    return violations == 0


@contextlib.contextmanager
def running(server, members, spares=0):
    """A set that runs in namespaces of its own; the logs of its members stay after an error."""
    folder = tempfile.mkdtemp(prefix="spinney-partitions-")
    replica_set = ReplicaSet(server, folder, Switch(members + spares), members, spares=spares)
    try:
        for member in replica_set.members:
            member.start()
        until("a whole set", replica_set.is_whole)
        yield replica_set
    except BaseException:
        print(f"the logs stay in {folder}", file=sys.stderr)
        raise
    finally:
        replica_set.end()
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--members", type=int, choices=[3, 4, 5], help="3; with --graphs each of these")
    parser.add_argument("--seconds", type=float, default=600, help="that rounds are begun for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--fault", help=f"only these, with commas between them, of {', '.join(FAULTS)}")
    parser.add_argument("--graphs", action="store_true", help="all graphs of links instead of rounds of faults")
    parser.add_argument("--self-test", action="store_true", help="only show that the checkers find planted faults")
    arguments = parser.parse_args()
    test_checker()
    test_links()
    graphs.test_graphs()
    if arguments.self_test:
        print("every planted fault was found")
        return 0
    unknown = set(arguments.fault.split(",") if arguments.fault else ()) - set(FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        parser.error("network namespaces and TUN devices need root on Linux")
    if arguments.graphs:
        return 0 if all_graphs(arguments) else 1
    arguments.members = arguments.members or 3
    with running(arguments.server, arguments.members, spares=1) as replica_set:
        return 0 if rounds(replica_set, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
