"""When a replica set took writes, as clients see it that write at each member all the time.

They speak the wire protocol themselves: a driver waits before it asks a member again that was not the primary.
"""

import socket
import struct
import threading
import time

import bson

OP_MSG = 2013
# How long a probe waits for an answer, and then asks again by a new connection.
ANSWER_S = 1.0
# How long a probe waits after an answer.
PAUSE_S = 0.03


def connect(member, seconds=ANSWER_S):
    host, port = member.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), seconds)


def ask(connection, command):
    """The answer to a command."""
    body = struct.pack("<iB", 0, 0) + bson.encode(command)
    connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, OP_MSG) + body)
    length = struct.unpack("<i", exactly(connection, 4))[0]
    return bson.decode(exactly(connection, length - 4)[17:])


def ask_once(member, command, seconds=ANSWER_S):
    """The answer of a member to a command by a connection of its own; nothing when it does not come."""
    try:
        with connect(member, seconds) as connection:
            return ask(connection, command)
    except OSError:
        return {}


def exactly(connection, count):
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise ConnectionError("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Probe(threading.Thread):
    """Inserts at one member. Each of `acknowledged` is a time and the `_id` of a document."""

    def __init__(self, member, database, ending):
        super().__init__(daemon=True)
        self.member, self.database, self.ending = member, database, ending
        self.acknowledged, self.count = [], 0

    def run(self):
        while not self.ending.is_set():
            try:
                with connect(self.member) as connection:
                    self.insert(connection)
            except OSError:
                self.ending.wait(PAUSE_S)

    def insert(self, connection):
        while not self.ending.is_set():
            self.count += 1
            name = f"{self.member.number}.{self.count}"
            command = {"insert": Availability.COLLECTION, "documents": [{"_id": name}], "$db": self.database}
            answer = ask(connection, {**command, "writeConcern": {"w": "majority"}})
            if answer["ok"] == 1 and "writeErrors" not in answer and "writeConcernError" not in answer:
                self.acknowledged.append((time.monotonic(), name))
            self.ending.wait(PAUSE_S)


class Availability:
    """A probe at each member."""

    COLLECTION = "probes"

    def __init__(self, members, database):
        self.ending = threading.Event()
        self.probes = [Probe(member, database, self.ending) for member in members]
        for probe in self.probes:
            probe.start()

    def end(self):
        self.ending.set()
        for probe in self.probes:
            probe.join(3 * ANSWER_S)

    def acknowledged(self):
        return [name for probe in self.probes for _, name in probe.acknowledged]

    def times(self):
        return sorted(when for probe in self.probes for when, _ in probe.acknowledged)

    def first_after(self, begun):
        """How long after a moment the first write was acknowledged; nothing when none was."""
        return next((when - begun for when in self.times() if when > begun), None)

    def pause(self, begun, ended):
        """The longest time without an acknowledged write between two moments."""
        times = [begun, *(when for when in self.times() if begun < when < ended), ended]
        return max(other - one for one, other in zip(times, times[1:]))
