//! The table of all commands.

use std::sync::LazyLock;

use super::call::Commands;
use super::commands::Table;
use super::{find, general, get_more, insert};

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::new(&[find::COMMANDS, general::COMMANDS, get_more::COMMANDS, insert::COMMANDS]));

/// All commands.
#[must_use]
pub(super) fn table() -> &'static dyn Commands {
    &*TABLE
}
