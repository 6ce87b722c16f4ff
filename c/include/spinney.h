// Spinney: an embedded, transactional storage engine, and a document database on it.
//
// Every call that can fail returns a spinney_status; spinney_error_message() describes the last error of the thread.
// Handles are opaque. What a call gives through a pointer to a handle belongs to the caller and is freed by the function
// that its comment names; a handle that is given to a function that ends it (spinney_close, spinney_txn_commit, ..) is
// freed by that function, also when it fails. When a call fails it gives nothing, and what its last argument points to
// is not changed, unless its comment says so.
//
// A database, its tables and snapshots may be used by any number of threads. A transaction, a batch, a range, a feed is
// for one thread at a time. No function calls back into the program but spinney_load, which does so by the same thread.
//
// This file is made from the sources by cbindgen: do not edit it.

#ifndef SPINNEY_H
#define SPINNEY_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. A program gives it to `spinney_open`, which refuses one that the library does not
// have: then the program was compiled with another library's header.
#define SPINNEY_ABI_VERSION 1

// What a call returns. Everything but `SPINNEY_STATUS_OK` and `SPINNEY_STATUS_NONE` is an error, which
// `spinney_error_message` describes.
typedef enum {
  // It was done.
  SPINNEY_STATUS_OK = 0,
  // It was done, and there is nothing: no such key, no further entry, no commit in time.
  SPINNEY_STATUS_NONE = 1,
  // Another transaction committed a change to the same key first: run the transaction again.
  SPINNEY_STATUS_CONFLICT = 2,
  // Two transactions would wait for each other's locks: roll this one back and run it again.
  SPINNEY_STATUS_DEADLOCK = 3,
  // A lock was not to be had in time: retry, or wait longer.
  SPINNEY_STATUS_TIMEOUT = 4,
  // The disk is full: free space and try again.
  SPINNEY_STATUS_FULL = 5,
  // The operating system refused: see the message.
  SPINNEY_STATUS_IO = 6,
  // Stored bytes are not what was written.
  SPINNEY_STATUS_CORRUPTION = 7,
  // The call is wrong: fix it.
  SPINNEY_STATUS_INVALID = 8,
  // There is no database, table or directory of this name.
  SPINNEY_STATUS_NOT_FOUND = 9,
  // There is one of this name already.
  SPINNEY_STATUS_ALREADY_EXISTS = 10,
  // This version cannot do that.
  SPINNEY_STATUS_UNSUPPORTED = 11,
  // The database was closed.
  SPINNEY_STATUS_CLOSED = 12,
  // A write or sync failed earlier: open the database again.
  SPINNEY_STATUS_POISONED = 13,
  // Another process, or handle, has the database open.
  SPINNEY_STATUS_LOCKED = 14,
  // What was asked for is not kept any more: begin again with what there is.
  SPINNEY_STATUS_GONE = 15,
  // The database was opened by the process that this one was forked from: open it after the fork.
  SPINNEY_STATUS_FORKED = 16,
  // A fault of the library: the message says where. Close the database and report it.
  SPINNEY_STATUS_FAULT = 17,
  // The table was dropped while this handle of it, or what was made with it, was in use.
  SPINNEY_STATUS_DROPPED = 18,
  // The transaction or batch is larger than memory allows: commit in parts, or give the database more memory.
  SPINNEY_STATUS_TOO_LARGE = 19,
} spinney_status;

// What a commit survives once it has returned.
typedef enum {
  // As the option `durability` of the database says.
  SPINNEY_DURABILITY_DEFAULT = 0,
  // The power fails.
  SPINNEY_DURABILITY_SYNC = 1,
  // The process or the power fails after the option `interval`.
  SPINNEY_DURABILITY_INTERVAL = 2,
  // The process dies.
  SPINNEY_DURABILITY_BUFFERED = 3,
} spinney_durability;

