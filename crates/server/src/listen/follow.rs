//! The threads of a server that is a member of a replica set: one takes note of what the member is, so that clients
//! hear of it, and one forms the set when that is this member's to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spinney_document::bson::DocumentBuilder;
use spinney_replica::{Role, Stalled, Status};

use crate::base::clock::monotonic;
use crate::state::replica::standing;
use crate::state::{Replica, Server, Standing};

/// How long the thread waits for a change before it notes how far the log is.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a copy of the database may take to be complete when all its files are there.
const COPY: Duration = Duration::from_secs(5);

/// How long a primary leaves the others to take new times.
const TIMES: Duration = Duration::from_secs(5);

/// After what time a warning that did not change is logged again.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// How long another member may take to say whether it is part of a set.
const ASK: Duration = Duration::from_secs(1);

/// How long a member that would form a set alone waits for one that counts on it: its files may be gone.
const NAMED: Duration = Duration::from_secs(3);

/// Publishes what the member is until the server ends, and ends the server when the member cannot go on.
pub(super) fn follow(server: &Arc<Server>, replica: &Replica) {
    let (mut known, mut told) = (Arc::new(replica.node.status()), Told::default());
    publish(server, None, &known);
    let mut changed_at = None;
    while !server.topology.is_ending() {
        let status = Arc::new(replica.node.wait_for_change(known.change, PAUSE));
        replica.note(&status);
        if let Some(stalled) = &status.stalled {
            tell_stalled(server, stalled, &mut told);
        }
        if let Some(why) = status.given_up.as_deref().filter(|why| told.is_due(why, monotonic())) {
            server.log.warning("the member leaves the lead to another one", &[("why", why)]);
        }
        tell_problems(server, &status, &mut told);
        if status.change != known.change {
            publish(server, Some(&known), &status);
            known = Arc::clone(&status);
        }
        if status.times_changed && !server.ending.is_asked() && began_to_change(&status, &mut changed_at) {
            server.log.info("the set has other times for heartbeats and elections: the database is opened again", &[]);
            server.ending.ask();
            return;
        }
        if !server.ending.is_asked() && (status.copy_received || status.role == Role::Failed) {
            give_up(server, replica);
            return;
        }
    }
}

/// Whether a member takes the new times of its set now: a primary hands over when the others have taken them.
fn began_to_change(status: &Status, changed_at: &mut Option<Instant>) -> bool {
    let since = changed_at.get_or_insert_with(monotonic);
    status.role != Role::Primary || monotonic().duration_since(*since) >= TIMES
}

/// Logs why the member applies no entries.
fn tell_stalled(server: &Server, stalled: &Stalled, told: &mut Told) {
    let (index, next) = (stalled.index.to_string(), stalled.denied.as_deref());
    let next = match next {
        _ if !stalled.needs_copy => "it is tried again each second",
        Some(denied) => denied,
        None => "a copy of the primary's database is asked for",
    };
    if told.is_due(&format!("{index} {next}"), monotonic()) {
        let fields = [("index", &*index), ("why", &*stalled.why), ("next", next)];
        server.log.warning("an entry of the replicated log cannot be applied", &fields);
    }
}

/// Logs what is to be done about this member, and about others.
fn tell_problems(server: &Server, status: &Status, told: &mut Told) {
    let others = status.members.iter().filter_map(|member| member.refused.as_ref());
    for what in status.problem.iter().chain(others) {
        if told.is_due(what, monotonic()) {
            server.log.warning("a member of the replica set is not what the set takes it for", &[("what", what)]);
        }
    }
}

/// Ends the server, as the member cannot go on with the database that is open.
fn give_up(server: &Server, replica: &Replica) {
    // The node ends before the copy is complete for which it does.
    let mut status = replica.node.status();
    let until = monotonic() + COPY;
    while !status.copy_received && monotonic() < until {
        status = replica.node.wait_for_change(status.change, PAUSE);
    }
    match &status.failure {
        _ if status.copy_received => server.log.info("a copy of the database was received: it is opened", &[]),
        Some(why) => server.log.warning("the member of the replica set has failed", &[("why", why)]),
        None => server.log.warning("the member of the replica set has failed", &[]),
    }
    server.ending.ask();
}

