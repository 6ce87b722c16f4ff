"""Sessions: transactions over many documents and collections."""

import uuid

from ._codec import int64, uuid_value
from ._errors import OperationFailure

_TRIES = 100


class Session:
    """A session. As a context manager it ends, and rolls back what was not committed."""

    def __init__(self, client):
        self._client = client
        self._id = {"id": uuid_value(uuid.uuid4())}
        self._number = 0
        self._state = "none"

    def _fields(self):
        """What a command of this session carries."""
        fields = {"lsid": self._id}
        if self._state in ("starting", "in progress"):
            fields["txnNumber"] = int64(self._number)
            fields["autocommit"] = False
            if self._state == "starting":
                fields["startTransaction"] = True
                self._state = "in progress"
        return fields

    @property
    def in_transaction(self):
        """Whether a transaction is open."""
        return self._state in ("starting", "in progress")

    def start_transaction(self):
        """Begins a transaction: a context manager that commits it, or aborts it when an exception passes."""
        if self.in_transaction:
            raise OperationFailure("a transaction is open already in this session", 251)
        self._number += 1
        self._state = "starting"
        return _Transaction(self)

    def commit_transaction(self):
        """Commits the transaction."""
        self._end("commitTransaction")

    def abort_transaction(self):
        """Forgets all that the transaction wrote."""
        self._end("abortTransaction")

    def _end(self, command):
        if not self.in_transaction:
            raise OperationFailure("no transaction is open in this session", 251)
        begun = self._state == "in progress"
        try:
            if begun:
                self._client._run("admin", {command: 1}, self)
        finally:
            self._state = "none"

    def with_transaction(self, body):
        """Calls `body(session)` in a transaction and commits it; again when another transaction came between."""
        for left in reversed(range(_TRIES)):
            self.start_transaction()
            try:
                done = body(self)
                if self.in_transaction:
                    self.commit_transaction()
                return done
            except BaseException as error:
                if self.in_transaction:
                    self._abort_quietly()
                transient = isinstance(error, OperationFailure) and error.has_error_label("TransientTransactionError")
                if not transient or not left:
                    raise

    def _abort_quietly(self):
        try:
            self.abort_transaction()
        except OperationFailure:
            pass  # It was aborted by what failed in it.

    def end_session(self):
        """Ends the session."""
        if self.in_transaction:
            self._abort_quietly()
        self._client._run("admin", {"endSessions": [self._id]}, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end_session()


class _Transaction:
    def __init__(self, session):
        self._session = session

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._session.in_transaction:
            return
        if kind is None:
            self._session.commit_transaction()
        else:
            self._session._abort_quietly()
