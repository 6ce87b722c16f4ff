//! What a member found out about its own part in the set, and about the others, beside the consensus: by introductions
//! and hellos, which also those exchange that have no primary, or are of different sets.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use spinney::Result;
use spinney_document::base::{Environment, System};
use tokio::time::Instant;

use crate::raft::convert::stored_peers;
use crate::raft::view::{State as Role, View};
use crate::storage::rows::Rows;

/// For how long a member that a set has named founds none itself.
const NAMED_TIMEOUT: Duration = Duration::from_secs(60);

/// What a member found out.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// Held while the others are asked.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Held while members are told what they owe.
    pub(crate) telling: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A random number of this process.
    process: u64,
    /// The identity of the set of whose member the database is a checkpoint.
    copied: Option<[u8; 12]>,
    /// Why it takes no part in the set.
    excluded: Option<String>,
    /// Which older set has this member's address, and what is to be done.
    older_set: Option<String>,
    /// A set that counts on this member, and when that said so.
    named: Option<(Instant, String)>,
    /// The index up to which its log must reach before it votes.
    owed: u64,
    /// What is wrong with other members, by their ids.
    problems: BTreeMap<u64, String>,
    /// The term in which this node leads, and the largest index that each member has acknowledged in it.
    acknowledged: (u64, BTreeMap<u64, u64>),
}

impl Membership {
    /// Reads what was found out before this open.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn load(&self, rows: &Rows) -> Result<()> {
        let copied = match rows.copied()? {
            Some(_) => Some(stored_peers(rows.former_members()?)?.values().next().map_or([0; 12], |peer| peer.set_id)),
            None => None,
        };
        let mut state = self.state.lock();
        (state.process, state.copied) = (System.random(), copied);
        (state.excluded, state.older_set) = (rows.removed()?, rows.older_set()?);
        state.owed = rows.owed()?.unwrap_or_default();
        Ok(())
    }

    /// A random number of this process.
    pub(crate) fn process(&self) -> u64 {
        self.state.lock().process
    }

    /// The identity of the set of whose member the database is a checkpoint, if it is one.
    pub(crate) fn copied(&self) -> Option<[u8; 12]> {
        self.state.lock().copied
    }

    /// Has it take no part in the set any more; whether that is new.
    pub(crate) fn exclude(&self, why: String) -> bool {
        let mut state = self.state.lock();
        let is_new = state.excluded.is_none();
        state.excluded.get_or_insert(why);
        is_new
    }

    /// Whether it takes no part in the set.
    pub(crate) fn is_excluded(&self) -> bool {
        self.state.lock().excluded.is_some()
    }

    /// Has it refuse writes, as there is an older set.
    pub(crate) fn yield_to(&self, older_set: String) {
        self.state.lock().older_set.get_or_insert(older_set);
    }

    /// Whether it refuses writes, as there is an older set.
    pub(crate) fn yields(&self) -> bool {
        self.state.lock().older_set.is_some()
    }

    /// What is to be done about this member, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        state.excluded.clone().or_else(|| state.older_set.clone())
    }

    /// A set counts on this member, which is of none.
    pub(crate) fn name(&self, by: String) {
        self.state.lock().named = Some((Instant::now(), by));
    }

    /// The set that counted on this member lately.
    pub(crate) fn named(&self) -> Option<String> {
        let state = self.state.lock();
        state.named.as_ref().filter(|(at, _)| at.elapsed() < NAMED_TIMEOUT).map(|(_, by)| by.clone())
    }

    /// Its log must reach up to an index before it votes.
    pub(crate) fn owe(&self, index: u64) {
        self.state.lock().owed = index;
    }

    /// Whether a log that ends at `last` lacks what this member had acknowledged.
    pub(crate) fn owes(&self, last: Option<u64>) -> bool {
        last.unwrap_or_default() < self.state.lock().owed
    }

    /// Sets what is wrong with another member, if anything is.
    pub(crate) fn set_problem(&self, id: u64, problem: Option<String>) {
        let mut state = self.state.lock();
        match problem {
            Some(problem) => drop(state.problems.insert(id, problem)),
            None => drop(state.problems.remove(&id)),
        }
    }

    /// What is wrong with another member.
    pub(crate) fn problem_of(&self, id: u64) -> Option<String> {
        self.state.lock().problems.get(&id).cloned()
    }

    /// The members that have less of the log of this node, which leads, than they had acknowledged: their identities,
    /// each with the index of that.
    pub(crate) fn fallen_back(&self, view: &View) -> BTreeMap<u64, u64> {
        let (term, acknowledged) = &mut self.state.lock().acknowledged;
        if view.state != Role::Leader || *term != view.term {
            (*term, *acknowledged) = (view.term, BTreeMap::new());
        }
        let mut fallen = BTreeMap::new();
        for (identity, matched) in &view.matched {
            let most = acknowledged.entry(*identity).or_default();
            *most = (*most).max(matched.unwrap_or_default());
            if matched.unwrap_or_default() < *most {
                fallen.insert(*identity, *most);
            }
        }
        fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_owes_what_it_had_acknowledged_until_its_log_reaches_as_far() {
        let membership = Membership::default();
        assert!(!membership.owes(None));
        membership.owe(7);
        assert!(membership.owes(None) && membership.owes(Some(6)));
        assert!(!membership.owes(Some(7)));
    }

    #[test]
    fn a_member_is_named_until_nobody_has_done_so_for_a_while_and_the_first_reason_stays() {
        let membership = Membership::default();
        assert_eq!((membership.named(), membership.problem()), (None, None));
        membership.name("b:1".to_owned());
        assert_eq!(membership.named().as_deref(), Some("b:1"));
        membership.yield_to("an older set".to_owned());
        assert!(membership.yields() && membership.problem().as_deref() == Some("an older set"));
        assert!(membership.exclude("removed".to_owned()) && !membership.exclude("another process".to_owned()));
        assert!(membership.is_excluded() && membership.problem().as_deref() == Some("removed"));
    }
}
