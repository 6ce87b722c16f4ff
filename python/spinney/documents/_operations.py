"""The operations of a bulk write, and the results of writes."""


class InsertOne:
    """Inserts a document."""

    def __init__(self, document):
        self.document = document


class UpdateOne:
    """Updates the first document that matches."""

    _multi = False

    def __init__(self, filter, update, upsert=False, array_filters=None, hint=None):
        self.statement = statement(filter, update, upsert, self._multi, array_filters, hint)


class UpdateMany(UpdateOne):
    """Updates all documents that match."""

    _multi = True


class ReplaceOne:
    """Replaces the first document that matches."""

    def __init__(self, filter, replacement, upsert=False, hint=None):
        self.statement = statement(filter, replacement, upsert, False, None, hint)


class DeleteOne:
    """Deletes the first document that matches."""

    _limit = 1

    def __init__(self, filter, hint=None):
        self.statement = {"q": filter, "limit": self._limit}
        if hint is not None:
            self.statement["hint"] = hint


class DeleteMany(DeleteOne):
    """Deletes all documents that match."""

    _limit = 0


def statement(filter, update, upsert, multi, array_filters, hint):
    """A statement of the command `update`."""
    made = {"q": filter, "u": update, "upsert": upsert, "multi": multi}
    if array_filters is not None:
        made["arrayFilters"] = array_filters
    if hint is not None:
        made["hint"] = hint
    return made


class InsertOneResult:
    """What an insert did."""

    def __init__(self, inserted_id):
        self.inserted_id = inserted_id


class InsertManyResult:
    """What an insert of many did."""

    def __init__(self, inserted_ids):
        self.inserted_ids = inserted_ids


class UpdateResult:
    """What an update did."""

    def __init__(self, reply):
        upserted = reply.get("upserted", [])
        self.upserted_id = upserted[0]["_id"] if upserted else None
        self.matched_count = reply["n"] - len(upserted)
        self.modified_count = reply["nModified"]


class DeleteResult:
    """What a delete did."""

    def __init__(self, reply):
        self.deleted_count = reply["n"]


class BulkWriteResult:
    """What a bulk write did."""

    def __init__(self):
        self.inserted_count = self.matched_count = self.modified_count = self.deleted_count = 0
        self.upserted_ids = {}
        self.errors = []

    def add(self, command, reply, first):
        """Counts a reply for operations from number `first` on."""
        if command == "insert":
            self.inserted_count += reply["n"]
        elif command == "delete":
            self.deleted_count += reply["n"]
        else:
            upserted = reply.get("upserted", [])
            self.upserted_ids.update((first + made["index"], made["_id"]) for made in upserted)
            self.matched_count += reply["n"] - len(upserted)
            self.modified_count += reply["nModified"]
        self.errors += ({**error, "index": first + error["index"]} for error in reply.get("writeErrors", ()))

    @property
    def details(self):
        """All of it as a document."""
        return {
            "nInserted": self.inserted_count,
            "nMatched": self.matched_count,
            "nModified": self.modified_count,
            "nRemoved": self.deleted_count,
            "upserted": [{"index": index, "_id": id} for index, id in self.upserted_ids.items()],
            "writeErrors": self.errors,
        }
