//! The members of a set, as they are agreed on.

/// A member of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number: unique in the set, and never given to another member after this one was removed.
    pub id: u64,
    /// Its address, such as `db1.example.org:27017`.
    pub host: String,
    /// How much it is wanted as primary, in thousandths of MongoDB's `priority`: 1,000 by default, 0 for a member that
    /// never becomes primary, at most 1,000,000. A member takes over from a primary with a lower priority when it has
    /// caught up.
    pub priority_thousandths: u32,
    /// Whether clients are not told of it.
    pub hidden: bool,
    /// Whether it votes in elections and counts for majorities.
    pub votes: bool,
}

impl Member {
    /// A member that votes, with the default priority.
    #[must_use]
    pub fn new(id: u64, host: impl Into<String>) -> Self {
        Self { id, host: host.into(), priority_thousandths: 1000, hidden: false, votes: true }
    }
}

/// The times by which the members of a set find that a primary is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time between heartbeats of the primary, in milliseconds; 10 to 10,000. A member must answer one within it.
    pub heartbeat_ms: u64,
    /// A member that hears nothing of a primary for this time, and up to as long again, asks for an election. In
    /// milliseconds; at least three heartbeats, at most 120,000.
    pub election_timeout_ms: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { heartbeat_ms: 100, election_timeout_ms: 500 }
    }
}

/// The configuration of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The version, which grows with each change.
    pub version: u64,
    /// The identity of the set, for `settings.replicaSetId`.
    pub set_id: [u8; 12],
    /// The times that all members have; nothing for those of their own [`Settings`](crate::Settings).
    pub times: Option<Times>,
    /// The members in the order of their ids.
    pub members: Vec<Member>,
}

impl Config {
    /// The member with an address.
    #[must_use]
    pub fn by_host(&self, host: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.host == host)
    }

    /// The member with an id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }
}
