//! A node begins to take part in its set.

use std::sync::Arc;

use super::committer::Agreement;
use super::copying::Copies;
use super::core::Core;
use super::driver::Drive;
use super::duties;
use super::target::DocumentTarget;
use crate::base::error::{Error, Result};
use crate::raft::consensus::Consensus;
use crate::storage::applier::Target;

/// Lets a member take part in its set from now on, and apply what is agreed on to a document database, which commits by
/// the agreement.
///
/// # Errors
/// `Ended` when it runs already; what is wrong with the stored log.
pub(crate) async fn take_part<D: Drive>(
    core: &Arc<Core>,
    agreement: &Arc<Agreement<D>>,
    database: &spinney_document::Database,
) -> Result<()> {
    let (prepared, cleaned) = (Arc::clone(agreement), database.clone());
    let on_lead = move || prepared.prepare_to_lead(|| cleaned.catalog().clean_up());
    let asked = database.clone();
    let twice = core.on_lead.set(Box::new(on_lead)).is_err()
        || core.has_data.set(Box::new(move || !asked.list_databases().is_empty())).is_err();
    if twice {
        return Err(runs_already());
    }
    let pending = Arc::clone(&agreement.pending);
    let target = DocumentTarget { database: database.clone(), pending, identity: core.identity };
    start(core, Arc::new(target)).await
}

fn runs_already() -> Error {
    Error::Ended("it runs already".to_owned())
}

async fn start(core: &Arc<Core>, target: Arc<dyn Target>) -> Result<()> {
    core.membership.load(core.applier.rows())?;
    core.applier.set_target(Arc::clone(&target))?;
    let (caller, log, applier) = (Arc::clone(&core.caller), core.log.clone(), core.applier.clone());
    let copies = Arc::new(Copies { rows: applier.rows().clone(), caller: Arc::clone(&caller), database: target });
    core.copies.set(Arc::clone(&copies) as _).map_err(|_| runs_already())?;
    let consensus = Consensus::start(core.identity, &core.settings, (caller, copies), log, applier).await?;
    core.begin(consensus)?;
    tokio::spawn(duties::run(Arc::downgrade(core)));
    tokio::spawn(duties::recover(Arc::downgrade(core)));
    core.refresh();
    Ok(())
}
