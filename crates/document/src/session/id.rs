//! What a session is called.

use std::fmt;

/// The UUID of a session with the user that it belongs to, whose sessions are apart from those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// The UUID.
    pub uuid: [u8; 16],
    /// The user as `database.name`; empty without one.
    pub user: String,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
