"""Cursors and change streams."""

from . import _arrow
from ._codec import int64


class Cursor:
    """The documents of a query, read from the database as they are asked for. The query runs at the first of them."""

    def __init__(self, client, database, collection, command, session):
        self._client, self._database, self._collection = client, database, collection
        self._command, self._session = command, session
        self._batch, self._id, self._begun = [], None, False
        self._batch_size = None

    def _option(self, name, value):
        if self._begun:
            raise RuntimeError("the query has begun: set its options before")
        self._command[name] = value
        return self

    def sort(self, key_or_list, direction=1):
        """Orders by a field, or by pairs of field and direction (1 or -1)."""
        return self._option("sort", sort_document(key_or_list, direction))

    def skip(self, count):
        """Leaves the first documents out."""
        return self._option("skip", count)

    def limit(self, count):
        """Shows at most so many documents; 0 shows all."""
        return self._option("limit", count)

    def hint(self, index):
        """Uses an index, by its name or its keys."""
        return self._option("hint", index if isinstance(index, str) else sort_document(index, 1))

    def collation(self, collation):
        """Compares strings by the rules of a language, as `{"locale": "en", "strength": 2}`."""
        return self._option("collation", collation)

    def batch_size(self, count):
        """How many documents are read from the database at once."""
        self._batch_size = count
        return self

    def explain(self):
        """How the query is run."""
        return self._client._run(self._database, {"explain": self._command, "verbosity": "queryPlanner"}, None)

    def _begin(self):
        self._begun = True
        command = dict(self._command)
        if self._batch_size is not None:
            if "find" in command:
                command["batchSize"] = self._batch_size
            else:
                command["cursor"] = {"batchSize": self._batch_size}
        self._take(self._client._run(self._database, command, self._session)["cursor"], "firstBatch")

    def _take(self, cursor, batch):
        self._id = cursor["id"]
        self._batch = cursor[batch][::-1]
        if "ns" in cursor:
            self._collection = cursor["ns"].partition(".")[2]

    def _more(self):
        command = {"getMore": int64(self._id), "collection": self._collection}
        if self._batch_size:
            command["batchSize"] = self._batch_size
        self._take(self._client._run(self._database, command, self._session)["cursor"], "nextBatch")

    def __iter__(self):
        return self

    def __next__(self):
        if not self._begun:
            self._begin()
        while not self._batch:
            if not self._id:
                raise StopIteration
            self._more()
        return self._batch.pop()

    next = __next__

    def to_list(self):
        """All documents that are left."""
        return list(self)

    def to_arrow(self, schema=None):
        """All documents that are left as a table of pyarrow. The columns are those of `schema` (a schema, or a dict of
        names and types), else of the projection if it includes fields, else all fields; see `spinney.documents._arrow`
        for the types. Raises `InvalidError` for a field whose values have no one type."""
        return _arrow.table(self, self._command.get("projection"), schema)

    def to_arrow_batches(self, rows=10_000, schema=None):
        """As `to_arrow`, an iterator of record batches of at most `rows` documents, which are read as it goes on.
        Without a schema the first batch decides the types."""
        return _arrow.batches(self, self._command.get("projection"), schema, rows)

    def to_pandas(self, schema=None):
        """All documents that are left as a frame of pandas, by way of `to_arrow`."""
        return self.to_arrow(schema).to_pandas()

    @property
    def alive(self):
        """Whether there may be more documents."""
        return not self._begun or bool(self._batch) or bool(self._id)

    def close(self):
        """Gives up what is left."""
        if self._id:
            command = {"killCursors": self._collection, "cursors": [int64(self._id)]}
            self._client._run(self._database, command, self._session)
        self._begun, self._id, self._batch = True, 0, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class ChangeStream:
    """Changes as they are committed. Iterating waits for the next one; `try_next` returns `None` when there is none."""

    def __init__(self, client, database, target, stage, pipeline, options):
        self._client, self._database = client, database
        stage = {**stage, **options}
        self._wait_ms = stage.pop("max_await_time_ms", 1000)
        command = {"aggregate": target, "pipeline": [{"$changeStream": stage}, *pipeline], "cursor": {}}
        self._token = None
        self._take(client._run(database, command, None)["cursor"], "firstBatch")

    def _take(self, cursor, batch):
        self._id, self._collection = cursor["id"], cursor["ns"].partition(".")[2]
        self._batch = cursor[batch][::-1]
        self._last = cursor.get("postBatchResumeToken")
        if not self._batch and self._last:
            self._token = self._last

    def _more(self, wait_ms):
        command = {"getMore": int64(self._id), "collection": self._collection, "maxTimeMS": wait_ms}
        self._take(self._client._run(self._database, command, None)["cursor"], "nextBatch")

    @property
    def resume_token(self):
        """From where another stream goes on: give it as `resumeAfter`."""
        return self._token

    @property
    def alive(self):
        """Whether there can be more changes."""
        return bool(self._id) or bool(self._batch)

    def _pop(self):
        change = self._batch.pop()
        self._token = change["_id"] if self._batch or not self._last else self._last
        return change

    def try_next(self):
        """The next change if it comes within `max_await_time_ms`, else `None`."""
        if not self._batch and self._id:
            self._more(self._wait_ms)
        return self._pop() if self._batch else None

    def __iter__(self):
        return self

    def __next__(self):
        while not self._batch:
            if not self._id:
                raise StopIteration
            self._more(self._wait_ms)
        return self._pop()

    next = __next__

    def close(self):
        """Ends the stream."""
        if self._id:
            command = {"killCursors": self._collection, "cursors": [int64(self._id)]}
            self._client._run(self._database, command, None)
        self._id, self._batch = 0, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def sort_document(key_or_list, direction):
    """`"a"`, `[("a", 1), ("b", -1)]` or `{"a": 1}` as a document."""
    if isinstance(key_or_list, str):
        return {key_or_list: direction}
    if hasattr(key_or_list, "items"):
        return dict(key_or_list)
    return {key: way for key, way in (pair if isinstance(pair, tuple) else (pair, 1) for pair in key_or_list)}
