"""Collections."""

from ._codec import ObjectId
from ._cursor import ChangeStream, Cursor, sort_document
from ._errors import BulkWriteError, write_failure
from ._operations import (
    BulkWriteResult,
    DeleteOne,
    DeleteResult,
    InsertManyResult,
    InsertOne,
    InsertOneResult,
    UpdateResult,
    statement,
)

# Documents of one command at most.
_BATCH = 1000


class Collection:
    """A collection of documents. It is made by its first document.

    Every method takes `session`, within whose transaction it then is.
    """

    def __init__(self, database, name):
        self.database, self.name = database, name
        self._client = database.client

    @property
    def full_name(self):
        """The name with that of the database."""
        return f"{self.database.name}.{self.name}"

    def __getitem__(self, name):
        return Collection(self.database, f"{self.name}.{name}")

    def _run(self, command, session, field="", documents=()):
        return self._client._run(self.database.name, command, session, field, documents)

    def _write(self, command, session, field, statement):
        reply = self._run({command: self.name}, session, field, [statement])
        if "writeErrors" in reply:
            raise write_failure(reply["writeErrors"][0])
        return reply

    # Inserts

    def insert_one(self, document, *, session=None):
        """Inserts a document, which gets an `_id` if it has none."""
        _identify(document)
        self._write("insert", session, "documents", document)
        return InsertOneResult(document["_id"])

    def insert_many(self, documents, *, ordered=True, session=None):
        """Inserts documents; after one that failed those behind it, too, unless they are `ordered`."""
        documents = list(documents)
        self.bulk_write([InsertOne(document) for document in documents], ordered=ordered, session=session)
        return InsertManyResult([document["_id"] for document in documents])

    # Updates and deletes

    def _update(self, filter, update, upsert, multi, array_filters, hint, session):
        made = statement(filter, update, upsert, multi, array_filters, hint)
        return UpdateResult(self._write("update", session, "updates", made))

    def update_one(self, filter, update, upsert=False, *, array_filters=None, hint=None, session=None):
        """Updates the first document that matches by operators or a pipeline."""
        return self._update(filter, update, upsert, False, array_filters, hint, session)

    def update_many(self, filter, update, upsert=False, *, array_filters=None, hint=None, session=None):
        """Updates all documents that match."""
        return self._update(filter, update, upsert, True, array_filters, hint, session)

    def replace_one(self, filter, replacement, upsert=False, *, hint=None, session=None):
        """Replaces the first document that matches."""
        return self._update(filter, replacement, upsert, False, None, hint, session)

    def _delete(self, filter, limit, session):
        return DeleteResult(self._write("delete", session, "deletes", {"q": filter, "limit": limit}))

    def delete_one(self, filter, *, session=None):
        """Deletes the first document that matches."""
        return self._delete(filter, 1, session)

    def delete_many(self, filter, *, session=None):
        """Deletes all documents that match."""
        return self._delete(filter, 0, session)

    def bulk_write(self, operations, *, ordered=True, session=None):
        """Does many operations (`InsertOne`, `UpdateOne`, ...), neighbours of one kind by one command."""
        result = BulkWriteResult()
        for first, command, field, statements in _runs(operations):
            reply = self._run({command: self.name, "ordered": ordered}, session, field, statements)
            result.add(command, reply, first)
            if result.errors and ordered:
                break
        if result.errors:
            raise BulkWriteError("statements failed: see details", 65, result.details)
        return result

    def _find_and(self, fields, filter, projection, sort, after, session):
        command = {"findAndModify": self.name, "query": filter, **fields}
        if projection is not None:
            command["fields"] = projection
        if sort is not None:
            command["sort"] = sort_document(sort, 1)
        if after:
            command["new"] = True
        return self._run(command, session)["value"]

    def find_one_and_update(
        self, filter, update, projection=None, sort=None, *, upsert=False, return_after=False, session=None
    ):
        """Updates a document, and returns it as it was before, or after."""
        fields = {"update": update, "upsert": upsert}
        return self._find_and(fields, filter, projection, sort, return_after, session)

    find_one_and_replace = find_one_and_update

    def find_one_and_delete(self, filter, projection=None, sort=None, *, session=None):
        """Deletes a document and returns it."""
        return self._find_and({"remove": True}, filter, projection, sort, False, session)

    # Queries

    def find(self, filter=None, projection=None, *, sort=None, skip=0, limit=0, hint=None, let=None, session=None):
        """The documents that match, as a cursor."""
        command = {"find": self.name, "filter": filter or {}}
        if projection is not None:
            command["projection"] = _fields(projection)
        if let is not None:
            command["let"] = let
        cursor = Cursor(self._client, self.database.name, self.name, command, session)
        if sort is not None:
            cursor.sort(sort)
        if hint is not None:
            cursor.hint(hint)
        return cursor.skip(skip).limit(limit)

    def find_one(self, filter=None, projection=None, *, sort=None, session=None):
        """The first document that matches, or `None`. A filter that is no dict is an `_id`."""
        if filter is not None and not hasattr(filter, "items"):
            filter = {"_id": filter}
        return next(self.find(filter, projection, sort=sort, limit=1, session=session), None)

    def count_documents(self, filter, *, skip=0, limit=0, session=None):
        """How many documents match."""
        pipeline = [{"$match": filter}]
        pipeline += [{"$skip": skip}] * bool(skip) + [{"$limit": limit}] * bool(limit)
        pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
        counted = self.aggregate(pipeline, session=session).to_list()
        return counted[0]["n"] if counted else 0

    def estimated_document_count(self):
        """How many documents there are, from the counter of the collection."""
        return self._run({"count": self.name}, None)["n"]

    def distinct(self, key, filter=None, *, session=None):
        """The different values of a field."""
        return self._run({"distinct": self.name, "key": key, "query": filter or {}}, session)["values"]

    def aggregate(self, pipeline, *, session=None, **options):
        """The documents of a pipeline, as a cursor. Options as `allowDiskUse`, `let`, `hint`."""
        command = {"aggregate": self.name, "pipeline": list(pipeline), "cursor": {}, **options}
        cursor = Cursor(self._client, self.database.name, self.name, command, session)
        if pipeline and not {"$out", "$merge"}.isdisjoint(pipeline[-1]):
            cursor._begin()
        return cursor

    def watch(self, pipeline=(), **options):
        """The changes of the collection from now on, or from `resumeAfter` on; a pipeline may filter and reshape them.

        Options: `fullDocument`, `fullDocumentBeforeChange`, `resumeAfter`, `startAfter`, `startAtOperationTime`,
        `max_await_time_ms`.
        """
        return ChangeStream(self._client, self.database.name, self.name, {}, pipeline, options)

    # Indexes and the collection itself

    def create_index(self, keys, *, session=None, **options):
        """Makes an index by `"a"`, `[("a", 1), ("b", -1)]` or `{"a": 1}`, and returns its name. Options as `unique`."""
        keys = sort_document(keys, 1)
        name = options.pop("name", "_".join(f"{key}_{way}" for key, way in keys.items()))
        spec = {"key": keys, "name": name, **options}
        self._run({"createIndexes": self.name, "indexes": [spec]}, session)
        return name

    def drop_index(self, index):
        """Drops an index, by its name or its keys."""
        index = index if isinstance(index, str) else sort_document(index, 1)
        self._run({"dropIndexes": self.name, "index": index}, None)

    def drop_indexes(self):
        """Drops all indexes but that of `_id`."""
        self._run({"dropIndexes": self.name, "index": "*"}, None)

    def list_indexes(self, *, session=None):
        """The indexes, as documents."""
        return Cursor(self._client, self.database.name, self.name, {"listIndexes": self.name, "cursor": {}}, session)

    def index_information(self):
        """The indexes by name."""
        return {spec["name"]: {**spec, "key": list(spec["key"].items())} for spec in self.list_indexes()}

    def rename(self, name, *, drop_target=False):
        """Gives the collection another name."""
        to = f"{self.database.name}.{name}"
        self._client._run("admin", {"renameCollection": self.full_name, "to": to, "dropTarget": drop_target}, None)

    def drop(self, *, session=None):
        """Drops the collection, if it is there."""
        self.database.drop_collection(self.name, session=session)

    def __repr__(self):
        return f"<spinney.documents.Collection '{self.full_name}'>"


def _identify(document):
    """Gives a document an `_id` if it has none."""
    if "_id" not in document:
        document["_id"] = ObjectId()


def _fields(projection):
    """Names of fields as a projection."""
    return projection if hasattr(projection, "items") else dict.fromkeys(projection, 1)


def _runs(operations):
    """Neighbouring operations of one command: the number of the first, command, field, statements."""
    first, command, statements = 0, None, []
    for number, operation in enumerate(operations):
        if isinstance(operation, InsertOne):
            _identify(operation.document)
            name, made = "insert", operation.document
        else:
            name, made = "delete" if isinstance(operation, DeleteOne) else "update", operation.statement
        if name != command or len(statements) == _BATCH:
            if statements:
                yield first, command, _FIELDS[command], statements
            first, command, statements = number, name, []
        statements.append(made)
    if statements:
        yield first, command, _FIELDS[command], statements


_FIELDS = {"insert": "documents", "update": "updates", "delete": "deletes"}
