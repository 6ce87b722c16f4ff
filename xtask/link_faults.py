"""The faults of `partitions.py`: on links between members of a replica set, on their processes, and on its members."""

import itertools
import signal
import threading
import time
from dataclasses import dataclass

import pymongo
from pymongo.errors import PyMongoError

from availability import ask_once
from replica_set import until

# How long most faults last.
HOLD_S = 6.5
# How long a change of members may take.
CHANGE_S = 30.0
# How long a member that was removed while it was cut off may answer reads after the heal.
REMOVED_S = 10.0


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
        self.join(CHANGE_S)
        assert not self.is_alive(), f"a change of members has no answer: {self.waits_for}"
        with self.replica_set.client() as client:
            until("the spare is removed", lambda: remove(client, self.spare.address) is None)
        self.spare.end()


def reconfigure(client, change):
    with pymongo.timeout(CHANGE_S):
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
        for one, other in itertools.permutations(
            [member.number for member in self._members] + [self._network.clients], 2
        ):
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
