"""Checks histories of what clients were answered: of lists to which they append, linearizable for single lists and
snapshot isolation for transactions; of a counter, of documents inserted once, of sums, of sessions and of streams.

Every appended element is unique, so the last state of a list tells the order of all appends, and a history can be
checked in time that grows with its length. The method is that of "Elle: inferring isolation anomalies from experimental
observations" (Kingsbury, Alvaro; VLDB 2020); snapshot isolation by the cycles of "A critique of snapshot isolation"
and "Analysing snapshot isolation" (Cerone, Gotsman; PODC 2016): every cycle of dependencies must have two
anti-dependencies in a row. A cycle is named as in Adya's thesis ("Weak consistency", 1999).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

NEVER = float("inf")


@dataclass
class Operation:
    """An append of `value`, or a read that saw `value`, a list. Of an append without an answer `end` is `NEVER`."""

    key: object
    kind: str
    value: object
    start: float
    end: float = NEVER


@dataclass
class Transaction:
    """What a transaction read and appended, in its order: `("append", key, element)` or `("read", key, list)`.
    `committed` is `None` when its fate is not known."""

    name: object
    steps: list = field(default_factory=list)
    committed: bool | None = None


@dataclass
class Call:
    """An increase of a counter, and the value that it gave; without one its fate is not known."""

    start: float
    end: float = NEVER
    value: int | None = None


@dataclass
class Session:
    """What a causally consistent session did with a document whose number only grows: `("write", number)` when that was
    acknowledged, and `("read", number)`."""

    name: object
    steps: list = field(default_factory=list)


def check_linearizable(operations, final):
    """The faults of a history of single lists, given the last state of each."""
    faults = []
    by_key = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    for key, history in by_key.items():
        last = final.get(key, [])
        place = {element: number for number, element in enumerate(last)}
        if len(place) != len(last):
            faults.append(f"list {key} has an element twice")
            continue
        placed = []
        for operation in history:
            if operation.kind == "append":
                if operation.value in place:
                    # An append is at a whole number, a read of so many elements behind it.
                    placed.append((place[operation.value] + 1, operation))
                elif operation.end != NEVER:
                    faults.append(f"list {key} lost {operation.value}, which was acknowledged")
            elif last[: len(operation.value)] != operation.value:
                faults.append(
                    f"list {key}: a read saw {operation.value[-3:]} at {len(operation.value)}, which is not there"
                )
            else:
                placed.append((len(operation.value) + 0.5, operation))
        known = {operation.value for operation in history if operation.kind == "append"}
        faults += [f"list {key} has {element}, which nobody appended" for element in last if element not in known]
        faults += real_time(key, placed)
    return faults


def real_time(key, placed):
    """Faults where an operation ended before one began that stands before it in the order of the list."""
    faults, latest, waiting, at = [], (-NEVER, None), [], None
    for position, operation in sorted(placed, key=lambda pair: pair[0]):
        if position != at:
            for other in waiting:
                latest = max(latest, (other.start, id(other)))
            waiting, at = [], position
        if operation.end < latest[0]:
            faults.append(
                f"list {key}: a {operation.kind} at {position} ended at {operation.end:.4f}, "
                f"and what is before it began at {latest[0]:.4f}"
            )
        waiting.append(operation)
    return faults


class Graph:
    """The dependencies of transactions: for each the names of those that come behind it."""

    def __init__(self):
        # Behind an append the next of the same list; behind an append the reads of it; behind a read the next append.
        self.ww, self.wr, self.rw = defaultdict(set), defaultdict(set), defaultdict(set)

    def add(self, edges, one, other):
        if one is not other:
            edges[one.name].add(other.name)

    def cycle(self):
        """A cycle that snapshot isolation does not allow, and its name; or nothing."""
        ahead = merged(self.ww, self.wr)
        # Dependencies, each perhaps followed by one anti-dependency.
        steps = defaultdict(set)
        for one, others in ahead.items():
            for other in others:
                steps[one] |= {other} | self.rw[other]
        found = find_cycle(steps)
        if not found:
            return None
        for name, edges in (("G0", self.ww), ("G1c", ahead)):
            cycle = find_cycle(edges)
            if cycle:
                return name, cycle
        for one, others in self.rw.items():
            for other in others:
                path = find_path(ahead, other, one)
                if path:
                    return "G-single", [one, *path]
        return "G-nonadjacent", found


def merged(*graphs):
    result = defaultdict(set)
    for graph in graphs:
        for one, others in graph.items():
            result[one] |= others
    return result


def check_snapshot_isolation(transactions, final):
    """The faults of a history of transactions, given the last state of each list."""
    faults, writer, graph = [], {}, Graph()
    for transaction in transactions:
        for kind, key, value in transaction.steps:
            if kind == "append":
                writer[(key, value)] = transaction
    seen = {(key, element) for key, elements in final.items() for element in elements}
    for transaction in transactions:
        appends = [(key, value) for kind, key, value in transaction.steps if kind == "append"]
        there = [append in seen for append in appends]
        if transaction.committed is None:
            transaction.committed = any(there) if appends else None
        if transaction.committed and not all(there):
            faults.append(f"transaction {transaction.name} is there in a part")
        if transaction.committed is False and any(there):
            faults.append(f"transaction {transaction.name} was ended, and is there")
    committed = [transaction for transaction in transactions if transaction.committed]
    for key, elements in final.items():
        order = [writer.get((key, element)) for element in elements]
        if None in order:
            faults.append(f"list {key} has {elements[order.index(None)]}, which nobody appended")
            continue
        if len(set(elements)) != len(elements):
            faults.append(f"list {key} has an element twice")
        for one, other in pairwise(order):
            graph.add(graph.ww, one, other)
    for transaction in committed:
        faults += reads(transaction, final, writer, graph)
    cycle = graph.cycle()
    if cycle:
        faults.append(f"transactions in a circle, {cycle[0]}: {' -> '.join(map(str, cycle[1]))}")
    return faults


def reads(transaction, final, writer, graph):
    """Adds the edges of a transaction's reads, and gives their faults."""
    faults, own = [], defaultdict(list)
    for kind, key, value in transaction.steps:
        if kind == "append":
            own[key].append(value)
            continue
        mine = own[key]
        foreign = value[: len(value) - len(mine)]
        last = final.get(key, [])
        ended = [
            writer[(key, one)] for one in foreign if (key, one) in writer and writer[(key, one)].committed is False
        ]
        if value[len(foreign) :] != mine:
            faults.append(f"transaction {transaction.name} does not see its own appends to {key}")
        elif ended:
            faults.append(f"transaction {transaction.name} saw {ended[0].name}, which was ended (G1a)")
        elif last[: len(foreign)] != foreign:
            faults.append(f"transaction {transaction.name} saw a state of {key} that never was")
        else:
            before = writer.get((key, foreign[-1])) if foreign else None
            if before is not None:
                graph.add(graph.wr, before, transaction)
            behind = writer.get((key, last[len(foreign)])) if len(foreign) < len(last) else None
            if behind is not None and before is behind and behind is not transaction:
                faults.append(f"transaction {transaction.name} saw a part of {behind.name} (G1b)")
            elif behind is not None:
                graph.add(graph.rw, transaction, behind)
    return faults


