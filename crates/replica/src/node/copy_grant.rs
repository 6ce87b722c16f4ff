//! Which member whose data disagrees gets a copy from a primary: one at a time.

use std::time::Duration;

use tokio::time::Instant;

use crate::entry::resync_request::ResyncRequest;

/// How long a member that may have a copy has to end its part in the set and to say so.
const GRANT_TIMEOUT: Duration = Duration::from_secs(30);

/// The member that gets a copy now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyGrant {
    /// The member, and until when it has to ask for it again; nothing while it is sent.
    granted: Option<(u64, Option<Instant>)>,
}

impl CopyGrant {
    /// Grants a member a copy, or begins to send it when the member's log has ended; whether that is possible.
    pub(crate) fn grant(&mut self, request: ResyncRequest, now: Instant) -> bool {
        let (mine, free) = match self.granted {
            None => (false, true),
            Some((_, None)) => (false, false),
            Some((identity, Some(until))) => (identity == request.identity, until < now),
        };
        let sends = request.end.is_some();
        let granted = mine || (free && !sends);
        if granted {
            self.granted = Some((request.identity, (!sends).then_some(now + GRANT_TIMEOUT)));
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::log_entry::LogId;

    #[test]
    fn one_member_at_a_time_is_granted_a_copy_and_loses_the_grant_when_it_does_not_come_back() {
        let (now, end) = (Instant::now(), Some(LogId { term: 1, index: 9 }));
        let (asks, sends) =
            (|identity| ResyncRequest { identity, end: None }, |identity| ResyncRequest { identity, end });
        let mut grants = CopyGrant::default();
        assert!(!grants.grant(sends(1), now), "it did not ask");
        assert!(grants.grant(asks(1), now) && grants.grant(asks(1), now));
        assert!(!grants.grant(asks(2), now) && !grants.grant(sends(2), now));
        let later = now + GRANT_TIMEOUT + Duration::from_millis(1);
        assert!(grants.grant(asks(2), later) && !grants.grant(sends(1), later));
        assert!(grants.grant(sends(2), later));
        assert!(!grants.grant(asks(1), later + GRANT_TIMEOUT * 2), "it is being sent");
    }
}
