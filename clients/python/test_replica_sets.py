"""Three servers that are one replica set: discovery, failover with retries, and changes of the members."""

import os
import signal
import socket
import subprocess
import threading
import time

import pymongo
import pytest
import trustme
from conftest import certificates
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure, ServerSelectionTimeoutError
from pymongo.read_concern import ReadConcern

WAIT_SECONDS = 40


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(is_so, what):
    """Waits until something is so; what it gave."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        try:
            if found := is_so():
                return found
        except (AutoReconnect, OperationFailure):
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {WAIT_SECONDS} s: {what}")


class Member:
    def __init__(self, folder, port, args):
        self.folder, self.host, self.args = folder, f"127.0.0.1:{port}", args
        self.process = None
        self.start()

    def start(self):
        command = [os.environ["SPINNEY"], "serve", str(self.folder / "db"), "--listen", self.host, *self.args]
        self.folder.mkdir(exist_ok=True)
        log = (self.folder / "stderr.log").open("a")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def client(self):
        return pymongo.MongoClient(f"mongodb://{self.host}/?directConnection=true", serverSelectionTimeoutMS=10_000)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)


class ReplicaSet:
    def __init__(self, folder, *args):
        ports = [free_port() for _ in range(3)]
        self.folder, self.args = folder, ["--replSet", "rs0", *args]
        self.hosts = [f"127.0.0.1:{port}" for port in ports]
        args = [*self.args, "--members", ",".join(self.hosts)]
        self.members = [Member(folder / str(port), port, args) for port in ports]
        self.uri = f"mongodb://{','.join(self.hosts)}/?replicaSet=rs0"

    def client(self, **options):
        options.setdefault("serverSelectionTimeoutMS", 1000 * WAIT_SECONDS)
        options.setdefault("heartbeatFrequencyMS", 500)
        return pymongo.MongoClient(self.uri, **options)

    def member(self, address):
        return next(member for member in self.members if member.host == "%s:%d" % address)

    def primary(self, client):
        return self.member(until(lambda: client.primary, "there is a primary"))

    def joining(self):
        """One more server, which waits until the set takes it in."""
        port = free_port()
        member = Member(self.folder / str(port), port, [*self.args, "--join"])
        self.members.append(member)
        return member

    def end(self):
        for member in self.members:
            member.end()


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    replicas = ReplicaSet(tmp_path_factory.mktemp("replicas"))
    yield replicas
    replicas.end()


@pytest.fixture
def client(replicas):
    with replicas.client() as client:
        until(lambda: client.primary and len(client.secondaries) == 2, "all members are there")
        yield client
        client.drop_database("shop")


def ids(collection):
    return [document["_id"] for document in collection.find(sort=[("_id", 1)])]


def test_a_driver_finds_the_members(replicas, client):
    hello = client.admin.command("hello")
    assert hello["setName"] == "rs0" and sorted(hello["hosts"]) == sorted(replicas.hosts)
    assert hello["isWritablePrimary"] and not hello["secondary"] and hello["primary"] == hello["me"]
    assert {"%s:%d" % address for address in client.nodes} == set(replicas.hosts)
    status = client.admin.command("replSetGetStatus")
    assert sorted(member["stateStr"] for member in status["members"]) == ["PRIMARY", "SECONDARY", "SECONDARY"]
    config = client.admin.command("replSetGetConfig")["config"]
    assert [member["host"] for member in config["members"]] == replicas.hosts


def test_what_is_written_is_on_all_members(replicas, client):
    shop = client.shop
    shop.orders.insert_many({"_id": i, "customer": i % 3} for i in range(100))
    shop.orders.create_index("customer")
    shop.orders.update_many({"customer": 1}, {"$set": {"paid": True}})
    shop.orders.delete_one({"_id": 5})
    with client.start_session() as session, session.start_transaction():
        shop.orders.insert_one({"_id": 1000}, session=session)
        shop.lines.insert_one({"_id": 1}, session=session)
    everywhere = shop.get_collection("orders", write_concern=WriteConcern(w=3, wtimeout=10_000))
    everywhere.insert_one({"_id": 1001})
    expected = list(shop.orders.find(sort=[("_id", 1)]))
    assert len(expected) == 101
    for member in replicas.members:
        with member.client() as direct:
            read = until(lambda: list(direct.shop.orders.find(sort=[("_id", 1)])) == expected, f"{member.host} has all")
            assert read and ids(direct.shop.lines) == [1]
            assert sorted(direct.shop.orders.index_information()) == ["_id_", "customer_1"]
            assert direct.shop.orders.count_documents({"customer": 1, "paid": True}, hint="customer_1") == 33
            assert direct.shop.command("validate", "orders")["valid"]


def test_members_that_are_not_primary_refuse_writes_and_plain_reads(replicas, client):
    client.shop.orders.insert_one({"_id": 1})
    primary = replicas.primary(client)
    for member in replicas.members:
        if member is primary:
            continue
        with member.client() as direct:
            with pytest.raises(NotPrimaryError) as refused:
                direct.shop.orders.insert_one({"_id": 2})
            assert refused.value.details["code"] == 10107
            with pytest.raises(NotPrimaryError) as refused:
                direct.shop.command({"find": "orders", "$readPreference": {"mode": "primary"}})
            assert refused.value.details["code"] == 13435
            assert direct.admin.command("hello")["secondary"]


def test_a_causal_session_reads_its_writes_on_secondaries(client):
    secondary = client.shop.get_collection("orders", read_preference=ReadPreference.SECONDARY)
    with client.start_session(causal_consistency=True) as session:
        for i in range(30):
            client.shop.orders.insert_one({"_id": i}, session=session)
            assert secondary.find_one({"_id": i}, session=session) == {"_id": i}


def test_a_linearizable_read_sees_all_that_was_written(client):
    linearizable = client.shop.get_collection("orders", read_concern=ReadConcern("linearizable"))
    for i in range(5):
        client.shop.orders.insert_one({"_id": i})
        assert linearizable.find_one({"_id": i}) == {"_id": i}


def test_write_concerns_that_cannot_be_met_are_told(client):
    orders = client.shop.get_collection("orders", write_concern=WriteConcern(w=4))
    with pytest.raises(OperationFailure) as failed:
        orders.insert_one({"_id": 1})
    assert failed.value.code == 100
    assert client.shop.orders.find_one({"_id": 1})


class Writer(threading.Thread):
    """Inserts ascending ids until it is told to stop."""

    def __init__(self, client, first):
        super().__init__()
        self.orders, self.next, self.going, self.failed = client.shop.orders, first, True, None

    def run(self):
        try:
            while self.going:
                self.orders.insert_one({"_id": self.next})
                self.next += 1
        except Exception as error:
            self.failed = error


def test_a_primary_that_is_killed_is_replaced_and_nothing_is_lost(replicas, client):
    # A driver waits this long for the server of a cursor before it opens the stream again elsewhere.
    watching = replicas.client(serverSelectionTimeoutMS=5000)
    with watching, watching.shop.watch(max_await_time_ms=100) as stream:
        writer = Writer(client, 0)
        writer.start()
        until(lambda: writer.next > 20 or writer.failed, "the writer begins")
        killed = replicas.primary(client)
        killed.kill()
        at, began = writer.next, time.monotonic()
        until(lambda: writer.next > at + 20 or writer.failed, "the writer goes on")
        print(f"writes went on {time.monotonic() - began:.1f} s after the primary was killed")
        writer.going = False
        writer.join()
        assert writer.failed is None
        seen = []
        while len(seen) < writer.next:
            event = stream.try_next()
            if event is not None and event["operationType"] == "insert":
                seen.append(event["documentKey"]["_id"])
        assert seen == list(range(writer.next))
    assert ids(client.shop.orders) == list(range(writer.next))
    killed.start()
    with killed.client() as direct:
        until(lambda: ids(direct.shop.orders) == list(range(writer.next)), "the member catches up")
    until(lambda: len(client.secondaries) == 2, "all members are there")


def test_a_step_down_is_followed_without_an_error(replicas, client):
    client.shop.orders.insert_one({"_id": -1})
    writer = Writer(client, 0)
    writer.start()
    before = replicas.primary(client)
    client.admin.command("replSetStepDown", 10)
    after = until(lambda: client.primary and replicas.primary(client) is not before, "there is another primary")
    at = writer.next
    until(lambda: writer.next > at + 20 or writer.failed, "the writer goes on")
    writer.going = False
    writer.join()
    assert after and writer.failed is None
    assert ids(client.shop.orders) == list(range(-1, writer.next))


def test_each_member_has_its_own_profile(replicas, client):
    client.shop.orders.insert_one({"_id": 1})
    secondary = next(member for member in replicas.members if member is not replicas.primary(client))
    with secondary.client() as direct:
        shop = direct.get_database("shop", read_preference=ReadPreference.SECONDARY)
        until(lambda: ids(shop.orders) == [1], "the secondary has the document")
        assert shop.command("profile", 2, slowms=0, sampleRate=1.0)["was"] == 0
        list(shop.orders.find({"_id": 1}, comment="on a secondary"))
        found = until(lambda: shop["system.profile"].find_one({"command.comment": "on a secondary"}), "it is profiled")
        assert found["ns"] == "shop.orders" and found["planSummary"] == "IDHACK"
        by_pipeline = shop["system.profile"].aggregate([{"$match": {"op": "query"}}, {"$count": "n"}])
        # Searches of the profile itself are not in it.
        assert list(by_pipeline)[0]["n"] == 1
        shop.command("profile", 1, filter={"command.comment": "by the filter"})
        list(shop.orders.find({}, comment="by the filter"))
        list(shop.orders.find({}, comment="passed over"))
        comments = shop["system.profile"].distinct("command.comment")
        assert "by the filter" in comments and "passed over" not in comments
        with pytest.raises(NotPrimaryError):
            shop["system.profile"].insert_one({})
        assert shop.command("profile", 0, filter="unset")["was"] == 1
        # A restart keeps what was profiled.
        count = shop["system.profile"].count_documents({})
        secondary.end()
        secondary.start()
        until(lambda: shop["system.profile"].count_documents({}) == count, "it is there after a restart")
    # No other member has it, and writes of clients are refused where there is one.
    assert "system.profile" not in client.shop.list_collection_names()
    client.shop.command("profile", 2)
    with pytest.raises(OperationFailure) as refused:
        client.shop["system.profile"].delete_many({})
    assert refused.value.code == 73
    with pytest.raises(OperationFailure) as refused:
        client.shop.drop_collection("system.profile")
    assert refused.value.code == 20
    client.shop.command("profile", 0)
    client.drop_database("shop")
    with secondary.client() as direct:
        until(lambda: "shop" not in direct.list_database_names(), "it goes with its database")


def config_with(client, change):
    config = client.admin.command("replSetGetConfig")["config"]
    change(config["members"])
    config["version"] += 1
    return config


def test_members_are_added_and_removed(replicas, client):
    client.shop.orders.insert_many({"_id": i} for i in range(500))
    added = replicas.joining()

    def add(members):
        members.append({"_id": 1 + max(member["_id"] for member in members), "host": added.host})

    until(lambda: added.client().admin.command("ping"), "the server runs")
    client.admin.command({"replSetReconfig": config_with(client, add)})
    with added.client() as direct:
        until(lambda: len(ids(direct.shop.orders)) == 500, "the new member has all")
    until(lambda: len(client.secondaries) == 3, "the driver hears of the member")

    def remove(members):
        members[:] = [member for member in members if member["host"] != added.host]

    client.admin.command({"replSetReconfig": config_with(client, remove)})
    until(lambda: len(client.secondaries) == 2, "the driver hears that the member is gone")
    arbiter = config_with(client, lambda members: members.append({"_id": 99, "host": "a:1", "arbiterOnly": True}))
    with pytest.raises(OperationFailure) as refused:
        client.admin.command({"replSetReconfig": arbiter})
    assert refused.value.code == 93


def test_members_prove_to_each_other_who_they_are(tmp_path):
    key = tmp_path / "key"
    key.write_text("c2VjcmV0IGtleSBvZiB0aGUgbWVtYmVycw==")
    key.chmod(0o600)
    replicas = ReplicaSet(tmp_path, "--keyFile", str(key))
    try:
        with replicas.client() as client:
            primary = replicas.primary(client)
            with primary.client() as direct:
                direct.admin.command("createUser", "root", pwd="pencil", roles=["root"])
            with pytest.raises(OperationFailure):
                client.shop.orders.insert_one({})
            with pytest.raises(OperationFailure):
                client.admin.command("_replicaReadIndex", 1)
        with replicas.client(username="root", password="pencil") as client:
            with client.start_session(causal_consistency=True) as session:
                everywhere = client.shop.get_collection("orders", write_concern=WriteConcern(w=3))
                everywhere.insert_one({"_id": 1}, session=session)
                # All members have it; the session waits until the one that is asked has applied it.
                secondary = client.shop.get_collection("orders", read_preference=ReadPreference.SECONDARY)
                assert secondary.find_one({"_id": 1}, session=session) == {"_id": 1}
    finally:
        replicas.end()


def test_members_encrypt_what_they_say(tmp_path):
    ours, other = trustme.CA(), trustme.CA()
    args, names = certificates(tmp_path / "ours", ours, ours)
    replicas = ReplicaSet(tmp_path, *args)
    tls = {"tls": True, "tlsCAFile": names["ca"], "tlsCertificateKeyFile": names["client"]}
    try:
        with replicas.client(**tls) as client:
            until(lambda: client.primary and len(client.secondaries) == 2, "all members are there")
            everywhere = client.shop.get_collection("orders", write_concern=WriteConcern(w=3, wtimeout=30_000))
            everywhere.insert_many({"_id": at, "text": "x" * 10_000} for at in range(200))
            # The entries came to the secondaries by encrypted connections, too.
            secondary = client.shop.get_collection("orders", read_preference=ReadPreference.SECONDARY)
            until(lambda: secondary.count_documents({}) == 200, "a secondary has all")
            killed = replicas.primary(client)
            killed.kill()
            everywhere.with_options(write_concern=WriteConcern(w=2)).insert_one({"_id": 200})
            killed.start()
            everywhere.insert_one({"_id": 201})
            # A server with a certificate of another authority is not spoken to.
            port = free_port()
            stranger_args, _ = certificates(tmp_path / "stranger", other, ours)
            stranger = Member(tmp_path / str(port), port, ["--replSet", "rs0", *stranger_args, "--join"])
            replicas.members.append(stranger)
            until(lambda: is_listening(port), "the stranger listens")

            def add(members):
                members.append({"_id": 9, "host": stranger.host, "priority": 0, "votes": 0})

            with pytest.raises(OperationFailure) as refused:
                client.admin.command({"replSetReconfig": config_with(client, add)})
            assert "invalid peer certificate" in str(refused.value)
        with pymongo.MongoClient(replicas.uri, serverSelectionTimeoutMS=1_000) as plain:
            with pytest.raises(ServerSelectionTimeoutError):
                plain.admin.command("ping")
    finally:
        replicas.end()
