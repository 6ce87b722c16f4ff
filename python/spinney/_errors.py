"""The exceptions of the package. Each says what the caller can do."""


class Error(Exception):
    """The base of all of them."""


class RetryError(Error):
    """The transaction can be run again: `Database.transact` does so."""


class ConflictError(RetryError):
    """Another transaction committed a change to the same key first."""


class DeadlockError(RetryError):
    """Two transactions would wait for each other's locks."""


class LockTimeoutError(Error, TimeoutError):
    """A lock was not to be had in time: retry, or wait longer."""


class FullError(Error, OSError):
    """The disk is full: free space and try again."""


class TooLargeError(Error):
    """The transaction or batch is larger than memory allows: commit in parts, or give the database more memory."""


class StorageError(Error, OSError):
    """The operating system refused: see the message."""


class CorruptionError(Error):
    """Stored bytes are not what was written: run `verify`."""


class InvalidError(Error, ValueError):
    """The call is wrong: fix it."""


class NotFoundError(Error, LookupError):
    """There is no database, table or directory of this name."""


class AlreadyExistsError(Error):
    """There is one of this name already."""


class UnsupportedError(Error):
    """This version cannot do that."""


class ClosedError(Error):
    """What is used was closed, or has ended."""


class DroppedError(Error):
    """The table was dropped while it was in use."""


class PoisonedError(Error):
    """A write or sync failed earlier: open the database again."""


class LockedError(Error):
    """Another process has the database open."""


class GoneError(Error):
    """What was asked for is not kept any more: begin again with what there is."""


class ForkedError(Error):
    """The database was opened by the process that this one was forked from: open it after the fork."""
