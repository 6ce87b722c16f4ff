//! The table of all commands.

use std::sync::LazyLock;

use super::call::Commands;
use super::commands::Table;
use super::{
    aggregate, bulk_write, capped, cluster_parameters, coll_mod, collections, count, current, explain, explain_writes,
    find, find_and_modify, general, get_more, indexes, info, insert, lists, maintenance, metadata, parameters,
    plan_cache, profile, query_settings, server_status, sessions, stats, writes,
};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
        aggregate::COMMANDS,
        bulk_write::COMMANDS,
        capped::COMMANDS,
        cluster_parameters::COMMANDS,
        coll_mod::COMMANDS,
        collections::COMMANDS,
        count::COMMANDS,
        current::COMMANDS,
        explain::COMMANDS,
        find::COMMANDS,
        find_and_modify::COMMANDS,
        general::COMMANDS,
        get_more::COMMANDS,
        indexes::COMMANDS,
        info::COMMANDS,
        insert::COMMANDS,
        lists::COMMANDS,
        maintenance::COMMANDS,
        metadata::COMMANDS,
        parameters::COMMANDS,
        profile::COMMANDS,
        plan_cache::COMMANDS,
        query_settings::COMMANDS,
        server_status::COMMANDS,
        sessions::COMMANDS,
        stats::COMMANDS,
        writes::COMMANDS,
    ])
    .with_explained(explain_writes::EXPLAINED)
});

/// All commands.
#[must_use]
pub(super) fn table() -> &'static dyn Commands {
    &*TABLE
}
