//! Where the methods of WiredTiger's handles lie, by version.
//!
//! A connection, a session and a cursor are structs of which the public part is words: pointers to data, then pointers
//! to functions. Their order is that of `wiredtiger.h` and changes from one version to the next, so it is data here and
//! not types.
//!
//! # Invariants
//! 1. Each place was taken from the header of the version that it stands for; a version without a table is refused.

/// The version of the library: major, minor, patch.
pub(super) type Version = (i32, i32, i32);

/// Places in the handles, in words, and keys of statistics.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) connection: ConnectionLayout,
    pub(super) session: SessionLayout,
    pub(super) cursor: CursorLayout,
    pub(super) statistics: Statistics,
}

#[derive(Debug)]
pub(super) struct ConnectionLayout {
    pub(super) close: usize,
    pub(super) open_session: usize,
}

#[derive(Debug)]
pub(super) struct SessionLayout {
    pub(super) close: usize,
    pub(super) open_cursor: usize,
    pub(super) create: usize,
    pub(super) compact: usize,
    pub(super) log_flush: usize,
    pub(super) begin_transaction: usize,
    pub(super) commit_transaction: usize,
    pub(super) rollback_transaction: usize,
    pub(super) checkpoint: usize,
}

#[derive(Debug)]
pub(super) struct CursorLayout {
    pub(super) get_key: usize,
    pub(super) get_value: usize,
    pub(super) set_key: usize,
    pub(super) set_value: usize,
    pub(super) next: usize,
    pub(super) prev: usize,
    pub(super) reset: usize,
    pub(super) search: usize,
    pub(super) search_near: usize,
    pub(super) insert: usize,
    pub(super) remove: usize,
    pub(super) reserve: usize,
}

/// Keys of a statistics cursor.
#[derive(Debug)]
pub(super) struct Statistics {
    pub(super) log_bytes_payload: i32,
    pub(super) log_bytes_written: i32,
    pub(super) log_sync: i32,
    pub(super) log_sync_duration: i32,
    pub(super) block_byte_write: i32,
    pub(super) block_byte_write_checkpoint: i32,
    pub(super) cache_bytes_dirty: i32,
    pub(super) cache_bytes_max: i32,
    pub(super) cache_read: i32,
    pub(super) cache_pages_requested: i32,
    pub(super) application_cache_time: i32,
    pub(super) lsm_rows_merged: i32,
    pub(super) lsm_checkpoint_throttle: i32,
    pub(super) lsm_merge_throttle: i32,
    /// Of a table.
    pub(super) btree_maximum_depth: i32,
}

/// The versions that have a table, for error messages.
pub(super) const KNOWN: &str = "3.2.x, 11.3.x";

/// The table of a version, if it is known.
pub(super) fn of(version: Version) -> Option<&'static Layout> {
    match version {
        (3, 2, _) => Some(&V3_2),
        (11, 3, _) => Some(&V11_3),
        _ => None,
    }
}

/// 3.2.1, the last release under WiredTiger's own numbering.
static V3_2: Layout = Layout {
    connection: ConnectionLayout { close: 2, open_session: 8 },
    session: SessionLayout {
        close: 2,
        open_cursor: 5,
        create: 7,
        compact: 9,
        log_flush: 12,
        begin_transaction: 21,
        commit_transaction: 22,
        rollback_transaction: 24,
        checkpoint: 27,
    },
    cursor: CursorLayout {
        get_key: 4,
        get_value: 5,
        set_key: 6,
        set_value: 7,
        next: 10,
        prev: 11,
        reset: 12,
        search: 13,
        search_near: 14,
        insert: 15,
        remove: 18,
        reserve: 19,
    },
    statistics: Statistics {
        log_bytes_payload: 1232,
        log_bytes_written: 1233,
        log_sync: 1246,
        log_sync_duration: 1247,
        block_byte_write: 1027,
        block_byte_write_checkpoint: 1028,
        cache_bytes_dirty: 1134,
        cache_bytes_max: 1103,
        cache_read: 1117,
        cache_pages_requested: 1125,
        application_cache_time: 1331,
        lsm_rows_merged: 1002,
        lsm_checkpoint_throttle: 1003,
        lsm_merge_throttle: 1004,
        btree_maximum_depth: 2034,
    },
};

/// 11.3, the last with LSM trees in its code.
static V11_3: Layout = Layout {
    connection: ConnectionLayout { close: 0, open_session: 7 },
    session: SessionLayout {
        close: 2,
        open_cursor: 5,
        create: 8,
        compact: 9,
        log_flush: 12,
        begin_transaction: 19,
        commit_transaction: 20,
        rollback_transaction: 22,
        checkpoint: 26,
    },
    cursor: CursorLayout {
        get_key: 4,
        get_value: 5,
        set_key: 7,
        set_value: 8,
        next: 11,
        prev: 12,
        reset: 13,
        search: 14,
        search_near: 15,
        insert: 16,
        remove: 19,
        reserve: 20,
    },
    statistics: Statistics {
        log_bytes_payload: 1468,
        log_bytes_written: 1469,
        log_sync: 1482,
        log_sync_duration: 1483,
        block_byte_write: 1060,
        block_byte_write_checkpoint: 1062,
        cache_bytes_dirty: 1234,
        cache_bytes_max: 1185,
        cache_read: 1209,
        cache_pages_requested: 1214,
        application_cache_time: 1641,
        lsm_rows_merged: 1002,
        lsm_checkpoint_throttle: 1003,
        lsm_merge_throttle: 1004,
        btree_maximum_depth: 2046,
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_table_is_not_taken_for_its_neighbour() {
        assert!(of((3, 2, 1)).is_some() && of((11, 3, 0)).is_some());
        assert!(of((3, 1, 0)).is_none() && of((11, 2, 0)).is_none() && of((12, 0, 0)).is_none());
    }
}
