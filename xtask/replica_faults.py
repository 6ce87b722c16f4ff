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
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from history import test_checker
from replica_set import Loopback, Namespaces, ReplicaSet, can_have_namespaces, contents, until
from workload import Inserts, Registers, Transactions, Worker

SLOW_WRITES_PER_S = 20


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
    if replica_set.network.has_links:
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


def begin(client):
    """New collections, and the work on them."""
    client.drop_database("faults")
    work = [Registers(client.faults), Transactions(client.faults), Inserts(client.faults)]
    for part in work:
        part.prepare()
    return work


def check_members(replica_set, name):
    def same():
        for member in replica_set.members:
            if not member.is_running():
                # A member whose disk is full ends; it may have seen that late.
                assert name.startswith("full-disk"), f"member {member.number} ended by itself"
                member.start()
        states = [contents(member, "faults") for member in replica_set.members]
        return all(state == states[0] for state in states)

    until("equal members", same)


def play(replica_set, name, fault, seconds, threads, seed):
    """One round; how many operations were answered, and how many were not."""
    client, work = replica_set.client(), []
    until("a primary", lambda: work.append(begin(client)) is None)
    registers, transactions, inserts = work[-1]
    actions = [registers.append, registers.read, transactions.transaction, inserts.insert]
    ending = threading.Event()
    workers = [Worker(number, actions, f"{seed}.{number}", ending) for number in range(threads)]
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
        assert not worker.is_alive(), f"a client waits for an answer: {worker.waits_for}"
    until("a write", lambda: client.faults.get_collection("lists", write_concern=WriteConcern("majority")).find_one_and_update(
        {"_id": 0}, {"$set": {"done": seed}}) is not None)
    faults = [fault for part in work[-1] for fault in part.check()]
    refused = [error for worker in workers for kind, error in worker.refused if kind in ("append", "insert")]
    if name == "rolling-restart" and refused:
        faults.append(f"{len(refused)} writes failed while members were restarted in order: {refused[0]}")
    assert not faults, "\n".join(faults[:20])
    check_members(replica_set, name)
    client.close()
    return sum(part.answered() for part in work[-1]), sum(worker.failed for worker in workers)


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
    network = Namespaces(arguments.members) if in_namespaces else Loopback()
    replica_set = ReplicaSet(
        arguments.server, folder, network, arguments.members, own_disks=in_namespaces, faketime=arguments.faketime
    )
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
