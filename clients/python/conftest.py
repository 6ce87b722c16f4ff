"""Servers that the tests share, each with a new database, and clients of theirs."""

import os
import subprocess

import pymongo
import pytest

WAIT_MS = 20_000


class Server:
    """A server that runs, on a port of its own."""

    def __init__(self, folder, *args):
        self.log = folder / "stderr.log"
        command = [os.environ["SPINNEY"], "serve", str(folder / "db"), "--listen", "127.0.0.1:0", *args]
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.address = self._address()

    def _address(self):
        for line in self.process.stdout:
            if line.startswith("listening on 127.0.0.1"):
                return line.removeprefix("listening on ").split(": ")[0]
        raise RuntimeError(self.log.read_text())

    def client(self, **options):
        options.setdefault("serverSelectionTimeoutMS", WAIT_MS)
        # How long the client waits at most until it looks at a server again whose connection broke.
        options.setdefault("heartbeatFrequencyMS", 500)
        return pymongo.MongoClient(f"mongodb://{self.address}", **options)

    def end(self):
        """SIGTERM: the server ends in order."""
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0, self.log.read_text()


def serving(tmp_path_factory, *args):
    server = Server(tmp_path_factory.mktemp("server"), *args)
    yield server
    server.end()


@pytest.fixture(scope="session")
def replica_set(tmp_path_factory):
    """A server that is the only member of a replica set, with fail points."""
    yield from serving(tmp_path_factory, "--replSet", "rs0", "--test-commands")


@pytest.fixture(scope="session")
def standalone(tmp_path_factory):
    yield from serving(tmp_path_factory)


@pytest.fixture(scope="session")
def shared_client(replica_set):
    with replica_set.client(replicaSet="rs0") as client:
        yield client


@pytest.fixture
def client(shared_client):
    """A client whose databases are dropped after the test."""
    yield shared_client
    for name in shared_client.list_database_names():
        if name not in ("admin", "config", "local"):
            shared_client.drop_database(name)


@pytest.fixture
def db(client):
    return client["shop"]


@pytest.fixture
def orders(db):
    """A collection with ten orders of two customers."""
    db.orders.insert_many({"_id": i, "customer": "ab"[i % 2], "total": 10 * i, "lines": [i, i + 1]} for i in range(10))
    return db.orders


class fail_point:
    """While it is entered, commands fail as the fail point says."""

    def __init__(self, client, mode, **data):
        self.admin = client.admin
        self.command = {"configureFailPoint": "failCommand", "mode": mode, "data": data}

    def __enter__(self):
        self.admin.command(self.command)

    def __exit__(self, *_):
        self.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def certificates(folder, authority, trusted):
    """The options of a server with a certificate of one authority, which trusts those of another, and the names of the
    files: of the trusted authority (`ca`), and of a client with a certificate of the first (`client`)."""
    folder.mkdir(exist_ok=True)
    names = {name: str(folder / f"{name}.pem") for name in ["ca", "cert", "key", "client"]}
    trusted.cert_pem.write_to_path(names["ca"])
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("client@example.com")
    server.private_key_pem.write_to_path(names["key"])
    for part in server.cert_chain_pems:
        part.write_to_path(names["cert"], append=True)
    client.private_key_and_cert_chain_pem.write_to_path(names["client"])
    return ["--tls-cert", names["cert"], "--tls-key", names["key"], "--tls-ca", names["ca"]], names
