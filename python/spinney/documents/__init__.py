"""The document database, embedded: collections with MongoDB's data model, and a face as pymongo's.

>>> import tempfile
>>> from spinney import documents
>>> directory = tempfile.TemporaryDirectory()
>>> client = documents.open(directory.name + "/shop")
>>> packages = client["shop"]["packages"]
>>> packages.insert_many([{"_id": "mutt", "size": 6500}, {"_id": "vim", "size": 3700}]).inserted_ids
['mutt', 'vim']
>>> packages.find_one({"size": {"$gt": 5000}})
{'_id': 'mutt', 'size': 6500}
>>> [found["_id"] for found in packages.find().sort("size")]
['vim', 'mutt']
>>> client.close()

Documents are dicts. Where pymongo is installed its package `bson` has the types, else those of this module.
"""

from ._client import Client, Database
from ._codec import ObjectId, Timestamp
from ._collection import Collection
from ._cursor import ChangeStream, Cursor
from ._errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError
from ._operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from ._session import Session

ASCENDING = 1
DESCENDING = -1


def open(path, *, create=True, log_keep_bytes=64 << 20, **options):
    """Opens the document database in a directory, and makes it when it is not there.

    log_keep_bytes: of the redo log, how much is kept for change streams that go on from an earlier change; with 0 there
    are no change streams.
    options: those of `spinney.open`.
    """
    return Client(path, create=create, log_keep_bytes=log_keep_bytes, **options)


__all__ = [
    "ASCENDING",
    "DESCENDING",
    "BulkWriteError",
    "ChangeStream",
    "Client",
    "Collection",
    "Cursor",
    "Database",
    "DeleteMany",
    "DeleteOne",
    "DuplicateKeyError",
    "InsertOne",
    "ObjectId",
    "OperationFailure",
    "ReplaceOne",
    "Session",
    "Timestamp",
    "UpdateMany",
    "UpdateOne",
    "WriteError",
    "open",
]
