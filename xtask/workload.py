"""What clients do to a replica set by pymongo while it has faults, and what must be true of their answers.

Each class is one kind of work: `prepare` makes its collections, its actions are called by workers with a name that no
other call has, and `check` gives the faults of all that was answered, when the set is whole again.
"""

import contextlib
import random
import threading
import time

from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from pymongo.write_concern import WriteConcern

from history import (
    NEVER, Call, Operation, Session, Transaction, check_counter, check_inserts, check_linearizable, check_sessions,
    check_snapshot_isolation, check_streams, check_sums,
)  # fmt: skip

LISTS = 6
WRITE_CONFLICT = 112
PREFERENCES = {
    "primary": Primary(), "primaryPreferred": PrimaryPreferred(), "secondary": Secondary(),
    "secondaryPreferred": SecondaryPreferred(), "nearest": Nearest(),
}  # fmt: skip
MAJORITY, LINEARIZABLE = WriteConcern("majority"), ReadConcern("linearizable")


class Worker(threading.Thread):
    """A client that takes one of its actions after the other at random, until it is told to end."""

    def __init__(self, number, actions, seed, ending, pause_s=0.0):
        super().__init__(daemon=True)
        self.number, self.actions, self.ending, self.pause_s = number, actions, ending, pause_s
        self.random = random.Random(seed)
        self.calls = self.failed = 0
        # What it waits for, and since when.
        self.waits_for = None
        # What actions other than transactions were told, which drivers send again by themselves.
        self.refused = []

    def run(self):
        while not self.ending.is_set():
            self.calls += 1
            action = self.random.choice(self.actions)
            self.waits_for = (action.__name__, time.monotonic())
            try:
                action(f"{self.number}.{self.calls}", self.random)
            except PyMongoError as error:
                # Of two transactions that change one document, one is refused.
                if getattr(error, "code", None) != WRITE_CONFLICT:
                    self.failed += 1
                    self.refused.append((action.__name__, error))
                    time.sleep(0.05)
            self.waits_for = None
            if self.pause_s:
                self.ending.wait(self.random.uniform(0, 2 * self.pause_s))


def commit(session):
    """Commits a transaction, again while the answer is not known."""
    for attempt in range(3):
        try:
            return session.commit_transaction()
        except (ConnectionFailure, OperationFailure) as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or attempt == 2:
                raise


class Registers:
    """Lists to which clients append with `majority` and which they read `linearizable`."""

    def __init__(self, database):
        self.collection = database.get_collection("lists", write_concern=MAJORITY, read_concern=LINEARIZABLE)
        self.operations = []

    def prepare(self):
        self.collection.insert_many([{"_id": key, "list": []} for key in range(LISTS)])

    def append(self, name, chance):
        operation = Operation(chance.randrange(LISTS), "append", name, time.monotonic())
        self.operations.append(operation)
        self.collection.update_one({"_id": operation.key}, {"$push": {"list": name}})
        operation.end = time.monotonic()

    def read(self, _, chance):
        key, start = chance.randrange(LISTS), time.monotonic()
        seen = self.collection.find_one({"_id": key})["list"]
        self.operations.append(Operation(key, "read", seen, start, time.monotonic()))

    def check(self):
        return check_linearizable(self.operations, final_lists(self.collection))

    def answered(self):
        return sum(operation.end != NEVER for operation in self.operations)


class Transactions:
    """Lists that transactions append to and read: two to four of them in each."""

    def __init__(self, database):
        self.collection, self.client = database["cells"], database.client
        self.transactions = []

    def prepare(self):
        collection = self.collection.with_options(write_concern=MAJORITY)
        collection.insert_many([{"_id": key, "list": []} for key in range(LISTS)])

    def transaction(self, name, chance):
        told = Transaction(name)
        with self.client.start_session() as session:
            session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=MAJORITY)
            try:
                for number in range(chance.randint(2, 4)):
                    self.step(told, f"{name}.{number}", session, chance)
            except PyMongoError:
                with contextlib.suppress(PyMongoError):
                    session.abort_transaction()
                told.committed = False
                self.transactions.append(told)
                raise
            self.transactions.append(told)
            commit(session)
            told.committed = True

    def step(self, told, element, session, chance):
        key = chance.randrange(LISTS)
        if chance.random() < 0.5:
            told.steps.append(("append", key, element))
            self.collection.update_one({"_id": key}, {"$push": {"list": element}}, session=session)
        else:
            told.steps.append(("read", key, self.collection.find_one({"_id": key}, session=session)["list"]))

    def check(self):
        return check_snapshot_isolation(self.transactions, final_lists(self.collection))

    def answered(self):
        return len(self.transactions)


