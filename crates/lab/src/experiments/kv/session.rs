//! The workloads of one database while they run.

use super::figures::Figures;
use super::params::Kv;
use super::workload::Workload;
use crate::driver::{TableId, unless_lacking};
use crate::run::{Db, Plan};
use anyhow::Result;

pub(super) const TABLE: TableId = TableId(0);

/// The workloads of one database while they run.
pub(super) struct Session<'a> {
    pub(super) kv: &'a Kv,
    pub(super) seed: u64,
    /// Keys that are there, if it is known.
    pub(super) live: Option<u64>,
    /// How often the workloads that read have run before.
    pub(super) age: u32,
}

impl Session<'_> {
    /// What the step of a workload is called.
    pub(super) fn name(&self, workload: Workload) -> String {
        self.with_age(workload.name())
    }

    /// The name of a step with the round that it is of.
    pub(super) fn with_age(&self, name: String) -> String {
        if self.age == 0 { name } else { format!("{name} age {}", self.age) }
    }

    /// What sets a workload's stream of random numbers apart, also from that of the round before.
    pub(super) fn salt(&self, workload: Workload) -> u64 {
        workload.salt() ^ (u64::from(self.age) << 40)
    }

    /// Whether all keys are there.
    pub(super) fn is_full(&self) -> bool {
        self.live == Some(self.kv.num)
    }

    /// Bytes of all keys that are there and their values.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        self.live.filter(|&live| live > 0).map(|live| live * self.kv.entry_bytes())
    }

    /// Runs a step and gives it its figures. What the engine lacks for it makes it a skipped one, and the answer no, as
    /// it is for a step that an earlier process of the run did.
    pub(super) fn step(
        &self,
        plan: &Plan<'_>,
        db: &mut Db<'_, '_>,
        figures: impl FnOnce(u64) -> Figures,
    ) -> Result<bool> {
        if db.bench().takes_over(&plan.name)? {
            return Ok(false);
        }
        match unless_lacking(db.step(plan))? {
            Ok(step) => {
                let operations = step.cost.map_or(0, |cost| cost.operations);
                figures(operations).add_to(step);
                Ok(true)
            }
            Err(lacks) => {
                db.bench().skip(&plan.name, plan.unit, &lacks);
                Ok(false)
            }
        }
    }
}
