//! A node begins to take part in its set.

use std::sync::Arc;

use super::copying::Copies;
use super::core::Core;
use super::duties;
use crate::base::error::{Error, Result};
use crate::raft::consensus::Consensus;
use crate::storage::applier::Target;

/// Takes part in the set from now on, and applies what is agreed on to `target`.
///
/// # Errors
/// `Ended` when it runs already; what is wrong with the stored log.
pub(crate) async fn start(core: &Arc<Core>, target: Arc<dyn Target>) -> Result<()> {
    core.membership.load(core.applier.rows())?;
    core.applier.set_target(Arc::clone(&target))?;
    let (caller, log, applier) = (Arc::clone(&core.caller), core.log.clone(), core.applier.clone());
    let copies = Arc::new(Copies { rows: applier.rows().clone(), caller: Arc::clone(&caller), database: target });
    core.copies.set(Arc::clone(&copies) as _).map_err(|_| Error::Ended("it runs already".to_owned()))?;
    let consensus = Consensus::start(core.identity, &core.settings, (caller, copies), log, applier).await?;
    core.begin(consensus)?;
    tokio::spawn(duties::run(Arc::downgrade(core)));
    tokio::spawn(duties::recover(Arc::downgrade(core)));
    core.refresh();
    Ok(())
}
