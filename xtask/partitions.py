"""Makes links bad between the members of a replica set of real processes, and checks that the set lives and tells the truth.

The members run in network namespaces of their own, joined by a switch in user space (switch.py): root on Linux. In each
round clients work by pymongo (workload.py) while one fault comes and goes: each is a method of `Faults`. Then

- every write that was acknowledged is there, and every answer was right: lists are linearizable, transactions are under
  snapshot isolation, sums and sessions by each read preference are of one state, each change stream shows each event once;
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
import signal
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
from replica_set import ReplicaSet, contents, until
from switch import Switch, test_links
from workload import PREFERENCES, Bank, Causal, Counter, Inserts, Registers, Streams, Transactions, Worker

# How long the work goes before a fault, how long a fault lasts, and how long the work goes after it.
BEFORE_S, HOLD_S, AFTER_S = 1.5, 6.5, 3.5
# What must be true: how soon writes go on while a majority is connected, and after the heal; how soon all is answered.
CONNECTED_S, HEALED_S, ANSWERED_S = 5.0, 3.0, 30.0
# How long a member that was removed while it was cut off may answer reads after the heal.
REMOVED_S = 10.0
# How long a worker pauses between two calls, in the mean.
PAUSE_S = 0.05
# The chance that a member without a vote is added and removed in a round, whatever its fault is.
CHANGES = 0.25


class Work:
    """The clients of a round, and all that they were told, in a database of the round's own."""

    def __init__(self, replica_set, client, name):
        database = client[name]
        self.name, self.client = name, client
        self.registers, self.transactions = Registers(database), Transactions(database)
        self.inserts, self.unsafe = Inserts(database), Inserts(database, "items1", WriteConcern(1))
        self.bank, self.counter, self.causal = Bank(database, len(replica_set.members)), Counter(database), Causal(database)
        self.streams = Streams(replica_set.members, self.inserts)
        # The streams come last: they follow collections that are there, and their check ends them.
        self.parts = [self.registers, self.transactions, self.unsafe, self.bank, self.counter, self.causal, self.inserts,
                      self.streams]  # fmt: skip
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
            there = [document["_id"] for document in self.client[self.name][Availability.COLLECTION].find({}, {"_id": 1})]
        return faults + check_inserts(set(there), acknowledged, there)

    def answered(self):
        return sum(part.answered() for part in self.parts)


class Changes(threading.Thread):
    """Adds a spare member with so many votes to the set and removes it, again and again, until it is told to end."""

    def __init__(self, replica_set, votes, chance):
        super().__init__(daemon=True)
        self.replica_set, self.spare, self.votes, self.chance = replica_set, replica_set.spares[0], votes, chance
        self.ending, self.waits_for, self.count = threading.Event(), None, 0

    def run(self):
        with self.replica_set.client() as client:
            while not self.ending.is_set():
                try:
                    self.once(client)
                    self.count += 1
                except PyMongoError:
                    time.sleep(0.2)

    def once(self, client):
        if self.spare.address not in addresses(client):
            # One that was removed comes back with an empty directory.
            self.spare.end()
            self.spare.empty()
            self.spare.start()
            self.waits_for = ("rs.add", time.monotonic())
            add(client, self.spare.address, self.votes)
        else:
            self.ending.wait(self.chance.uniform(0, 1))
            self.waits_for = ("rs.remove", time.monotonic())
            remove(client, self.spare.address)
        self.waits_for = None

    def end(self):
        """Ends it, when the set is whole: the spare is removed."""
        self.ending.set()
        self.join(ANSWERED_S)
        assert not self.is_alive(), f"a change of members has no answer: {self.waits_for}"
        with self.replica_set.client() as client:
            until("the spare is removed", lambda: remove(client, self.spare.address) is None)
        self.spare.end()


def reconfigure(client, change):
    with pymongo.timeout(ANSWERED_S):
        config = client.admin.command("replSetGetConfig")["config"]
        config["members"] = change(config["members"])
        config["version"] += 1
        client.admin.command("replSetReconfig", config)


def addresses(client):
    return [member["host"] for member in client.admin.command("replSetGetConfig")["config"]["members"]]


def add(client, address, votes):
    def change(members):
        number = 1 + max(member["_id"] for member in members)
        return [*members, {"_id": number, "host": address, "priority": 0, "votes": votes}]

    if address not in addresses(client):
        reconfigure(client, change)


def remove(client, address):
    if address in addresses(client):
        reconfigure(client, lambda members: [member for member in members if member["host"] != address])


