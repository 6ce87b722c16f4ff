//! openraft's own tests of storage, over a log and a database on a simulated machine.

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use spinney::env::sim::SimEnv;
use spinney::{Database, Options};

use super::log_store::LogStore;
use super::machine::Machine;
use super::types::Types;
use crate::storage::applier::Applier;
use crate::storage::log::Log;
use crate::storage::rows::Rows;

struct Builder;

impl StoreBuilder<Types, LogStore, Machine> for Builder {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<Types>> {
        let (log, machine) = storage(&SimEnv::new(1));
        Ok(((), log, machine))
    }
}

fn storage(sim: &SimEnv) -> (LogStore, Machine) {
    let env = sim.env();
    let database = Database::builder("/db").options(Options::default()).env(env.clone()).open().unwrap();
    let rows = Rows::open(&database).unwrap();
    let log = Log::open(rows.clone(), 1 << 20, &*env.threads).unwrap();
    let applier = Applier::new(rows, log.stored(), &*env.threads).unwrap();
    (LogStore(log.clone()), Machine::new(applier, log))
}

/// All but the transfer of snapshots, which are copies of the database here, and go another way.
macro_rules! suite {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let ((), log, machine) = Builder.build().await.unwrap();
                Suite::<Types, LogStore, Machine, Builder, ()>::$name(log, machine).await.unwrap();
            });
        }
    )*};
}

suite! {
    last_membership_in_log_initial
    last_membership_in_log
    last_membership_in_log_multi_step
    get_membership_initial
    get_membership_from_log_and_empty_sm
    get_membership_from_empty_log_and_sm
    get_membership_from_log_le_sm_last_applied
    get_membership_from_log_gt_sm_last_applied_1
    get_membership_from_log_gt_sm_last_applied_2
    get_initial_state_without_init
    get_initial_state_membership_from_empty_log_and_sm
    get_initial_state_membership_from_sm_inlog_is_smaller
    get_initial_state_membership_from_log_insm_is_smaller
    get_initial_state_with_state
    get_initial_state_last_log_gt_sm
    get_initial_state_last_log_lt_sm
    get_initial_state_inverted_log_order
    get_initial_state_conflict_at_same_index
    get_initial_state_log_ids
    get_initial_state_re_apply_committed
    save_vote
    get_log_entries
    limited_get_log_entries
    leader_bounded_stream
    entries_stream
    try_get_log_entry
    log_reader_reads_new_entries
    initial_logs
    get_log_state
    get_log_id
    last_id_in_log
    last_applied_state
    purge_logs_upto_0
    purge_logs_upto_5
    purge_logs_upto_20
    delete_logs_after_11
    delete_logs_after_5
    delete_logs_after_0
    delete_logs_after_none
    append_to_log
    snapshot_meta
    snapshot_meta_optional
    apply_single
    apply_multiple
}
