"""The client of an embedded database, and its databases."""

from .._spinney import Documents
from . import _codec
from ._collection import Collection
from ._cursor import ChangeStream, Cursor
from ._errors import failure
from ._session import Session


class Client:
    """An open document database: `client[name]` is a database. A context manager that closes it."""

    def __init__(self, path, *, create=True, **options):
        self._documents = Documents(path, create=create, **options)

    def __getitem__(self, name):
        return Database(self, name)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def get_database(self, name):
        """A database. It is there once it has a collection."""
        return self[name]

    def list_database_names(self):
        """The names of the databases that have a collection, and `admin`, `config` and `local`, as MongoDB lists them."""
        reply = self._run("admin", {"listDatabases": 1, "nameOnly": True}, None)
        return [database["name"] for database in reply["databases"]]

    def drop_database(self, name):
        """Drops a database with all its collections."""
        self._run(name, {"dropDatabase": 1}, None)

    def start_session(self):
        """A session, for transactions."""
        return Session(self)

    def watch(self, pipeline=(), **options):
        """The changes of all databases: see `Collection.watch`."""
        return ChangeStream(self, "admin", 1, {"allChangesForCluster": True}, pipeline, options)

    def expire(self):
        """Removes documents whose time is over by indexes with `expireAfterSeconds`. Returns how many."""
        return self._documents.expire()

    def close(self):
        """Closes the database."""
        self._documents.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _run(self, database, command, session, field="", documents=()):
        """Runs a command, with documents beside it for one of its fields, and raises the error that its reply tells."""
        if session is not None:
            command = {**command, **session._fields()}
        encoded = [_codec.encode(document) for document in documents]
        reply = self._documents.run_command(database, _codec.encode(command), field, encoded)
        reply = _codec.decode(reply)
        if not reply.get("ok"):
            raise failure(reply)
        return reply


class Database:
    """A database: `database[name]` is a collection."""

    def __init__(self, client, name):
        self.client, self.name = client, name

    def __getitem__(self, name):
        return Collection(self, name)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def get_collection(self, name):
        """A collection. It is there once it has a document or was created."""
        return self[name]

    def command(self, command, value=1, *, session=None, **fields):
        """Runs a command: `command({"collStats": "packages"})` or `command("collStats", "packages")`."""
        body = dict(command) if hasattr(command, "items") else {command: value}
        return self.client._run(self.name, {**body, **fields}, session)

    def create_collection(self, name, *, session=None, **options):
        """Makes a collection with options, as `validator`."""
        self.command("create", name, session=session, **options)
        return self[name]

    def list_collections(self, filter=None, *, session=None):
        """What there is, as documents."""
        command = {"listCollections": 1, "filter": filter or {}}
        return Cursor(self.client, self.name, "$cmd.listCollections", command, session)

    def list_collection_names(self, filter=None, *, session=None):
        """The names of the collections and views."""
        return [found["name"] for found in self.list_collections(filter, session=session)]

    def drop_collection(self, name, *, session=None):
        """Drops a collection, if it is there."""
        self.command("drop", name, session=session)

    def aggregate(self, pipeline, *, session=None, **options):
        """The documents of a pipeline that begins without a collection."""
        command = {"aggregate": 1, "pipeline": list(pipeline), "cursor": {}, **options}
        return Cursor(self.client, self.name, "$cmd.aggregate", command, session)

    def watch(self, pipeline=(), **options):
        """The changes of all collections of the database: see `Collection.watch`."""
        return ChangeStream(self.client, self.name, 1, {}, pipeline, options)

    def __repr__(self):
        return f"<spinney.documents.Database '{self.name}'>"
