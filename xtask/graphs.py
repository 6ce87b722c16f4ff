"""Cuts links between the members of a replica set in every way, and looks where writes go on.

The graphs of two-way links among three, four and five members, and of one-way links among three; each once up to the
names of the members that are not the primary. Where a majority of the members is connected with each other, writes must
go on within 5 s. Where only one member reaches a majority, which the members of that majority do not do, a table tells
whether writes go on; where no member does, no write may be acknowledged.
"""

import itertools
import time
from dataclasses import dataclass

from availability import Availability
from replica_set import until

# How long a graph lasts, how soon writes must go on, and how late they must still go on.
HOLD_S = 6.5
WITHIN_S = 5.0
LAST_S = 1.0
NAMES = "PABCD"


@dataclass(frozen=True)
class Graph:
    """The links of members by their numbers, each `(sender, receiver)`; 0 is the primary."""

    members: int
    links: frozenset

    def both_ways(self, one, other):
        return (one, other) in self.links and (other, one) in self.links

    def majority(self):
        return self.members // 2 + 1

    def has_connected_majority(self):
        """Whether the members of a majority are all linked with each other."""
        groups = itertools.combinations(range(self.members), self.majority())
        return any(all(self.both_ways(*pair) for pair in itertools.combinations(group, 2)) for group in groups)

    def hubs(self):
        """The members that reach a majority, themselves among it."""
        everyone = range(self.members)
        reach = {one: 1 + sum(self.both_ways(one, other) for other in everyone if other != one) for one in everyone}
        return [one for one in everyone if reach[one] >= self.majority()]

    def __str__(self):
        words = []
        for one, other in itertools.combinations(range(self.members), 2):
            there, back = (one, other) in self.links, (other, one) in self.links
            if there or back:
                words.append(f"{NAMES[one]}{'-' if there and back else '>' if there else '<'}{NAMES[other]}")
        return " ".join(words) or "none"


def graphs(members, one_way=False):
    """All graphs of so many members, up to the names of those that are not 0."""
    pairs = list(itertools.combinations(range(members), 2))
    links = (
        [{pair} for pair in pairs] + [{pair[::-1]} for pair in pairs]
        if one_way
        else [{pair, pair[::-1]} for pair in pairs]
    )
    names = [(0, *others) for others in itertools.permutations(range(1, members))]
    seen = set()
    for choice in itertools.product((True, False), repeat=len(links)):
        graph = frozenset(link for taken, group in zip(choice, links) if taken for link in group)
        renamed = (tuple(sorted((name[one], name[other]) for one, other in graph)) for name in names)
        canonical = min(renamed)
        if canonical not in seen:
            seen.add(canonical)
            yield Graph(members, frozenset(canonical))


@dataclass
class Measured:
    """How writes went while a graph lasted: the longest pause in seconds, and whether they went on at its end."""

    graph: Graph
    pause: float
    goes_on: bool
    heal: float

    def violation(self):
        if self.graph.has_connected_majority() and not (self.goes_on and self.pause <= WITHIN_S):
            return "a majority is connected, and no write is taken"
        if not self.graph.hubs() and self.goes_on:
            return "a write is acknowledged, and no member reaches a majority"
        return None


def measure(replica_set, graph, database):
    """Cuts the links of a set that a graph lacks, heals them, and waits until the set is whole."""
    until("a whole set", replica_set.is_whole)
    primary = replica_set.primary()
    order = [primary, *(member for member in replica_set.members if member is not primary)]
    availability = Availability(replica_set.members, database)
    try:
        until("a write", lambda: availability.first_after(0) is not None)
        begun = time.monotonic()
        for one, other in itertools.permutations(range(graph.members), 2):
            if (one, other) not in graph.links:
                replica_set.network.cut(order[one].number, order[other].number)
        time.sleep(HOLD_S)
        ended = time.monotonic()
        replica_set.heal()
        until("a write", lambda: availability.first_after(ended) is not None)
        pause, heal = availability.pause(begun, ended), availability.first_after(ended)
        last = availability.first_after(ended - LAST_S)
        return Measured(graph, pause, last is not None and last < LAST_S, heal)
    finally:
        availability.end()


def table(measured):
    """The graphs in which only some members reach a majority, and no majority is connected."""
    rows = ["| members | links | reaches a majority | writes go on | pause |", "|---|---|---|---|---|"]
    for one in measured:
        graph = one.graph
        if graph.hubs() and not graph.has_connected_majority():
            hubs = ", ".join(NAMES[hub] for hub in graph.hubs())
            answer, pause = ("yes", f"{one.pause:.1f} s") if one.goes_on else ("no", "")
            rows.append(f"| {graph.members} | {graph} | {hubs} | {answer} | {pause} |")
    return "\n".join(rows)


def test_graphs():
    """The numbers are those of rooted graphs, and each is judged as it must be."""
    assert [len(list(graphs(members))) for members in (3, 4, 5)] == [6, 20, 90]
    assert len(list(graphs(3, one_way=True))) == 36

    def graph(members, *pairs):
        return Graph(members, frozenset(link for pair in pairs for link in (pair, pair[::-1])))

    star, whole = graph(5, (1, 0), (1, 2), (1, 3)), graph(3, (0, 1))
    assert star.hubs() == [1] and not star.has_connected_majority() and whole.has_connected_majority()
    assert graph(4, (0, 1)).hubs() == [] and str(star) == "P-A A-B A-C"
    assert Graph(3, frozenset({(0, 1), (1, 2), (2, 0)})).hubs() == []
    assert Measured(whole, 0.1, True, 0).violation() is None and Measured(star, 6, False, 0).violation() is None
    assert Measured(whole, 5.5, True, 0).violation() and Measured(whole, 1, False, 0).violation()
    assert Measured(graph(4, (0, 1)), 1, True, 0).violation(), "a write without a majority"
    assert len(table([Measured(star, 6, False, 0), Measured(whole, 0, True, 0)]).splitlines()) == 3


if __name__ == "__main__":
    test_graphs()
