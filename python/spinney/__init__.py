"""Spinney: an embedded, transactional storage engine.

>>> import spinney, tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> db = spinney.open(directory.name + "/db")
>>> orders = db.open_or_create_table("orders")
>>> orders[b"order 1"] = b"two coffees"     # on the device when this returns
>>> with db.begin() as txn:                 # all of it, or nothing
...     txn[orders][b"order 2"] = b"tea"
>>> list(orders[b"order 1":])
[(b'order 1', b'two coffees'), (b'order 2', b'tea')]
>>> db.close()
"""

from collections.abc import Mapping

from ._errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    CorruptionError,
    DeadlockError,
    DroppedError,
    Error,
    ForkedError,
    FullError,
    GoneError,
    InvalidError,
    LockedError,
    LockTimeoutError,
    NotFoundError,
    PoisonedError,
    RetryError,
    StorageError,
    TooLargeError,
    UnsupportedError,
)
from ._spinney import (
    Batch,
    Change,
    ChangeFeed,
    Commit,
    Database,
    Range,
    Savepoint,
    Snapshot,
    Table,
    Transaction,
    Walk,
)


def open(path, *, create=True, read_only=False, **options):
    """Opens the database in a directory, and makes it when it is not there.

    create: whether a database is made where there is none; else that is a `NotFoundError`.
    read_only: looks at a database, also beside the process that has it open, and changes nothing.
    options: `memory_bytes` (default 256 MiB), `durability` (`"sync"`, `"interval"` or `"buffered"`, of commits that
    name none), `interval` (seconds), `direct_io`, `log_dir`, `log_segment_bytes`, `log_bytes_max`, `log_keep_bytes`,
    `log_keep_time` (seconds), `log_compression`, `memtable_bytes`, `compaction_threads`: as the engine's options.
    """
    return Database(path, create=create, read_only=read_only, **options)


__all__ = [name for name in dir() if not name.startswith("_") and name != "Mapping"]

Mapping.register(Table)
