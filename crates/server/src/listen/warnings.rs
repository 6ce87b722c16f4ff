//! What an operator is warned of when the server begins.

use super::address::Listening;
use crate::state::Server;

/// A warning of the beginning: a sentence, and the fields that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The sentence.
    pub what: String,
    /// A field and its value.
    pub field: (&'static str, String),
}

/// All warnings.
pub(super) fn all<'l>(server: &Server, listening: impl Iterator<Item = &'l Listening>) -> Vec<Warning> {
    let public: Vec<String> = listening.filter(|socket| socket.is_public()).map(Listening::address).collect();
    [of_access(server.settings.auth, &public), of_times_ahead(server)].into_iter().flatten().collect()
}

/// Where clients need no login though other machines reach the server. The first words are those of MongoDB, which
/// tools look for.
fn of_access(auth: bool, public: &[String]) -> Option<Warning> {
    if auth || public.is_empty() {
        return None;
    }
    let what = "Access control is not enabled for the database. Read and write access to data and configuration is \
                unrestricted for every machine that reaches this address: start with --auth, or listen on 127.0.0.1";
    Some(Warning { what: what.to_owned(), field: ("address", public.join(" and ")) })
}

/// Of a database whose cluster time is far ahead of the time of day.
fn of_times_ahead(server: &Server) -> Option<Warning> {
    let ahead = server.service.database().catalog().recorder().ahead()?;
    let time = format!("Timestamp({}, {})", ahead.time.time, ahead.time.increment);
    let what = match ahead.is_set_back {
        true => {
            "the cluster time of the database was more than a day ahead of the time of day, and was set back: resume \
             tokens and times of before answer ChangeStreamHistoryLost (286), so change streams must be opened anew, and \
             what follows them must copy the collections again; new events have times of today"
        }
        false => {
            "the cluster time of the database is more than a day ahead of the time of day, and stays: the other members \
             of the replica set have it too, and tokens go on; to have times of today, stop all members, let one be a \
             database alone (spinney drop DIR replica --force), start it by itself, and begin a new set with it: tokens \
             and times of before answer ChangeStreamHistoryLost (286) then"
        }
    };
    Some(Warning { what: what.to_owned(), field: ("time", time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_server_that_others_reach_is_warned_of() {
        let public = ["0.0.0.0:27017".to_owned()];
        assert!(of_access(true, &public).is_none() && of_access(false, &[]).is_none());
        assert_eq!(of_access(false, &public).unwrap().field, ("address", public[0].clone()));
    }
}
