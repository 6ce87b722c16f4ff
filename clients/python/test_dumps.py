"""mongodump and mongorestore of servers that ask for a login: what comes back is equal, users and roles too.

The tools are those of the folder SPINNEY_MONGO_TOOLS, or of PATH; without them the tests are skipped.
"""

import datetime
import os
import pathlib
import shutil
import subprocess

import bson
import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from conftest import Server
from pymongo.errors import OperationFailure

KEPT = pathlib.Path(__file__).parents[2] / "testdata/faults/users"
OWN = ("admin", "config", "local")
PASSWORDS = {"admin.root": "s€cret", "admin.keeper": "k", "shop.ada": "pencil", "stock.bob": "p:@/%", "admin.eve": "e"}


def tool(name):
    folder = os.environ.get("SPINNEY_MONGO_TOOLS")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed; SPINNEY_MONGO_TOOLS names its folder")
    return found


def run(name, server, user, password, *args):
    """Runs a tool as a user of admin; its log."""
    login = ["--host", server.address, "--username", user, "--password", password, "--authenticationDatabase", "admin"]
    done = subprocess.run([tool(name), *login, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert " 0 document(s) failed" in done.stderr or name == "mongodump", done.stderr
    return done.stderr


@pytest.fixture
def start(tmp_path_factory):
    """Starts servers with --auth, with new databases or copies of one."""
    for name in ("mongodump", "mongorestore"):
        tool(name)
    servers = []

    def started(kept=None):
        folder = tmp_path_factory.mktemp("server")
        if kept:
            shutil.copytree(kept, folder / "db")
        servers.append(Server(folder, "--auth"))
        return servers[-1]

    yield started
    for server in servers:
        server.end()


def login(server, user):
    """A client that has logged in as a user with the password that all servers know the user by."""
    database, name = user.split(".")
    return server.client(username=name, password=PASSWORDS[user], authSource=database)


def filled(server):
    """A server with users, roles and databases; its root."""
    with server.client() as first:
        first.admin.command("createUser", "root", pwd=PASSWORDS["admin.root"], roles=["root"])
    root = login(server, "admin.root")
    fill_users(root)
    shop = root.shop
    shop.orders.insert_many({"_id": i, "customer": "ab"[i % 2], "lines": [i, i + 1], "at": [i, -i]} for i in range(3000))
    shop.orders.create_index([("customer", 1), ("lines", -1)], name="by_customer")
    shop.orders.create_index("code", unique=True, partialFilterExpression={"code": {"$gt": 5}})
    shop.orders.create_index("until", expireAfterSeconds=3600, sparse=True)
    shop.orders.create_index("name", collation={"locale": "de", "strength": 1})
    shop.orders.create_index([("$**", 1)], wildcardProjection={"lines": 1}, name="any")
    shop.create_collection("log", capped=True, size=65536, max=100)
    shop.log.insert_many({"_id": i} for i in range(5))
    shop.create_collection("strict", validator={"x": {"$gt": 0}}, validationAction="warn", collation={"locale": "fr"})
    shop.strict.insert_one({"_id": "é", "x": 1})
    shop.create_collection("of_a", viewOn="orders", pipeline=[{"$match": {"customer": "a"}}])
    shop.create_collection("empty")
    at = datetime.datetime(2026, 11, 29, tzinfo=datetime.timezone.utc)
    kinds = [1.5, "x", {"a": {}}, [], Binary(b"\x00\xff", 5), ObjectId(), True, at, None, Regex("^a", "i"), bson.Code("f")]
    kinds += [1, Timestamp(5, 6), Int64(1 << 40), Decimal128("1E-9"), MinKey(), MaxKey()]
    root.stock["of.all kinds"].insert_many({"_id": i, "value": value} for i, value in enumerate(kinds))
    root.admin.plain.insert_one({"_id": 1})
    return root


def fill_users(root):
    on_orders = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find", "update"]}
    on_cluster = {"resource": {"cluster": True}, "actions": ["serverStatus"]}
    root.shop.command("createRole", "clerk", privileges=[on_orders], roles=[])
    root.shop.command("createRole", "chief", privileges=[], roles=["clerk", "dbAdmin"])
    root.admin.command("createRole", "auditor", privileges=[on_cluster], roles=[{"role": "clerk", "db": "shop"}])
    root.admin.command("createUser", "keeper", pwd=PASSWORDS["admin.keeper"], roles=["backup"])
    root.shop.command("createUser", "ada", pwd=PASSWORDS["shop.ada"], roles=["chief"], customData={"desk": 4})
    of_bob = [{"role": "readWrite", "db": "stock"}, {"role": "read", "db": "shop"}]
    root.stock.command("createUser", "bob", pwd=PASSWORDS["stock.bob"], roles=of_bob, mechanisms=["SCRAM-SHA-1"])
    root.admin.command("createUser", "eve", pwd=PASSWORDS["admin.eve"], roles=["auditor"])


def state(root):
    """Everything that there is, but for what each server gives its collections of its own."""
    def raw(collection, **options):
        options = collection.codec_options.with_options(document_class=bson.raw_bson.RawBSONDocument)
        found = collection.with_options(codec_options=options).find().sort("_id", 1)
        return [document.raw for document in found]

    there = {}
    for name in root.list_database_names():
        for listed in root[name].list_collections():
            collection = root[name][listed["name"]]
            if listed["name"] == "system.views" or name in OWN and name != "admin" or listed["name"][:4] == "temp":
                continue
            listed["info"].pop("uuid", None)
            indexes = {} if listed["type"] == "view" else collection.index_information()
            there[name, listed["name"]] = (listed, indexes, raw(collection))
    return there


def differences(one, other):
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return [(name, one.get(name, ())[:2], other.get(name, ())[:2]) for name in names]


def check_users(server):
    """All users log in with their passwords, and may do what their roles say and nothing else."""
    with login(server, "shop.ada") as ada, login(server, "stock.bob") as bob, login(server, "admin.eve") as eve:
        assert ada.shop.orders.update_one({"_id": 1}, {"$set": {"customer": "b"}}).matched_count == 1
        ada.shop.validate_collection("orders")
        bob.stock.new.insert_one({})
        bob.stock.new.drop()
        assert bob.shop.orders.count_documents({}) == 3000
        assert eve.admin.command("serverStatus")["ok"] == 1 and eve.shop.orders.find_one({"_id": 2}) is not None
        refused = [
            lambda: ada.shop.orders.insert_one({}),
            lambda: ada.stock["of.all kinds"].find_one(),
            lambda: bob.shop.orders.insert_one({}),
            lambda: eve.shop.log.find_one(),
        ]
        for work in refused:
            with pytest.raises(OperationFailure) as error:
                work()
            assert error.value.code == 13
    with pytest.raises(OperationFailure):
        server.client(username="ada", password="wrong", authSource="shop").admin.command("hello")


WAYS = {
    "folder": (["--out"], ["--dir"]),
    "folder-gzip": (["--gzip", "--out"], ["--gzip", "--dir"]),
    "archive": (["--archive={}"], ["--archive={}"]),
    "archive-gzip": (["--gzip", "--archive={}"], ["--gzip", "--archive={}"]),
}


def arguments(way, place):
    """The arguments of a dump, and those of its restore."""
    return [
        [option.format(place) for option in side] + ([] if "archive" in way else [place]) for side in WAYS[way]
    ]


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_server_becomes_equal_by_a_restore(start, tmp_path, way):
    """A user with the role `backup` dumps, and one with the role `restore` restores."""
    server = start()
    with filled(server) as root:
        before = state(root)
    dump, restore = arguments(way, tmp_path / "dump")
    run("mongodump", server, "keeper", PASSWORDS["admin.keeper"], *dump)
    other = start()
    with other.client() as first:
        first.admin.command("createUser", "restorer", pwd="r", roles=["restore"])
    run("mongorestore", other, "restorer", "r", *restore)
    with login(other, "admin.root") as root:
        assert {user["user"] for user in root.admin.command("usersInfo", {"forAllDBs": True})["users"]} == {
            *(user.split(".")[1] for user in PASSWORDS), "restorer"
        }
        root.admin.command("dropUser", "restorer")
        assert differences(before, state(root)) == []
    check_users(other)


@pytest.mark.parametrize("way", WAYS)
def test_with_drop_a_server_becomes_again_what_it_was(start, tmp_path, way):
    """Users and roles that the dump lacks are gone, others have their old passwords and privileges."""
    server = start()
    with filled(server) as root:
        before = state(root)
        dump, restore = arguments(way, tmp_path / "dump")
        run("mongodump", server, "root", PASSWORDS["admin.root"], *dump)
        root.shop.orders.delete_many({"_id": {"$gt": 7}})
        root.shop.orders.drop_index("by_customer")
        root.shop.orders.create_index("other")
        root.drop_database("stock")
        root.shop.command("updateUser", "ada", pwd="another", roles=[])
        root.shop.command("updateRole", "clerk", privileges=[])
        root.shop.command("createUser", "mallory", pwd="m", roles=["dbOwner"])
        root.shop.command("createRole", "gone", privileges=[], roles=[])
        root.stock.command("dropUser", "bob")
        run("mongorestore", server, "root", PASSWORDS["admin.root"], "--drop", *restore)
    with login(server, "admin.root") as root:
        assert differences(before, state(root)) == []
    check_users(server)


def test_one_database_moves_with_its_users_and_roles(start, tmp_path):
    server = start()
    with filled(server) as root:
        before = state(root)
    run("mongodump", server, "root", PASSWORDS["admin.root"], "--db=shop", "--dumpDbUsersAndRoles", "--out", tmp_path)
    other = start()
    with other.client() as first:
        first.admin.command("createUser", "root", pwd=PASSWORDS["admin.root"], roles=["root"])
    given = ["--db=shop", "--restoreDbUsersAndRoles", tmp_path / "shop"]
    run("mongorestore", other, "root", PASSWORDS["admin.root"], *given)
    with login(other, "admin.root") as root:
        of_shop = {name: what for name, what in before.items() if name[0] == "shop"}
        after = {name: what for name, what in state(root).items() if name[0] == "shop"}
        assert differences(of_shop, after) == []
        assert [user["_id"] for user in root.admin.system.users.find({"db": "shop"})] == ["shop.ada"]
        assert {role["_id"] for role in root.admin.system.roles.find()} == {"shop.clerk", "shop.chief"}
    with login(other, "shop.ada") as ada:
        assert ada.shop.orders.find_one({"_id": 1}) is not None


def test_users_of_a_server_of_before_the_version_come_back(start, tmp_path):
    """The kept database has a user, and was never served by a server that stores the version of the users' form."""
    server = start(KEPT)
    run("mongodump", server, "root", "p", "--out", tmp_path)
    other = start()
    with other.client() as first:
        first.admin.command("createUser", "restorer", pwd="r", roles=["restore"])
    run("mongorestore", other, "restorer", "r", tmp_path)
    with other.client(username="root", password="p", authSource="admin") as root:
        names = [user["_id"] for user in root.admin.system.users.find().sort("_id", 1)]
        assert names == ["admin.restorer", "admin.root"]
