//! Members that can take over from the primary.

use super::core::Core;
use crate::raft::view::View;

/// Members that may lead and answer, and lack no more than `lag` entries; with the index up to which they have the log.
pub(crate) fn caught_up<'v>(core: &'v Core, view: &'v View, lag: u64) -> impl Iterator<Item = (u64, u64)> + 'v {
    let last = view.last.unwrap_or_default();
    view.peers.iter().filter_map(move |(identity, (peer, votes))| {
        let answers = view.answered.get(identity).copied().flatten()? < core.settings.election_timeout;
        let matched = view.matched.get(identity).copied().flatten()?;
        let able = *identity != core.identity && *votes && peer.member.priority_thousandths > 0;
        (able && answers && matched + lag >= last).then_some((*identity, matched))
    })
}