def final_lists(collection):
    collection = collection.with_options(read_concern=LINEARIZABLE)
    return {
        document["_id"]: document["list"] for document in (collection.find_one({"_id": key}) for key in range(LISTS))
    }


class Inserts:
    """Documents that are inserted once, with a write concern: those acknowledged are there at the end."""

    def __init__(self, database, name="items", write_concern=MAJORITY):
        self.collection = database.get_collection(name, write_concern=write_concern)
        self.sent, self.acknowledged = set(), []

    def prepare(self):
        collection = self.collection.with_options(write_concern=MAJORITY)
        collection.create_index("a")
        collection.create_index("u", unique=True)

    def insert(self, name, chance):
        self.sent.add(name)
        self.collection.insert_one({"_id": name, "a": chance.randrange(100), "u": name, "t": "x" * 500})
        self.acknowledged.append(name)

    def there(self):
        collection = self.collection.with_options(read_concern=LINEARIZABLE)
        return [document["_id"] for document in collection.find({}, {"_id": 1})]

    def check(self):
        return check_inserts(self.sent, self.acknowledged, self.there())

    def answered(self):
        return len(self.acknowledged)


class Bank:
    """Transfers between accounts in two collections. The sum of all is the same at each time: in a transaction, and in
    a session of snapshots, whose reads go to members by a read preference."""

    ACCOUNTS, EACH = 5, 100

    def __init__(self, database, members):
        self.client = database.client
        # All have the accounts before they are read: a snapshot may be of an older state.
        self.write_concern = WriteConcern(members)
        self.sides = [database["left"], database["right"]]
        self.transfers, self.sums = 0, []

    def prepare(self):
        for side in self.sides:
            documents = [{"_id": number, "balance": self.EACH} for number in range(self.ACCOUNTS)]
            side.with_options(write_concern=self.write_concern).insert_many(documents)

    def transfer(self, _, chance):
        amount = chance.randint(1, 5)
        with self.client.start_session() as session:
            session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=MAJORITY)
            for change in (-amount, amount):
                account = {"_id": chance.randrange(self.ACCOUNTS)}
                chance.choice(self.sides).update_one(account, {"$inc": {"balance": change}}, session=session)
            commit(session)
        self.transfers += 1

    def sum_in_transaction(self, *_):
        with self.client.start_session() as session, session.start_transaction(read_concern=ReadConcern("snapshot")):
            self.sums.append(("transaction", *self.sum(session)))

    def sum(self, session, preference=None):
        """The sum of all accounts, and the members that were read."""
        total, places = 0, []
        for side in self.sides:
            cursor = side.with_options(read_preference=preference).find({}, session=session)
            total += sum(document["balance"] for document in cursor)
            places.append(cursor.address)
        return total, places

    def snapshot(self, preference):
        """The action of a reader by a preference."""

        def snapshot_sum(*_):
            with self.client.start_session(snapshot=True) as session:
                self.sums.append((f"snapshot at {preference}", *self.sum(session, PREFERENCES[preference])))

        return snapshot_sum

    def check(self):
        return check_sums(self.sums, 2 * self.ACCOUNTS * self.EACH)

    def answered(self):
        return self.transfers + len(self.sums)


class Counter:
    """A counter that findAndModify increases: each value is given once, in the order of time."""

    def __init__(self, database):
        self.collection = database.get_collection("counter", write_concern=MAJORITY)
        self.calls = []

    def prepare(self):
        self.collection.insert_one({"_id": 0, "n": 0})

    def increase(self, *_):
        call = Call(time.monotonic())
        self.calls.append(call)
        call.value = self.collection.find_one_and_update({"_id": 0}, {"$inc": {"n": 1}}, return_document=True)["n"]
        call.end = time.monotonic()

    def check(self):
        final = self.collection.with_options(read_concern=LINEARIZABLE).find_one({"_id": 0})["n"]
        return check_counter(self.calls, final)

    def answered(self):
        return sum(call.value is not None for call in self.calls)