// What becomes of a key.
typedef enum {
  // It has this value.
  SPINNEY_CHANGE_KIND_PUT = 1,
  // It is removed.
  SPINNEY_CHANGE_KIND_DELETE = 2,
  // The value is an operand of the table's merge operator.
  SPINNEY_CHANGE_KIND_MERGE = 3,
  // All keys from the key on and before the value are removed; an empty value is no limit.
  SPINNEY_CHANGE_KIND_RANGE_DELETE = 4,
  // It is removed, and was put once.
  SPINNEY_CHANGE_KIND_SINGLE_DELETE = 5,
} spinney_change_kind;

// How a database is opened.
typedef enum {
  // Opens the database that is there.
  SPINNEY_OPEN_MODE_EXISTING = 0,
  // Opens it, and makes it when it is not there.
  SPINNEY_OPEN_MODE_CREATE = 1,
  // Looks at it, also beside the process that has it open, and changes nothing.
  SPINNEY_OPEN_MODE_READ_ONLY = 2,
} spinney_open_mode;

// In which direction a range goes.
typedef enum {
  // From the first key to the last.
  SPINNEY_DIRECTION_ASCENDING = 0,
  // From the last key to the first.
  SPINNEY_DIRECTION_DESCENDING = 1,
} spinney_direction;

// What a transaction is protected from.
typedef enum {
  // It reads the state of its begin, and commits only if no other changed first what it writes.
  SPINNEY_ISOLATION_SNAPSHOT = 0,
  // As if one transaction ran after the other.
  SPINNEY_ISOLATION_SERIALIZABLE = 1,
} spinney_isolation;

// Changes of any tables that `spinney_write` commits at once and that check nothing. For one thread at a time.
typedef struct spinney_batch spinney_batch;

// Committed changes in their order. For one thread at a time.
typedef struct spinney_change_feed spinney_change_feed;

// A commit.
typedef struct spinney_commit spinney_commit;

// An open database. Any thread may use it.
typedef struct spinney_database spinney_database;

// An open document database. Any thread may use it.
typedef struct spinney_documents spinney_documents;

// Options of a database.
typedef struct spinney_options spinney_options;

// Entries in key order, or against it, as of when the range was begun. For one thread at a time.
typedef struct spinney_range spinney_range;

// A point of a transaction to which it can go back.
typedef struct spinney_savepoint spinney_savepoint;

// All tables as they were at one moment. Any thread may use it. It keeps what is overwritten meanwhile on disk.
typedef struct spinney_snapshot spinney_snapshot;

// A table. Any thread may use it. Its calls that write are a commit each, durable as the database's options say.
typedef struct spinney_table spinney_table;

// Options of a table.
typedef struct spinney_table_options spinney_table_options;

// Reads the database as of its begin, and writes all or nothing. For one thread at a time. It ends with
// `spinney_txn_commit` or `spinney_txn_rollback`.
typedef struct spinney_txn spinney_txn;

// Bytes that belong to somebody else: a key, a value, a note. `data` may be `NULL` when `size` is 0.
typedef struct {
  // The first of them.
  const uint8_t *data;
  // How many.
  size_t size;
} spinney_bytes;

// Bytes that a call gave. `data` and `size` are valid until `spinney_value_free`, also after the database is closed.
// Do not copy or change the struct itself.
typedef struct {
  // The first of the bytes; `NULL` when the value was freed or never given.
  const uint8_t *data;
  // How many.
  size_t size;
  // The library's own.
  size_t owner[6];
} spinney_value;

// A change of a commit. Its bytes are valid until the commit is freed.
typedef struct {
  // What becomes of the key.
  spinney_change_kind kind;
  // The name of the table, UTF-8 without a NUL at its end; empty when the table was dropped meanwhile.
  spinney_bytes table;
  // The key; of a range-delete the first one.
  spinney_bytes key;
  // The value, the operand, or the key behind the range.
  spinney_bytes value;
} spinney_change;

// Gives the next entry of a load: returns 1 and sets `key` and `value`, or 0 at the end, or a negative number to give
// the load up. The bytes must be valid until it is called again.
typedef int32_t (*spinney_next_entry)(void *context, spinney_bytes *key, spinney_bytes *value);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, as `0.1.0`.
const char *spinney_version(void);