/// Lets clients know what the member is now.
fn publish(server: &Server, before: Option<&Status>, status: &Arc<Status>) {
    let others = status.config.as_ref().map_or(0, |config| config.members.len().saturating_sub(1));
    let others = i64::try_from(others).unwrap_or(i64::MAX);
    server.service.state().settings.other_members.store(others, Ordering::Relaxed);
    server.topology.set_status(Arc::clone(status));
    let told = |status: &Status| (standing(status), status.term, status.primary_host().map(str::to_owned));
    if before.is_none_or(|before| told(before) != told(status)) {
        let (standing, term, primary) = told(status);
        let (standing, term) = (format!("{standing:?}"), term.to_string());
        let fields = [("standing", &*standing), ("term", &term), ("primary", primary.as_deref().unwrap_or_default())];
        server.log.info("the part in the replica set has changed", &fields);
    }
    if before.is_some_and(|before| standing(before) == Standing::Primary) && standing(status) != Standing::Primary {
        // Their commits would be refused.
        let ended = server.service.state().sessions.kill(|_| true).len();
        server.log.info("transactions were ended: the member is no more primary", &[("sessions", &ended.to_string())]);
    }
}

/// Forms the set of the members that the server was started with, when this is the first of them and none of them is
/// part of a set already: otherwise the primary makes this member part of its set.
pub(super) fn form(server: &Arc<Server>, replica: &Replica) {
    let own = replica.node.settings().host.as_str();
    let (mut told, first) = (Told::default(), replica.first_members.first().map_or(own, |first| &first.host));
    if first != own {
        if replica.node.status().role == Role::Uninitiated {
            server.log.info("the member waits for another one, which forms the replica set", &[("member", first)]);
        }
        return;
    }
    if replica.first_members.len() == 1 && replica.node.status().role == Role::Uninitiated {
        server.ending.wait(NAMED);
    }
    while !server.topology.is_ending() && replica.node.status().role == Role::Uninitiated {
        let others: Vec<_> = replica.first_members.iter().filter(|member| member.host != own).collect();
        let answers = others.iter().map(|member| {
            let mut hello = DocumentBuilder::new();
            hello.append("hello", 1);
            let reply = replica.members.run(&member.host, hello, ASK).ok()?;
            Some(reply.view().get("setName").is_some())
        });
        let answers: Vec<bool> = answers.flatten().collect();
        let majority = 1 + answers.len() > replica.first_members.len() / 2;
        if majority && answers.iter().all(|is_part| !is_part) {
            match replica.node.initiate(replica.first_members.clone()) {
                Ok(()) => return server.log.info("the replica set is formed", &[("by", own)]),
                Err(error) => {
                    let why = error.to_string();
                    if told.is_due(&why, monotonic()) {
                        server.log.warning("the replica set cannot be formed", &[("why", &why)]);
                    }
                }
            }
        }
        server.ending.wait(PAUSE);
        if server.ending.is_asked() {
            return;
        }
    }
}

/// What was logged of something that is tried again and again, and when.
#[derive(Debug, Default)]
struct Told(BTreeMap<String, Instant>);

impl Told {
    /// Whether a text is to be logged: it was not for a while.
    fn is_due(&mut self, text: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now.duration_since(*at) < TELL_AGAIN);
        let is_due = !self.0.contains_key(text);
        if is_due {
            self.0.insert(text.to_owned(), now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_again_and_again_is_told_when_it_changes_and_once_a_minute() {
        let (mut told, begun) = (Told::default(), monotonic());
        let due: Vec<u64> = (0..600).filter(|tick| told.is_due("a", begun + PAUSE * *tick)).map(u64::from).collect();
        assert_eq!(due, [0, 240, 480]);
        let mut told = Told::default();
        assert!(told.is_due("a", begun) && told.is_due("b", begun));
        assert!(!told.is_due("a", begun + PAUSE) && !told.is_due("b", begun + PAUSE));
        assert!(told.is_due("a", begun + TELL_AGAIN));
    }
}