class Causal:
    """Sessions that are causally consistent: each writes a document of its own with `majority`, and reads it by a read
    preference. A read sees what the session wrote and read before."""

    READS = 3

    def __init__(self, database):
        self.collection = database.get_collection(
            "causal", write_concern=MAJORITY, read_concern=ReadConcern("majority")
        )
        self.client = database.client
        self.sessions = []

    def prepare(self):
        self.collection.insert_many([{"_id": preference, "n": 0} for preference in PREFERENCES])

    def reader(self, preference):
        """The action of a client by a preference; there is one for each."""
        collection, numbers = (
            self.collection.with_options(read_preference=PREFERENCES[preference]),
            iter(range(1, 1 << 30)),
        )

        def causal_session(*_):
            told = Session(preference)
            self.sessions.append(told)
            with self.client.start_session(causal_consistency=True) as session:
                number = next(numbers)
                # A write without an answer may still be done, behind a later one.
                self.collection.update_one({"_id": preference}, {"$max": {"n": number}}, session=session)
                told.steps.append(("write", number))
                for _ in range(self.READS):
                    told.steps.append(("read", collection.find_one({"_id": preference}, session=session)["n"]))

        return causal_session

    def check(self):
        return check_sessions(self.sessions)

    def answered(self):
        return sum(len(session.steps) for session in self.sessions)


class Stream(threading.Thread):
    """Follows the changes of a collection at one member, and goes on behind the last event after each error."""

    def __init__(self, member, name, collection):
        super().__init__(daemon=True)
        self.member, self.client, self.times_emptied = member, member.client(), member.times_emptied
        # Reads of members that are not primary.
        self.collection = self.client.get_database(name, read_preference=SecondaryPreferred())[collection]
        self.events, self.errors, self.waits_for = [], 0, None
        self.follows, self.has_ended = threading.Event(), False
        self.token = None

    def run(self):
        while not self.has_ended:
            try:
                self.follow()
            except PyMongoError:
                self.errors += 1
                time.sleep(0.1)
        self.client.close()

    def follow(self):
        self.waits_for = (f"watch at member {self.member.number}", time.monotonic())
        with self.collection.watch(resume_after=self.token, max_await_time_ms=500) as stream:
            self.token = stream.resume_token or self.token
            self.follows.set()
            while not self.has_ended:
                self.waits_for = (f"getMore of a stream at member {self.member.number}", time.monotonic())
                event = stream.try_next()
                self.waits_for = None
                self.token = stream.resume_token
                if event is not None:
                    self.events.append((event["documentKey"]["_id"], event["clusterTime"]))
                    self.has_ended = event["documentKey"]["_id"] == Streams.LAST


class Streams:
    """A change stream at each member over the inserts: each event comes once, in one order."""

    LAST = "the last"
    # How long the last event may take to come.
    WAIT_S = 30

    def __init__(self, members, inserts):
        self.inserts = inserts
        database = inserts.collection.database.name
        self.streams = [Stream(member, database, inserts.collection.name) for member in members]

    def prepare(self):
        for stream in self.streams:
            stream.start()
        for stream in self.streams:
            assert stream.follows.wait(self.WAIT_S), f"no change stream at member {stream.member.number}"

    def check(self):
        """Ends the streams too: a last document is behind all others."""
        self.inserts.insert(self.LAST, random.Random(0))
        end = time.monotonic() + self.WAIT_S
        # A member that lost its files lost the past, in which its stream would go on.
        streams = [stream for stream in self.streams if stream.times_emptied == stream.member.times_emptied]
        for stream in streams:
            stream.join(max(0, end - time.monotonic()))
        faults = [
            f"the stream at member {stream.member.number} did not end {self.WAIT_S} s after the last insert: "
            f"{len(stream.events)} events, {stream.errors} errors, it waits for {stream.waits_for}"
            for stream in streams
            if stream.is_alive()
        ]
        self.end()
        events = {f"member {stream.member.number}": stream.events for stream in streams if not stream.is_alive()}
        return faults + check_streams(events, self.inserts.there())

    def end(self):
        for stream in self.streams:
            stream.has_ended = True

    def answered(self):
        return sum(len(stream.events) for stream in self.streams)
