"""Checks histories of lists to which clients append: linearizable for single lists, snapshot isolation for transactions.

Every appended element is unique, so the last state of a list tells the order of all appends, and a history can be
checked in time that grows with its length. The method is that of "Elle: inferring isolation anomalies from experimental
observations" (Kingsbury, Alvaro; VLDB 2020); snapshot isolation by the cycles of "A critique of snapshot isolation"
and "Analysing snapshot isolation" (Cerone, Gotsman; PODC 2016): every cycle of dependencies must have two
anti-dependencies in a row.
"""

from collections import defaultdict
from dataclasses import dataclass, field

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
                faults.append(f"list {key}: a read saw {operation.value[-3:]} at {len(operation.value)}, which is not there")
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


def check_snapshot_isolation(transactions, final):
    """The faults of a history of transactions, given the last state of each list."""
    faults, writer = [], {}
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
    ahead, anti = defaultdict(set), defaultdict(set)
    for key, elements in final.items():
        order = [writer.get((key, element)) for element in elements]
        if None in order:
            faults.append(f"list {key} has {elements[order.index(None)]}, which nobody appended")
            continue
        for one, other in zip(order, order[1:]):
            if one is not other:
                ahead[one.name].add(other.name)
    for transaction in committed:
        faults += reads(transaction, final, writer, ahead, anti)
    # Dependencies, each perhaps followed by one anti-dependency.
    graph = defaultdict(set)
    for one, others in ahead.items():
        for other in others:
            graph[one].add(other)
            graph[one] |= anti[other]
    cycle = find_cycle(graph)
    if cycle:
        faults.append(f"transactions in a circle: {' -> '.join(map(str, cycle))}")
    return faults


def reads(transaction, final, writer, ahead, anti):
    """Adds the edges of a transaction's reads, and gives their faults."""
    faults, own = [], defaultdict(list)
    for kind, key, value in transaction.steps:
        if kind == "append":
            own[key].append(value)
            continue
        mine = own[key]
        foreign = value[: len(value) - len(mine)]
        last = final.get(key, [])
        if value[len(foreign) :] != mine:
            faults.append(f"transaction {transaction.name} does not see its own appends to {key}")
        elif last[: len(foreign)] != foreign:
            faults.append(f"transaction {transaction.name} saw a state of {key} that never was")
        else:
            before = writer.get((key, foreign[-1])) if foreign else None
            if before is not None and before is not transaction:
                ahead[before.name].add(transaction.name)
            behind = writer.get((key, last[len(foreign)])) if len(foreign) < len(last) else None
            if behind is not None and before is behind and behind is not transaction:
                faults.append(f"transaction {transaction.name} saw a part of {behind.name}")
            elif behind is not None and behind is not transaction:
                anti[transaction.name].add(behind.name)
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


def test_checker():
    """Plants each fault; the checker must find it, and nothing in a sound history."""
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


if __name__ == "__main__":
    test_checker()
    print("every planted fault was found")