// The version of the library's interface, which is `SPINNEY_ABI_VERSION` of its header.
uint32_t spinney_abi_version(void);

// A new batch. Free it with `spinney_batch_free`.
spinney_batch *spinney_batch_new(void);

// Frees a batch. `NULL` is ignored.
void spinney_batch_free(spinney_batch *batch);

// Forgets the changes of a batch, which can be used again.
void spinney_batch_clear(spinney_batch *batch);

// How many changes a batch has.
size_t spinney_batch_count(const spinney_batch *batch);

// Sets the value of a key.
spinney_status spinney_batch_put(spinney_batch *batch,
                                 const spinney_table *table,
                                 spinney_bytes key,
                                 spinney_bytes value);

// Removes a key, if it is there.
spinney_status spinney_batch_delete(spinney_batch *batch, const spinney_table *table, spinney_bytes key);

// Removes all keys from `from` on and before `to`; `NULL` is no limit.
spinney_status spinney_batch_delete_range(spinney_batch *batch,
                                          const spinney_table *table,
                                          const spinney_bytes *from,
                                          const spinney_bytes *to);

// Merges an operand into the value of a key by the table's merge operator.
spinney_status spinney_batch_merge(spinney_batch *batch,
                                   const spinney_table *table,
                                   spinney_bytes key,
                                   spinney_bytes operand);

// Gives the commit a note that stands in the log beside its changes.
spinney_status spinney_batch_note(spinney_batch *batch, spinney_bytes note);

// Commits the changes of a batch at once. The batch stays as it is.
spinney_status spinney_write(const spinney_database *database,
                             const spinney_batch *batch,
                             spinney_durability durability);

// Frees a value. Does nothing with one that was freed, or that is all zeros.
void spinney_value_free(spinney_value *value);

// The position of the log up to which all commits are durable; 0 for `NULL`.
uint64_t spinney_log_end(const spinney_database *database);

// The oldest position of the log from which a feed can begin; 0 for `NULL`.
uint64_t spinney_log_start(const spinney_database *database);

// Gives the commits from a position of the log on. Free the feed with `spinney_changes_free`.
spinney_status spinney_changes(const spinney_database *database, uint64_t from, spinney_change_feed **feed);

// Gives the next commit, waited for at most so many milliseconds; `SPINNEY_STATUS_NONE` when there is none by then.
// Free it with `spinney_commit_free`.
spinney_status spinney_changes_wait(spinney_change_feed *feed, uint64_t milliseconds, spinney_commit **commit);

// The position from which another feed goes on; 0 for `NULL`.
uint64_t spinney_changes_resume(const spinney_change_feed *feed);

// Frees a feed. `NULL` is ignored.
void spinney_changes_free(spinney_change_feed *feed);

// How many changes a commit has.
size_t spinney_commit_count(const spinney_commit *commit);

// The place of the first change of a commit in the order of visibility.
uint64_t spinney_commit_seqnum(const spinney_commit *commit);

// The note of a commit; empty when it has none. Valid until the commit is freed.
spinney_bytes spinney_commit_note(const spinney_commit *commit);

// Gives change number `index` of a commit, from 0 on; `SPINNEY_STATUS_NONE` behind the last.
spinney_status spinney_commit_change(const spinney_commit *commit, size_t index, spinney_change *change);

// Frees a commit. `NULL` is ignored.
void spinney_commit_free(spinney_commit *commit);

// Opens the database in the directory `path`. `abi` is `SPINNEY_ABI_VERSION`; `options` may be `NULL` and still belong
// to the caller afterwards. The database is closed, and freed, by `spinney_close`.
spinney_status spinney_open(uint32_t abi,
                            const char *path,
                            spinney_open_mode mode,
                            const spinney_options *options,
                            spinney_database **database);

