// Every call, with good and bad arguments. It is a test more than an example. Usage: calls PATH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spinney.h"

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, spinney_error_message());       \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)
#define OK(call) CHECK((call) == SPINNEY_STATUS_OK)
#define SAYS(call, status, part) CHECK((call) == (status) && strstr(spinney_error_message(), part))

static int is(spinney_bytes bytes, const char *text) {
    return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static int holds(spinney_status status, spinney_value *value, const char *text) {
    int same = status == SPINNEY_STATUS_OK && value->size == strlen(text) && !memcmp(value->data, text, value->size);
    spinney_value_free(value);
    spinney_value_free(value);
    return same;
}

static int next(void *context, spinney_bytes *key, spinney_bytes *value) {
    unsigned *number = context;
    static unsigned char bytes[2];
    if (*number == 1000) {
        return 0;
    }
    bytes[0] = (unsigned char)(*number >> 8);
    bytes[1] = (unsigned char)*number;
    ++*number;
    *key = (spinney_bytes){bytes, 2};
    *value = (spinney_bytes){NULL, 0};
    return 1;
}

static int give_up(void *context, spinney_bytes *key, spinney_bytes *value) {
    (void)context, (void)key, (void)value;
    return -7;
}

static void options(const char *path) {
    spinney_options *options = spinney_options_new();
    spinney_database *db;
    OK(spinney_options_set(options, "memory_bytes", "16777216"));
    OK(spinney_options_set(options, "durability", "buffered"));
    OK(spinney_options_set(options, "interval", "0.5"));
    OK(spinney_options_set(options, "log_keep_bytes", "1048576"));
    SAYS(spinney_options_set(options, "memory", "1"), SPINNEY_STATUS_INVALID, "no option 'memory'");
    SAYS(spinney_options_set(options, "durability", "maybe"), SPINNEY_STATUS_INVALID, "sync, interval, buffered");
    SAYS(spinney_options_set(options, "interval", "-1"), SPINNEY_STATUS_INVALID, "seconds");
    SAYS(spinney_options_set(NULL, "interval", "1"), SPINNEY_STATUS_INVALID, "options is NULL");
    SAYS(spinney_open(7, path, SPINNEY_OPEN_MODE_CREATE, options, &db), SPINNEY_STATUS_INVALID, "version 7");
    SAYS(spinney_open(SPINNEY_ABI_VERSION, path, SPINNEY_OPEN_MODE_EXISTING, options, &db), SPINNEY_STATUS_NOT_FOUND, "");
    SAYS(spinney_open(SPINNEY_ABI_VERSION, NULL, SPINNEY_OPEN_MODE_CREATE, options, &db), SPINNEY_STATUS_INVALID, "path");
    OK(spinney_open(SPINNEY_ABI_VERSION, path, SPINNEY_OPEN_MODE_CREATE, options, &db));
    spinney_database *second;
    CHECK(spinney_open(SPINNEY_ABI_VERSION, path, SPINNEY_OPEN_MODE_CREATE, NULL, &second) == SPINNEY_STATUS_LOCKED);
    OK(spinney_open(SPINNEY_ABI_VERSION, path, SPINNEY_OPEN_MODE_READ_ONLY, NULL, &second));
    OK(spinney_close(second));
    OK(spinney_close(db));
    spinney_options_free(options);
    CHECK(spinney_abi_version() == SPINNEY_ABI_VERSION && strlen(spinney_version()) >= 5);
}

static void tables(spinney_database *db) {
    spinney_table_options *options = spinney_table_options_new();
    spinney_table *table, *counters;
    spinney_value value;
    OK(spinney_table_options_set(options, "layout", "btree"));
    SAYS(spinney_table_options_set(options, "layout", "heap"), SPINNEY_STATUS_INVALID, "btree, lsm, lsm-tiered");
    OK(spinney_table_create(db, "t", options, &table));
    SAYS(spinney_table_create(db, "t", options, &counters), SPINNEY_STATUS_ALREADY_EXISTS, "t");
    SAYS(spinney_table_open(db, "none", &counters), SPINNEY_STATUS_NOT_FOUND, "none");
    OK(spinney_table_options_set(options, "merge", "add"));
    OK(spinney_table_open_or_create(db, "counters", options, &counters));
    spinney_table_options_free(options);

    const spinney_bytes one = {(const uint8_t *)"\1\0\0\0\0\0\0\0", 8};
    OK(spinney_merge(counters, SPINNEY_TEXT("hits"), one));
    OK(spinney_merge(counters, SPINNEY_TEXT("hits"), one));
    OK(spinney_get(counters, SPINNEY_TEXT("hits"), &value));
    CHECK(value.size == 8 && value.data[0] == 2);
    spinney_value_free(&value);
    CHECK(spinney_merge(counters, SPINNEY_TEXT("hits"), SPINNEY_TEXT("x")) == SPINNEY_STATUS_INVALID);

    OK(spinney_put(table, SPINNEY_TEXT("a"), SPINNEY_TEXT("A")));
    OK(spinney_put(table, SPINNEY_TEXT("empty"), (spinney_bytes){0}));
    CHECK(holds(spinney_get(table, SPINNEY_TEXT("empty"), &value), &value, ""));
    SAYS(spinney_put(table, (spinney_bytes){NULL, 3}, SPINNEY_TEXT("A")), SPINNEY_STATUS_INVALID, "data is NULL");
    CHECK(spinney_put(table, (spinney_bytes){0}, SPINNEY_TEXT("A")) == SPINNEY_STATUS_INVALID);
    CHECK(holds(spinney_get(table, SPINNEY_TEXT("a"), &value), &value, "A"));
    OK(spinney_delete(table, SPINNEY_TEXT("a")));
    CHECK(spinney_get(table, SPINNEY_TEXT("a"), &value) == SPINNEY_STATUS_NONE && value.data == NULL);
    OK(spinney_delete_range(table, NULL, NULL));

    unsigned number = 0;
    uint64_t count = 0;
    OK(spinney_load(table, next, &number, &count));
    CHECK(count == 1000);
    SAYS(spinney_load(table, give_up, NULL, NULL), SPINNEY_STATUS_INVALID, "-7");
    OK(spinney_flush(db));
    OK(spinney_compact(table));
    OK(spinney_shape(table, &value));
    CHECK(value.size > 10 && value.data[0] == '{');
    spinney_value_free(&value);
    CHECK(holds(spinney_tables(db, &value), &value, "[\"counters\",\"t\"]"));
    spinney_table_free(counters);
    spinney_table_free(table);
    OK(spinney_table_drop(db, "counters"));
    CHECK(spinney_table_drop(db, "counters") == SPINNEY_STATUS_NOT_FOUND);
}

static void transactions(spinney_database *db) {
    spinney_table *table;
    spinney_txn *txn, *other;
    spinney_savepoint *point;
    spinney_value value;
    spinney_range *range;
    spinney_bytes key, text;
    const spinney_bytes from = SPINNEY_TEXT("b"), to = SPINNEY_TEXT("d");
    OK(spinney_table_create(db, "letters", NULL, &table));
    spinney_batch *batch = spinney_batch_new();
    OK(spinney_batch_put(batch, table, SPINNEY_TEXT("a"), SPINNEY_TEXT("A")));
    OK(spinney_batch_put(batch, table, SPINNEY_TEXT("b"), SPINNEY_TEXT("B")));
    OK(spinney_batch_put(batch, table, SPINNEY_TEXT("c"), SPINNEY_TEXT("C")));
    OK(spinney_batch_delete(batch, table, SPINNEY_TEXT("x")));
    CHECK(spinney_batch_count(batch) == 4);
    OK(spinney_batch_note(batch, SPINNEY_TEXT("why")));
    uint64_t begin = spinney_log_end(db);
    OK(spinney_write(db, batch, SPINNEY_DURABILITY_SYNC));
    spinney_batch_clear(batch);
    CHECK(spinney_batch_count(batch) == 0);
    spinney_batch_free(batch);

    OK(spinney_begin(db, SPINNEY_ISOLATION_SERIALIZABLE, &txn));
    OK(spinney_txn_set_lock_wait(txn, 10));
    CHECK(holds(spinney_txn_get_for_update(txn, table, SPINNEY_TEXT("a"), &value), &value, "A"));
    OK(spinney_txn_lock_range(txn, table, &from, &to));
    OK(spinney_txn_put(txn, table, SPINNEY_TEXT("d"), SPINNEY_TEXT("D")));
    OK(spinney_txn_savepoint(txn, &point));
    OK(spinney_txn_delete_range(txn, table, NULL, NULL));
    CHECK(spinney_txn_get(txn, table, SPINNEY_TEXT("a"), &value) == SPINNEY_STATUS_NONE);
    OK(spinney_txn_rollback_to(txn, point));
    spinney_savepoint_free(point);
    OK(spinney_txn_range(txn, table, &from, NULL, SPINNEY_DIRECTION_DESCENDING, &range));
    OK(spinney_range_next(range, &key, &text));
    CHECK(is(key, "d") && is(text, "D"));
    OK(spinney_range_seek(range, SPINNEY_TEXT("b")));
    OK(spinney_range_next_key(range, &key));
    CHECK(is(key, "b") && spinney_range_next(range, &key, &text) == SPINNEY_STATUS_NONE);
    spinney_range_free(range);

    OK(spinney_begin(db, SPINNEY_ISOLATION_SNAPSHOT, &other));
    OK(spinney_txn_set_lock_wait(other, 10));
    CHECK(spinney_txn_get_for_update(other, table, SPINNEY_TEXT("a"), &value) == SPINNEY_STATUS_TIMEOUT);
    OK(spinney_txn_put(other, table, SPINNEY_TEXT("d"), SPINNEY_TEXT("other")));
    OK(spinney_txn_note(txn, SPINNEY_TEXT("because")));
    OK(spinney_txn_commit(txn, SPINNEY_DURABILITY_DEFAULT));
    SAYS(spinney_txn_commit(other, SPINNEY_DURABILITY_DEFAULT), SPINNEY_STATUS_CONFLICT, "");
    OK(spinney_begin(db, SPINNEY_ISOLATION_SNAPSHOT, &txn));
    SAYS(spinney_txn_put_new(txn, table, SPINNEY_TEXT("a"), SPINNEY_TEXT("A")), SPINNEY_STATUS_ALREADY_EXISTS, "letters");
    OK(spinney_txn_put_new(txn, table, SPINNEY_TEXT("new"), SPINNEY_TEXT("value")));
    OK(spinney_txn_commit(txn, SPINNEY_DURABILITY_DEFAULT));
    OK(spinney_begin(db, SPINNEY_ISOLATION_SNAPSHOT, &txn));
    OK(spinney_txn_delete(txn, table, SPINNEY_TEXT("a")));
    spinney_txn_rollback(txn);
    SAYS(spinney_txn_commit(NULL, SPINNEY_DURABILITY_SYNC), SPINNEY_STATUS_INVALID, "transaction is NULL");

    spinney_change_feed *feed;
    spinney_commit *commit;
    spinney_change change;
    OK(spinney_sync(db));
    OK(spinney_changes(db, begin, &feed));
    OK(spinney_changes_wait(feed, 5000, &commit));
    CHECK(spinney_commit_count(commit) == 4 && is(spinney_commit_note(commit), "why"));
    OK(spinney_commit_change(commit, 1, &change));
    CHECK(change.kind == SPINNEY_CHANGE_KIND_PUT && is(change.table, "letters") && is(change.key, "b") && is(change.value, "B"));
    CHECK(spinney_commit_change(commit, 4, &change) == SPINNEY_STATUS_NONE && spinney_commit_seqnum(commit) > 0);
    spinney_commit_free(commit);
    OK(spinney_changes_wait(feed, 5000, &commit));
    CHECK(is(spinney_commit_note(commit), "because") && spinney_changes_resume(feed) <= spinney_log_end(db));
    spinney_commit_free(commit);
    OK(spinney_changes_wait(feed, 5000, &commit));
    spinney_commit_free(commit);
    CHECK(spinney_changes_wait(feed, 1, &commit) == SPINNEY_STATUS_NONE && commit == NULL);
    spinney_changes_free(feed);
    CHECK(spinney_log_start(db) <= begin);

    spinney_snapshot *snapshot;
    OK(spinney_snapshot_new(db, &snapshot));
    OK(spinney_delete(table, SPINNEY_TEXT("b")));
    CHECK(holds(spinney_snapshot_get(snapshot, table, SPINNEY_TEXT("b"), &value), &value, "B"));
    spinney_snapshot_free(snapshot);
    spinney_table_free(table);
}

static void documents(const char *path) {
    // {ping: 1} and {find: 5}
    static const uint8_t ping[] = "\x0f\0\0\0\x10ping\0\1\0\0\0";
    static const uint8_t find[] = "\x0f\0\0\0\x10""find\0\5\0\0\0";
    spinney_documents *documents;
    spinney_value reply;
    OK(spinney_documents_open(SPINNEY_ABI_VERSION, path, NULL, &documents));
    OK(spinney_documents_run(documents, "app", (spinney_bytes){ping, 15}, &reply));
    CHECK(reply.size == 17 && memcmp(reply.data + 5, "ok", 3) == 0 && reply.data[15] == 0x3f);
    spinney_value_free(&reply);
    OK(spinney_documents_run(documents, "app", (spinney_bytes){find, 15}, &reply));
    CHECK(reply.size > 30);
    spinney_value_free(&reply);
    CHECK(spinney_documents_run(documents, "app", (spinney_bytes){ping, 14}, &reply) == SPINNEY_STATUS_INVALID);
    spinney_documents_sweep(documents);
    OK(spinney_documents_close(documents));
}

int main(int argc, char **argv) {
    char path[4096];
    spinney_database *db;
    spinney_value value = {0};
    if (argc != 2) {
        return 2;
    }
    options(argv[1]);
    OK(spinney_open(SPINNEY_ABI_VERSION, argv[1], SPINNEY_OPEN_MODE_EXISTING, NULL, &db));
    tables(db);
    transactions(db);
    spinney_table *kept;
    OK(spinney_table_open(db, "letters", &kept));
    OK(spinney_verify(db, &value));
    spinney_value_free(&value);
    OK(spinney_stats(db, &value));
    CHECK(value.data[0] == '{');
    snprintf(path, sizeof path, "%s-copy", argv[1]);
    OK(spinney_checkpoint(db, path, NULL));
    OK(spinney_close(db));
    CHECK(value.data[0] == '{');
    spinney_value_free(&value);
    CHECK(spinney_get(kept, SPINNEY_TEXT("a"), &value) == SPINNEY_STATUS_CLOSED);
    spinney_table_free(kept);
    snprintf(path, sizeof path, "%s-documents", argv[1]);
    documents(path);
    // Nothing is done with nothing.
    spinney_value_free(NULL);
    spinney_table_free(NULL);
    spinney_batch_free(NULL);
    spinney_range_free(NULL);
    spinney_snapshot_free(NULL);
    spinney_txn_rollback(NULL);
    OK(spinney_close(NULL));
    printf("done\n");
    return 0;
}