def check_counter(calls, final):
    """The faults of a counter that began with 0: each increase gives a value of its own, in the order of time."""
    values = [call.value for call in calls if call.value is not None]
    faults = [] if len(set(values)) == len(values) else ["the counter gave a value twice"]
    if not len(values) <= final <= len(calls):
        faults.append(f"the counter is at {final} after {len(values)} increases and {len(calls) - len(values)} perhaps")
    if values and max(values) > final:
        faults.append(f"the counter gave {max(values)}, and is at {final}")
    latest = -NEVER
    for call in sorted((call for call in calls if call.value is not None), key=lambda call: call.value):
        if call.end < latest:
            faults.append(f"the counter gave {call.value} before an increase began that gave less")
        latest = max(latest, call.start)
    return faults


def check_inserts(sent, acknowledged, there):
    """The faults of documents that were inserted once."""
    found = set(there)
    faults = [] if len(found) == len(there) else ["a document is there twice"]
    lost = [name for name in acknowledged if name not in found]
    faults += [f"{len(lost)} documents are lost, which were acknowledged: {lost[:5]}"] if lost else []
    invented = sorted(found - sent)
    return faults + ([f"documents that nobody inserted: {invented[:5]}"] if invented else [])


def check_sums(sums, expected):
    """The faults of sums of all accounts, each `(how it was read, sum, where)`."""
    faults = []
    for how in sorted({row[0] for row in sums}):
        rows = [row for row in sums if row[0] == how]
        wrong = [row for row in rows if row[1] != expected]
        if wrong:
            _, total, where = wrong[0]
            faults.append(f"{how}: {len(wrong)} of {len(rows)} sums are wrong: {total}, not {expected}, at {where}")
    return faults