// Closes a database and frees its handle, also when it returns an error. What was committed is in the trees or in the
// log. Tables, ranges and snapshots of it must still be freed; calls with them are `SPINNEY_STATUS_CLOSED`. `NULL` is
// ignored.
spinney_status spinney_close(spinney_database *database);

// Writes what memory holds of all tables to their trees.
spinney_status spinney_flush(const spinney_database *database);

// Makes all commits durable that have returned.
spinney_status spinney_sync(const spinney_database *database);

// Copies the database, as of one moment, to the new directory `path`. With `since`, which may be `NULL`, it shares
// files with the earlier copy there.
spinney_status spinney_checkpoint(const spinney_database *database, const char *path, const char *since);

// Reads every block and compares its checksum. Gives the report as JSON; damage stands in its `problems`.
spinney_status spinney_verify(const spinney_database *database, spinney_value *report);

// Gives every counter of the database as JSON.
spinney_status spinney_stats(const spinney_database *database, spinney_value *stats);

// Gives the names of all tables as a JSON array.
spinney_status spinney_tables(const spinney_database *database, spinney_value *names);

// Opens the document database in the directory `path`, which is made when it is not there. As `spinney_open`; closed,
// and freed, by `spinney_documents_close`. Change streams need the option `log_keep_bytes`.
spinney_status spinney_documents_open(uint32_t abi,
                                      const char *path,
                                      const spinney_options *options,
                                      spinney_documents **documents);

// Runs a command of MongoDB's on the database `name`, as `{find: "people", filter: {age: {$gt: 20}}}`, and gives the
// reply. Both are BSON. The status is `SPINNEY_STATUS_OK` when there is a reply: whether the command was done is told
// by its field `ok`, as on the wire.
spinney_status spinney_documents_run(const spinney_documents *documents,
                                     const char *name,
                                     spinney_bytes command,
                                     spinney_value *reply);

// Closes what a program left behind: cursors, transactions and sessions that were not used for some minutes. A program
// that runs for long calls it now and then.
void spinney_documents_sweep(const spinney_documents *documents);

// Closes a document database and frees its handle, also when it returns an error. `NULL` is ignored.
spinney_status spinney_documents_close(spinney_documents *documents);

// Loads entries whose keys ascend, as one commit that is not logged: the fastest way to fill a table. `next` is called
// by this thread, within this call, with `context`. `count`, which may be `NULL`, is how many entries were loaded.
spinney_status spinney_load(const spinney_table *table, spinney_next_entry next, void *context, uint64_t *count);

// New options of a database, all at their defaults. Free them with `spinney_options_free`.
spinney_options *spinney_options_new(void);

// Frees options. `NULL` is ignored.
void spinney_options_free(spinney_options *options);

// Sets an option of a database: `memory_bytes`, `direct_io` (`true`, `false`), `log_dir`, `log_segment_bytes`,
// `log_bytes_max`, `log_keep_bytes`, `log_keep_time` (seconds), `log_compression` (`off`, `lz4`, `zstd`), `interval`
// (seconds), `durability` (`sync`, `interval`, `buffered`), `memtable_bytes`, `compaction_threads`. Bytes are plain
// numbers. `SPINNEY_STATUS_INVALID` for a name that there is not, and for a value that is not of the option's kind or
// range, which the error's message tells.
spinney_status spinney_options_set(spinney_options *options, const char *name, const char *value);

// New options of a table, all at their defaults. Free them with `spinney_table_options_free`.
spinney_table_options *spinney_table_options_new(void);

// Frees options. `NULL` is ignored.
void spinney_table_options_free(spinney_table_options *options);

// Sets an option of a table: `layout` (`btree`, `lsm`, `lsm-tiered`), `block_bytes`, `compression` (`none`, `lz4`,
// `zstd`), `filter_bits_per_key`, `prefix_filter` (`bytes:N`, `upto:C`, `upto:0xNN`), `run_bytes_max`, `fanout`,
// `logged` (`true`, `false`), `merge` (`add`), `large_value_bytes`, `time_to_live` (seconds). `SPINNEY_STATUS_INVALID`
// for a name that there is not, and for a value that is not of the option's kind or range, which the error's message
// tells.
spinney_status spinney_table_options_set(spinney_table_options *options, const char *name, const char *value);

