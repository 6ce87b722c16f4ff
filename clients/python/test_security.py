"""Logins, roles, and encrypted and compressed connections."""

from urllib.parse import quote_plus

import pymongo
import pytest
import trustme
from conftest import certificates, serving
from pymongo.errors import ConnectionFailure, OperationFailure

ROOT = {"username": "root", "password": "s€cret"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server that asks for a login, and its root."""
    for server in serving(tmp_path_factory, "--auth", "--replSet", "rs0"):
        with server.client() as first:
            first.admin.command("createUser", ROOT["username"], pwd=ROOT["password"], roles=["root"])
        with server.client(**ROOT) as root:
            root.shop.orders.insert_one({"_id": 1})
            yield server, root


def test_nothing_is_done_without_a_login(secured):
    server, _ = secured
    with server.client() as client:
        assert client.admin.command("ping")["ok"] == 1
        for work in [client.list_database_names, client.shop.orders.find_one, lambda: client.shop.x.insert_one({})]:
            with pytest.raises(OperationFailure) as error:
                work()
            assert error.value.code == 13
    with pytest.raises(OperationFailure) as error:
        server.client(username="root", password="wrong").admin.command("ping")
    assert error.value.code == 18


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_both_mechanisms_log_in(secured, mechanism):
    server, _ = secured
    with server.client(**ROOT, authMechanism=mechanism) as client:
        assert client.shop.orders.count_documents({}) == 1


def test_a_role_allows_what_it_says(secured):
    server, root = secured
    root.shop.command("createUser", "reader", pwd="r", roles=["read"])
    with server.client(username="reader", password="r", authSource="shop") as reader:
        assert reader.shop.orders.find_one() == {"_id": 1}
        for work in [lambda: reader.shop.orders.insert_one({}), lambda: reader.other.orders.find_one()]:
            with pytest.raises(OperationFailure) as error:
                work()
            assert error.value.code == 13
        root.shop.command("grantRolesToUser", "reader", roles=["readWrite"])
        reader.shop.orders.insert_one({"_id": 2})
        root.shop.command("dropUser", "reader")
        with pytest.raises(OperationFailure):
            reader.shop.orders.find_one()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory, authority):
    """A server that takes encrypted connections of clients with a certificate."""
    args, names = certificates(tmp_path_factory.mktemp("certificates"), authority, authority)
    for running in serving(tmp_path_factory, *args):
        yield running, names


def test_connections_are_encrypted(encrypted):
    server, names = encrypted
    with server.client(tls=True, tlsCAFile=names["ca"], tlsCertificateKeyFile=names["client"]) as client:
        client.shop.large.insert_many({"_id": i, "body": "x" * 100_000} for i in range(50))
        assert sum(len(document["body"]) for document in client.shop.large.find()) == 5_000_000
    for options in [{}, {"tls": True, "tlsCAFile": names["ca"]}]:
        with server.client(serverSelectionTimeoutMS=500, **options) as client:
            with pytest.raises(ConnectionFailure):
                client.admin.command("ping")


def test_messages_are_compressed(standalone):
    with standalone.client(compressors="zlib", zlibCompressionLevel=9) as client:
        client.shop.packed.insert_many({"_id": i, "body": "x" * 10_000} for i in range(200))
        assert len(list(client.shop.packed.find())) == 200
        network = client.admin.command("serverStatus")["network"]
        assert network["bytesIn"] > 0
        client.drop_database("shop")


def test_a_unix_socket_serves_as_well(tmp_path_factory):
    path = tmp_path_factory.mktemp("socket") / "s.sock"
    for _ in serving(tmp_path_factory, "--unix", str(path)):
        with pymongo.MongoClient(f"mongodb://{quote_plus(str(path))}", serverSelectionTimeoutMS=20_000) as client:
            client.shop.things.insert_one({"_id": 1})
            assert client.shop.things.count_documents({}) == 1