def check_sessions(sessions):
    """The faults of causally consistent sessions: a read sees what the session wrote or read before."""
    faults = []
    for session in sessions:
        least = 0
        for _, number in session.steps:
            if number < least:
                faults.append(f"a session by {session.name} saw {number} after {least}")
            least = max(least, number)
    return faults


def check_streams(streams, there):
    """The faults of change streams at several members, each a list of `(id, time)`: all show each once, in order."""
    faults, first = [], None
    for name, events in streams.items():
        ids = [event[0] for event in events]
        if len(set(ids)) != len(ids):
            faults.append(f"the stream at {name} has an event twice")
        lost, invented = set(there) - set(ids), set(ids) - set(there)
        if lost or invented:
            faults.append(f"the stream at {name} lacks {sorted(lost)[:5]}, and has {sorted(invented)[:5]} beside")
        if any(one[1] > other[1] for one, other in pairwise(events)):
            faults.append(f"the times of the stream at {name} go back")
        if first is not None and events != first[1]:
            faults.append(f"the streams at {first[0]} and {name} have two orders")
        first = first or (name, events)
    return faults


def find_cycle(graph):
    """The names of a cycle, or nothing."""
    color, parent = {}, {}
    for root in list(graph):
        if root in color:
            continue
        color[root], stack = "open", [(root, iter(graph.get(root, ())))]
        while stack:
            node, others = stack[-1]
            for other in others:
                if other not in color:
                    color[other], parent[other] = "open", node
                    stack.append((other, iter(graph.get(other, ()))))
                    break
                if color[other] == "open":
                    cycle = [other, node]
                    while cycle[-1] != other:
                        cycle.append(parent[cycle[-1]])
                    return cycle[::-1]
            else:
                color[node] = "done"
                stack.pop()
    return []


def find_path(graph, start, end):
    """The names of a shortest path, or nothing."""
    parent, waiting = {start: None}, [start]
    for node in waiting:
        if node == end:
            path = [node]
            while parent[path[-1]] is not None:
                path.append(parent[path[-1]])
            return path[::-1]
        for other in graph.get(node, ()):
            if other not in parent:
                parent[other] = node
                waiting.append(other)
    return []


def test_checker():
    """Plants each fault; the checkers must find it, and nothing in a sound history."""
    test_lists()
    test_transactions()
    test_single_answers()


def test_lists():
    append, read = "append", "read"
    sound = [Operation(1, append, "a", 0, 1), Operation(1, read, ["a"], 2, 3), Operation(1, append, "b", 2, NEVER)]
    assert check_linearizable(sound, {1: ["a", "b"]}) == check_linearizable(sound, {1: ["a"]}) == []
    assert check_linearizable(sound, {1: ["b"]}), "a lost append"
    assert check_linearizable(sound, {1: ["b", "a"]}), "a read of what never was"
    assert check_linearizable(sound, {1: ["a", "a"]}) and check_linearizable(sound, {1: ["a", "x"]})
    assert check_linearizable([sound[0], Operation(1, read, [], 2, 3)], {1: ["a"]}), "an old read"
    late = [Operation(1, append, "a", 0, 1), Operation(1, append, "b", 2, 3)]
    assert check_linearizable(late, {1: ["b", "a"]}), "appends against their order"
    backward = [*late, Operation(1, read, ["a", "b"], 2, 2.5), Operation(1, read, ["a"], 2.6, 2.8)]
    assert check_linearizable(backward, {1: ["a", "b"]}), "reads that go back"


