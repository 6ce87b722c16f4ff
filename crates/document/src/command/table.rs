//! The table of all commands.

use std::sync::LazyLock;

use super::call::Commands;
use super::commands::Table;
use super::{aggregate, coll_mod, collections, count, find, general, get_more, indexes, insert, lists};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
        aggregate::COMMANDS,
        coll_mod::COMMANDS,
        collections::COMMANDS,
        count::COMMANDS,
        find::COMMANDS,
        general::COMMANDS,
        get_more::COMMANDS,
        indexes::COMMANDS,
        insert::COMMANDS,
        lists::COMMANDS,
    ])
});

/// All commands.
#[must_use]
pub(super) fn table() -> &'static dyn Commands {
    &*TABLE
}
