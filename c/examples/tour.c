// A tour of the interface: a table, a transaction, a range. Usage: tour PATH

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "spinney.h"

static void must(spinney_status status, const char *what) {
    if (status != SPINNEY_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, spinney_error_message());
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return 2;
    }
    spinney_database *db;
    must(spinney_open(SPINNEY_ABI_VERSION, argv[1], SPINNEY_OPEN_MODE_CREATE, NULL, &db), "open");

    spinney_table *orders;
    must(spinney_table_open_or_create(db, "orders", NULL, &orders), "table");
    must(spinney_put(orders, SPINNEY_TEXT("order 1"), SPINNEY_TEXT("two coffees")), "put");

    // All of it, or nothing.
    spinney_status status;
    do {
        spinney_txn *txn;
        must(spinney_begin(db, SPINNEY_ISOLATION_SNAPSHOT, &txn), "begin");
        must(spinney_txn_put(txn, orders, SPINNEY_TEXT("order 2"), SPINNEY_TEXT("tea")), "put");
        must(spinney_txn_put(txn, orders, SPINNEY_TEXT("order 3"), SPINNEY_TEXT("water")), "put");
        status = spinney_txn_commit(txn, SPINNEY_DURABILITY_SYNC);
    } while (status == SPINNEY_STATUS_CONFLICT);
    must(status, "commit");

    spinney_value value;
    if (spinney_get(orders, SPINNEY_TEXT("order 2"), &value) == SPINNEY_STATUS_OK) {
        printf("order 2: %.*s\n", (int)value.size, (const char *)value.data);
        spinney_value_free(&value);
    }

    spinney_snapshot *snapshot;
    spinney_range *range;
    spinney_bytes key, text, from = SPINNEY_TEXT("order 2");
    must(spinney_snapshot_new(db, &snapshot), "snapshot");
    must(spinney_snapshot_range(snapshot, orders, &from, NULL, SPINNEY_DIRECTION_ASCENDING, &range), "range");
    while ((status = spinney_range_next(range, &key, &text)) == SPINNEY_STATUS_OK) {
        printf("%.*s = %.*s\n", (int)key.size, (const char *)key.data, (int)text.size, (const char *)text.data);
    }
    if (status != SPINNEY_STATUS_NONE) {
        must(status, "next");
    }
    spinney_range_free(range);
    spinney_snapshot_free(snapshot);
    spinney_table_free(orders);
    must(spinney_close(db), "close");
    printf("done\n");
    return 0;
}
