//! What a node tells of itself.

use std::time::Duration;

use crate::base::config::Config;

/// What a node does in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has no configuration: nobody has called [`Node::initiate`](crate::Node::initiate), here or on a member that
    /// knows this one.
    Uninitiated,
    /// It takes writes, when [`Status::writable`].
    Primary,
    /// It follows a primary, or waits for one.
    Secondary,
    /// It was opened again or added, and has not applied yet what was committed before it heard of a primary, so that
    /// what is read may be older than what was read before; or its data disagrees with the log: [`Status::stalled`].
    Recovering,
    /// It asks for an election.
    Candidate,
    /// The configuration does not name it (any more).
    Removed,
    /// It failed and takes part no more until it is opened again: [`Status::failure`].
    Failed,
}

/// What the primary knows of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStatus {
    /// The member's id.
    pub id: u64,
    /// The index up to which its log is known to be that of the primary; `None` when this node is not primary, or
    /// nothing is known yet.
    pub matched: Option<u64>,
    /// The time since it last answered; `None` when this node is not primary, or it has not answered yet.
    pub last_contact: Option<Duration>,
    /// The version of its program, and the format of replication that this writes and reads, as it told within the last
    /// seconds or when it was reached last; `None` when it was not reached yet.
    pub program: Option<(String, u32)>,
    /// Why what runs at its address cannot be this member, if it cannot: its program, or the directory that it has.
    pub refused: Option<String>,
}

/// Why a node applies no entries now, or has no room for them. It leaves the lead to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stalled {
    /// The index of the entry that it cannot apply, or of the last that came.
    pub index: u64,
    /// What the set agreed on, and what this node says to it.
    pub why: String,
    /// Whether the data of this node disagrees with the entry: it serves no reads and gets a copy of the primary's
    /// database, at most twice an hour. Otherwise it lacks space or memory, and tries again each second.
    pub needs_copy: bool,
    /// Why there is no copy yet.
    pub denied: Option<String>,
}

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Grows with every change of what `hello` tells: role, primary, configuration, whether it is writable.
    pub change: u64,
    /// The term: it grows with each election. There is at most one primary in a term.
    pub term: u64,
    /// What the node does.
    pub role: Role,
    /// Whether writes are taken: it is primary, has applied what earlier primaries wrote, and no step-down goes on.
    pub writable: bool,
    /// This node's id; `None` without a configuration that names it.
    pub me: Option<u64>,
    /// The id of the primary, if one is known.
    pub primary: Option<u64>,
    /// The configuration in force; `None` before the set was initiated.
    pub config: Option<Config>,
    /// Whether that configuration is known to a majority.
    pub config_committed: bool,
    /// The index of the last entry of the log of this node; 0 when there is none.
    pub last: u64,
    /// The index up to which entries are known to be those of a majority.
    pub committed: u64,
    /// The index up to which entries were applied to the database.
    pub applied: u64,
    /// The term of the last applied entry.
    pub applied_term: u64,
    /// The oldest index that is still in the log of this node.
    pub first: u64,
    /// Bytes of log that are held for other members.
    pub log_bytes: u64,
    /// Elections that this node has called since it was opened.
    pub elections: u64,
    /// What the primary knows of each member; in the order of their ids.
    pub members: Vec<MemberStatus>,
    /// A copy of the database of the primary was received and has to take the place of this one: close the database and
    /// call [`install_copy`](crate::install_copy) before it is opened again. Also when the node has ended its part for
    /// a copy that did not come.
    pub copy_received: bool,
    /// The configuration has other times than the node was opened with: they come into force when it is opened again.
    pub times_changed: bool,
    /// Why no entries are applied now, if that is so.
    pub stalled: Option<Stalled>,
    /// How often an entry could not be applied, since the node was opened.
    pub apply_failures: u64,
    /// Why the node left the lead to another member although it was elected, the last time that it did: what has to be
    /// done before writes are taken took more than ten seconds.
    pub given_up: Option<String>,
    /// What is to be done about this member: it was removed, another process has its address, or its set is a second
    /// one of the same name.
    pub problem: Option<String>,
    /// Why the node failed.
    pub failure: Option<String>,
}

impl Status {
    /// The status of a node without a configuration.
    pub(crate) fn uninitiated() -> Self {
        Self {
            change: 1,
            term: 0,
            role: Role::Uninitiated,
            writable: false,
            me: None,
            primary: None,
            config: None,
            config_committed: false,
            last: 0,
            committed: 0,
            applied: 0,
            applied_term: 0,
            first: 0,
            log_bytes: 0,
            elections: 0,
            members: Vec::new(),
            copy_received: false,
            times_changed: false,
            stalled: None,
            apply_failures: 0,
            given_up: None,
            problem: None,
            failure: None,
        }
    }

    /// The address of the primary, if one is known.
    #[must_use]
    pub fn primary_host(&self) -> Option<&str> {
        Some(&self.config.as_ref()?.by_id(self.primary?)?.host)
    }
}
