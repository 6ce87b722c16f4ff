//! The table of all commands.

use std::sync::LazyLock;

use super::call::Commands;
use super::commands::Table;
use super::{
    aggregate, bulk_write, coll_mod, collections, count, find, find_and_modify, general, get_more, indexes, insert,
    lists, sessions, writes,
};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
        aggregate::COMMANDS,
        bulk_write::COMMANDS,
        coll_mod::COMMANDS,
        collections::COMMANDS,
        count::COMMANDS,
        find::COMMANDS,
        find_and_modify::COMMANDS,
        general::COMMANDS,
        get_more::COMMANDS,
        indexes::COMMANDS,
        insert::COMMANDS,
        lists::COMMANDS,
        sessions::COMMANDS,
        writes::COMMANDS,
    ])
});

/// All commands.
#[must_use]
pub(super) fn table() -> &'static dyn Commands {
    &*TABLE
}