// Gives the next entry; `SPINNEY_STATUS_NONE` when there is no more. The bytes are valid until the next call with this
// range.
spinney_status spinney_range_next(spinney_range *range, spinney_bytes *key, spinney_bytes *value);

// Gives the next key, without its value; `SPINNEY_STATUS_NONE` when there is no more.
spinney_status spinney_range_next_key(spinney_range *range, spinney_bytes *key);

// Goes on from `key`: the next entry is the first one of the range at it or, in the range's direction, behind it.
spinney_status spinney_range_seek(spinney_range *range, spinney_bytes key);

// Frees a range. `NULL` is ignored.
void spinney_range_free(spinney_range *range);

// Gives a view of all tables as they are now. Free it with `spinney_snapshot_free`.
spinney_status spinney_snapshot_new(const spinney_database *database, spinney_snapshot **snapshot);

// Frees a snapshot. Its ranges go on. `NULL` is ignored.
void spinney_snapshot_free(spinney_snapshot *snapshot);

// Gives the value that a key had; `SPINNEY_STATUS_NONE` when it had none. Free it with `spinney_value_free`.
spinney_status spinney_snapshot_get(const spinney_snapshot *snapshot,
                                    const spinney_table *table,
                                    spinney_bytes key,
                                    spinney_value *value);

// Gives the entries that a table had from `from` on and before `to`; `NULL` is no limit.
spinney_status spinney_snapshot_range(const spinney_snapshot *snapshot,
                                      const spinney_table *table,
                                      const spinney_bytes *from,
                                      const spinney_bytes *to,
                                      spinney_direction direction,
                                      spinney_range **range);

// The message of the last error of a call of this thread; empty before the first. It is valid until the next error of
// the thread.
const char *spinney_error_message(void);

// Opens the table `name`, which is there. Free it with `spinney_table_free`.
spinney_status spinney_table_open(const spinney_database *database, const char *name, spinney_table **table);

// Makes the table `name`. `options` may be `NULL`. Free it with `spinney_table_free`.
spinney_status spinney_table_create(const spinney_database *database,
                                    const char *name,
                                    const spinney_table_options *options,
                                    spinney_table **table);

// Opens the table `name`, and makes it when it is not there. Free it with `spinney_table_free`.
spinney_status spinney_table_open_or_create(const spinney_database *database,
                                            const char *name,
                                            const spinney_table_options *options,
                                            spinney_table **table);

// Frees the handle of a table. `NULL` is ignored.
void spinney_table_free(spinney_table *table);

// Drops the table `name` with all that is in it.
spinney_status spinney_table_drop(const spinney_database *database, const char *name);

// Gives the value of a key; `SPINNEY_STATUS_NONE` when there is none. Free it with `spinney_value_free`.
spinney_status spinney_get(const spinney_table *table, spinney_bytes key, spinney_value *value);

// Sets the value of a key.
spinney_status spinney_put(const spinney_table *table, spinney_bytes key, spinney_bytes value);

// Removes a key, if it is there.
spinney_status spinney_delete(const spinney_table *table, spinney_bytes key);

// Removes all keys from `from` on and before `to`; `NULL` is no limit.
spinney_status spinney_delete_range(const spinney_table *table, const spinney_bytes *from, const spinney_bytes *to);

// Merges an operand into the value of a key by the table's merge operator. That of `add` is 8 bytes, little-endian.
spinney_status spinney_merge(const spinney_table *table, spinney_bytes key, spinney_bytes operand);

// Merges all of a table into one tree.
spinney_status spinney_compact(const spinney_table *table);

// Gives the trees of a table as JSON.
spinney_status spinney_shape(const spinney_table *table, spinney_value *shape);

// Begins a transaction.
spinney_status spinney_begin(const spinney_database *database, spinney_isolation isolation, spinney_txn **transaction);

