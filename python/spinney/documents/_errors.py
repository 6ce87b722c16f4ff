"""The errors of commands, with MongoDB's codes."""

from .._errors import Error


class OperationFailure(Error):
    """A command was refused or failed. `code` is MongoDB's number, `details` the whole reply."""

    def __init__(self, message, code=None, details=None):
        super().__init__(message)
        self.code, self.details = code, details

    def has_error_label(self, label):
        """Whether the reply has a label, as `TransientTransactionError`."""
        return label in (self.details or {}).get("errorLabels", ())


class WriteError(OperationFailure):
    """A statement of a write failed."""


class DuplicateKeyError(WriteError):
    """A unique index, or `_id`, has the key already."""


class BulkWriteError(OperationFailure):
    """Statements of a bulk write failed. `details` has `writeErrors` and the counts of what was done."""


def failure(reply):
    """The error that a reply tells."""
    message, code = reply.get("errmsg", "the command failed"), reply.get("code")
    kind = DuplicateKeyError if code in (11000, 11001, 12582) else OperationFailure
    return kind(f"{message} ({reply.get('codeName', code)})", code, reply)


def write_failure(error):
    """The error of a statement."""
    kind = DuplicateKeyError if error["code"] in (11000, 11001, 12582) else WriteError
    return kind(error["errmsg"], error["code"], error)