@dataclass
class Hold:
    """A time in which links and processes did not change, and whether a majority was connected."""

    begun: float
    ended: float
    is_connected: bool


class Faults:
    """The faults: each method without an underscore begins one, may wait in it, and is undone behind it."""

    def __init__(self, replica_set, chance):
        self._set, self._network, self._chance = replica_set, replica_set.network, chance
        self._members = replica_set.members
        self._primary = replica_set.primary()
        self._others = [member for member in self._members if member is not self._primary]
        self._chance.shuffle(self._others)
        self._holds, self._stopped, self._changes = [], set(), None
        # What is to be done when the set is healed.
        self._after = []

    def _hold(self, seconds=HOLD_S):
        begun = time.monotonic()
        time.sleep(seconds)
        self._holds.append(Hold(begun, time.monotonic(), self._has_connected_majority()))

    def _has_connected_majority(self):
        """Of the members that vote; false when their number changes."""
        if self._changes and self._changes.votes:
            return False
        numbers = [member.number for member in self._members if member not in self._stopped]
        groups = itertools.combinations(numbers, len(self._members) // 2 + 1)
        return any(all(self._network.is_sound(*pair) for pair in itertools.combinations(group, 2)) for group in groups)

    def _cut(self, one, others, sends=True, receives=True):
        for other in others:
            if other is not one:
                if sends:
                    self._network.cut(one.number, other.number)
                if receives:
                    self._network.cut(other.number, one.number)

    def _all_links(self, **how):
        for one, other in itertools.permutations(self._members, 2):
            self._network.set(one.number, other.number, **how)

    def _heal_links(self):
        self._network.heal()

    def _links_of(self, one, **how):
        for other in self._members:
            if other is not one:
                self._network.set_both(one.number, other.number, **how)

    def _apart(self):
        self._all_links(cut=True)

    def _any(self):
        return self._chance.choice(self._members)

    def _stop(self, member):
        self._stopped.add(member)
        member.signal(signal.SIGSTOP)

    def _kill(self, member):
        self._stopped.add(member)
        member.kill()

    def _begin_changes(self, votes):
        if self._changes is None:
            self._changes = Changes(self._set, votes, self._chance)
            self._changes.start()

    def nothing(self):
        self._hold()

    def cut_off_primary(self):
        self._cut(self._primary, self._members)
        self._hold()

    def cut_off_secondary(self):
        self._cut(self._others[0], self._members)
        self._hold()

    def cut_link_of_primary(self):
        self._cut(self._primary, self._others[:1])
        self._hold()

    def cut_link_of_secondaries(self):
        self._cut(self._others[0], self._others[1:2])
        self._hold()

    def primary_is_heard_by_nobody(self):
        self._cut(self._primary, self._members, receives=False)
        self._hold()

    def primary_hears_nobody(self):
        self._cut(self._primary, self._members, sends=False)
        self._hold()

    def secondary_is_heard_by_nobody(self):
        self._cut(self._others[0], self._members, receives=False)
        self._hold()

    def secondary_hears_nobody(self):
        self._cut(self._others[0], self._members, sends=False)
        self._hold()

    def all_apart(self):
        self._apart()
        self._hold()

    def halves(self):
        """The primary is in the larger half or in the smaller one."""
        group = self._chance.sample(self._members, len(self._members) // 2)
        for member in group:
            self._cut(member, [other for other in self._members if other not in group])
        self._hold()

    def majority_lost_briefly(self):
        """Too short for some to elect, long enough for the primary to notice."""
        for _ in range(3):
            self._apart()
            self._hold(self._chance.uniform(0.5, 3))
            self._heal_links()
            self._hold(self._chance.uniform(1.5, 3))

    def primary_cut_off_briefly(self):
        for _ in range(3):
            self._cut(self._primary, self._members)
            self._hold(self._chance.uniform(0.2, 2.5))
            self._heal_links()
            self._hold(self._chance.uniform(0.5, 2))

    def secondaries_paused_briefly(self):
        """The primary loses its majority, and nobody takes over."""
        for member in self._others:
            self._stop(member)
        self._hold(self._chance.uniform(1.4, 3.2))

    def primary_keeps_one_link(self):
        self._cut(self._primary, self._others[1:])
        self._hold()

    def links_of_one_secondary_only(self):
        """A hub."""
        hub = self._others[0]
        for member in self._members:
            if member is not hub:
                self._cut(member, [other for other in self._members if other is not hub])
        self._hold()

    def one_way_links(self):
        for one, other in itertools.permutations(self._members, 2):
            if self._chance.random() < 0.4:
                self._network.cut(one.number, other.number)
        self._hold()

    def links_of_primary_come_and_go(self):
        self._links_of(self._primary, flap=[self._chance.uniform(0.1, 2), self._chance.uniform(0.1, 2)])
        self._hold()

    def links_come_and_go(self):
        for one, other in itertools.combinations(self._members, 2):
            flap = [self._chance.uniform(0.1, 2), self._chance.uniform(0.1, 2)]
            self._network.set_both(one.number, other.number, flap=flap)
        self._hold()

    def resets_of_primary(self):
        self._links_of(self._primary, reset=True)
        self._hold()

    def resets_of_secondary(self):
        self._links_of(self._others[0], reset=True)
        self._hold()

    def resets_of_clients(self):
        """The connections of clients to one member break again and again."""
        member = self._any()
        for _ in range(8):
            self._network.set_both(member.number, self._network.clients, reset=True)
            self._hold(self._chance.uniform(0.1, 0.5))
            self._heal_links()
            self._hold(self._chance.uniform(0.1, 0.5))

    def delays(self):
        """Round trips of 100 to 600 ms, and as much again for some packets."""
        delay = self._chance.uniform(0.05, 0.3)
        self._all_links(delay=delay, jitter=self._chance.uniform(0, delay))
        self._hold()

    def losses(self):
        self._all_links(loss=self._chance.uniform(0.01, 0.3))
        self._hold()

    def duplicates(self):
        self._all_links(duplicate=self._chance.uniform(0.1, 1), reorder=self._chance.uniform(0, 0.3))
        self._hold()

    def all_of_it(self):
        """Loss, duplicates, jitter and order, of the clients' links too."""
        for one, other in itertools.permutations([member.number for member in self._members] + [self._network.clients], 2):
            self._network.set(one, other, loss=0.05, duplicate=0.1, reorder=0.1, delay=0.01, jitter=0.05)
        self._hold()

    def pause_primary(self):
        self._stop(self._primary)
        self._hold()

    def pause_and_cut(self):
        self._stop(self._any())
        self._cut(*self._chance.sample(self._members, 1), self._members)
        self._hold()

    def kill_primary(self):
        self._kill(self._primary)
        self._hold()

    def kill_and_cut_link(self):
        self._kill(self._any())
        self._cut(self._chance.choice(self._others), [self._primary])
        self._hold()

    def kill_and_keep_one_link(self):
        """Of the primary; one of those that it does not reach is killed."""
        self._kill(self._others[-1])
        self._cut(self._primary, self._others[1:])
        self._hold()

    def kill_all_apart(self):
        self._apart()
        for member in self._members:
            self._kill(member)
        self._hold(1)

    def change_members(self):
        self._begin_changes(votes=1)
        self._hold()

    def change_members_and_cut_off(self):
        self._begin_changes(votes=1)
        self._cut(self._any(), self._members)
        self._hold()

    def change_members_and_all_apart(self):
        self._begin_changes(votes=1)
        time.sleep(self._chance.uniform(0, 2))
        self._apart()
        self._hold(self._chance.uniform(0.5, 4))

    def remove_cut_off(self):
        """A member is removed while it is cut off: it must learn that, and is then added again, without its files."""
        member = self._any()
        self._cut(member, self._members)
        self._hold()
        with self._set.client() as client:
            until("a member is removed", lambda: remove(client, member.address) is None)
        self._after.append(lambda: self._put_back(member))

    def _put_back(self, member):
        read = {"find": "lists", "$db": "admin", "$readPreference": {"mode": "secondaryPreferred"}}
        try:
            until("the removed member refuses reads", lambda: ask_once(member, read).get("ok") != 1, REMOVED_S)
        finally:
            member.kill()
            member.empty()
            member.start()
            with self._set.client() as client:
                until("the member is added again", lambda: add(client, member.address, 1) is None)
                reconfigure(client, lambda members: [each | {"priority": 1} for each in members])


FAULTS = {name.replace("_", "-"): fault for name, fault in vars(Faults).items() if not name.startswith("_")}


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
        return (
            f"| {name} | {self.rounds} | {self.answered} | {self.failed} | {seconds(self.pauses)} | {seconds(self.heals)} "
            f"| {self.violations} |"
        )


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
        return f"round {self.number}, {self.name}{changes}: {self.work.answered()} answers, {failed} errors{pause}{heal}"


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
    print(f"{len(measured)} graphs, in {len(must)} of them a majority is connected; writes paused there for "
          f"{seconds([one.pause for one in must])} in the median and at most: {violations} violations", flush=True)  # fmt: skip
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