// Commits, and frees the handle, also when it returns an error. `SPINNEY_STATUS_CONFLICT` when another transaction
// changed first what this one wrote or, serializable, read: nothing is written, and it can be run again.
spinney_status spinney_txn_commit(spinney_txn *transaction, spinney_durability durability);

// Forgets what a transaction wrote, and frees the handle. `NULL` is ignored.
void spinney_txn_rollback(spinney_txn *transaction);

// Gives the value of a key as the transaction sees it; `SPINNEY_STATUS_NONE` when there is none.
spinney_status spinney_txn_get(const spinney_txn *transaction,
                               const spinney_table *table,
                               spinney_bytes key,
                               spinney_value *value);

// As `spinney_txn_get`, and locks the key until the transaction ends. Waits for others' locks as long as
// `spinney_txn_set_lock_wait` says: then `SPINNEY_STATUS_TIMEOUT`, or at once `SPINNEY_STATUS_DEADLOCK`.
spinney_status spinney_txn_get_for_update(spinney_txn *transaction,
                                          const spinney_table *table,
                                          spinney_bytes key,
                                          spinney_value *value);

// Locks all keys from `from` on and before `to`, there or not, until the transaction ends.
spinney_status spinney_txn_lock_range(spinney_txn *transaction,
                                      const spinney_table *table,
                                      const spinney_bytes *from,
                                      const spinney_bytes *to);

// How many milliseconds locks are waited for: 5,000 unless set.
spinney_status spinney_txn_set_lock_wait(spinney_txn *transaction, uint64_t milliseconds);

// Sets the value of a key.
spinney_status spinney_txn_put(spinney_txn *transaction,
                               const spinney_table *table,
                               spinney_bytes key,
                               spinney_bytes value);

// Sets the value of a key that has none: `SPINNEY_STATUS_ALREADY_EXISTS` when it has one; the commit is
// `SPINNEY_STATUS_CONFLICT` when another transaction gives it one before.
spinney_status spinney_txn_put_new(spinney_txn *transaction,
                                   const spinney_table *table,
                                   spinney_bytes key,
                                   spinney_bytes value);

// Removes a key, if it is there.
spinney_status spinney_txn_delete(spinney_txn *transaction, const spinney_table *table, spinney_bytes key);

// Removes all keys from `from` on and before `to`; `NULL` is no limit.
spinney_status spinney_txn_delete_range(spinney_txn *transaction,
                                        const spinney_table *table,
                                        const spinney_bytes *from,
                                        const spinney_bytes *to);

// Merges an operand into the value of a key by the table's merge operator.
spinney_status spinney_txn_merge(spinney_txn *transaction,
                                 const spinney_table *table,
                                 spinney_bytes key,
                                 spinney_bytes operand);

// Gives the entries from `from` on and before `to` as the transaction sees them now; `NULL` is no limit.
spinney_status spinney_txn_range(const spinney_txn *transaction,
                                 const spinney_table *table,
                                 const spinney_bytes *from,
                                 const spinney_bytes *to,
                                 spinney_direction direction,
                                 spinney_range **range);

// Gives the commit a note that stands in the log beside its changes.
spinney_status spinney_txn_note(spinney_txn *transaction, spinney_bytes note);

// Gives a point to which `spinney_txn_rollback_to` goes back. Free it with `spinney_savepoint_free`.
spinney_status spinney_txn_savepoint(spinney_txn *transaction, spinney_savepoint **savepoint);

// Forgets what was written since a savepoint, which stays.
spinney_status spinney_txn_rollback_to(spinney_txn *transaction, const spinney_savepoint *savepoint);

// Frees a savepoint. What was written since stays. `NULL` is ignored.
void spinney_savepoint_free(spinney_savepoint *savepoint);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SPINNEY_H */

/// The bytes of a text that ends with a NUL, without that.
#define SPINNEY_TEXT(text) ((spinney_bytes){(const uint8_t *)(text), sizeof(text) - 1})