def test_transactions():
    append, read = "append", "read"

    def transaction(name, *steps, committed=True):
        return Transaction(name, list(steps), committed)

    both = {1: ["a"], 2: ["b"]}
    skew = [
        transaction("s", (read, 1, []), (read, 2, []), (append, 1, "a")),
        transaction("t", (read, 1, []), (read, 2, []), (append, 2, "b")),
    ]
    assert check_snapshot_isolation(skew, both) == [], "snapshot isolation allows write skew"
    lost = [transaction("s", (read, 1, []), (append, 1, "a")), transaction("t", (read, 1, []), (append, 1, "b"))]
    assert check_snapshot_isolation(lost, {1: ["a", "b"]}), "a lost update"
    write = transaction("w", (append, 1, "a"), (append, 2, "b"))
    assert check_snapshot_isolation([write, transaction("r", (read, 1, ["a"]), (read, 2, []))], both), "a read between"
    assert check_snapshot_isolation([write, transaction("r", (read, 1, []), (read, 2, []))], both) == []
    assert check_snapshot_isolation([write], {1: ["a"]}), "half of a transaction"
    ended = transaction("w", (append, 1, "a"), committed=False)
    assert check_snapshot_isolation([ended], {1: ["a"]}), "one that was ended"
    fork = [
        transaction("w", (append, 1, "a")),
        transaction("x", (append, 2, "b")),
        transaction("r", (read, 1, ["a"]), (read, 2, [])),
        transaction("q", (read, 1, []), (read, 2, ["b"])),
    ]
    assert check_snapshot_isolation(fork, both), "two readers that see two writes in two orders"

    def finds(name, final, *transactions):
        faults = check_snapshot_isolation(list(transactions), final)
        assert any(name in fault for fault in faults), f"{name} was not found: {faults}"

    crossed = {1: ["a", "b"], 2: ["d", "c"]}
    finds("G0", crossed, transaction("s", (append, 1, "a"), (append, 2, "c")),
          transaction("t", (append, 1, "b"), (append, 2, "d")))  # fmt: skip
    finds("G1a", {1: []}, ended, transaction("r", (read, 1, ["a"])))
    two = transaction("w", (append, 1, "a"), (append, 1, "b"))
    finds("G1b", {1: ["a", "b"]}, two, transaction("r", (read, 1, ["a"])))
    finds("G1c", both, transaction("s", (append, 1, "a"), (read, 2, ["b"])),
          transaction("t", (append, 2, "b"), (read, 1, ["a"])))  # fmt: skip
    finds("G-single", both, write, transaction("r", (read, 1, ["a"]), (read, 2, [])))
    finds("G-nonadjacent", both, *fork)
    finds("twice", {1: ["a", "a"]}, transaction("s", (append, 1, "a")))


def test_single_answers():
    """The checkers of what is no list."""
    calls = [Call(0, 1, 1), Call(0, 3, 2), Call(2, NEVER, None)]
    assert check_counter(calls, 2) == check_counter(calls, 3) == []
    assert check_counter(calls, 1) and check_counter(calls, 4), "an increase that is lost, or done twice"
    assert check_counter([Call(0, 1, 1), Call(2, 3, 1)], 2), "a value twice"
    assert check_counter([Call(0, 1, 2), Call(2, 3, 1)], 2), "values against their order"
    assert check_inserts({1, 2}, [1], [1]) == check_inserts({1, 2}, [1], [1, 2]) == []
    assert check_inserts({1, 2}, [1], [2]) and check_inserts({1}, [1], [1, 1]) and check_inserts({1}, [1], [1, 2])
    assert check_sums([("a", 10, "x"), ("b", 10, "y")], 10) == [] and check_sums([("a", 10, "x"), ("b", 9, "y")], 10)
    assert check_sessions([Session("a", [("write", 1), ("read", 1), ("read", 2)])]) == []
    assert check_sessions([Session("a", [("write", 2), ("read", 1)])]), "an own write that is not seen"
    assert check_sessions([Session("a", [("read", 2), ("read", 1)])]), "reads that go back"
    stream = [("x", 1), ("y", 2)]
    assert check_streams({"a": stream, "b": list(stream)}, ["x", "y"]) == []
    assert check_streams({"a": stream, "b": stream[:1]}, ["x", "y"]), "a lost event"
    assert check_streams({"a": stream[:1]}, ["x", "y"]) and check_streams({"a": [*stream, ("z", 3)]}, ["x", "y"])
    assert check_streams({"a": [*stream, ("y", 2)]}, ["x", "y"]), "an event twice"
    assert check_streams({"a": [("x", 2), ("y", 1)]}, ["x", "y"]), "times that go back"
    assert check_streams({"a": [("x", 1), ("y", 1)], "b": [("y", 1), ("x", 1)]}, ["x", "y"]), "two orders"


if __name__ == "__main__":
    test_checker()
    print("every planted fault was found")
