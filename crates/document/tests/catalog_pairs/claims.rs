//! What was acknowledged, and what may be there then.
//!
//! Each operation has a time at which it began and one at which it ended. One that was acknowledged *claims* what was
//! there at some moment between the two. What is there in the end is what some operation claims that no other one began
//! behind; one that failed may have done anything to what it touches, until it has ended.

use std::collections::BTreeMap;
use std::sync::Mutex;

use spinney_document::ErrorCode;

/// What there is: of each collection and view its kind, and of each index, option and document in it.
pub(crate) type Found = BTreeMap<String, String>;

#[derive(Clone, Debug)]
struct Claim {
    /// A collection or what is in it; all that is in it with a slash at the end.
    of: String,
    /// Nothing for anything.
    is: Option<String>,
    begin: u64,
    end: u64,
    acknowledged: bool,
}

#[derive(Debug, Default)]
struct Claims {
    now: u64,
    all: Vec<Claim>,
    /// What was begun, and is not acknowledged yet.
    begun: Vec<(u64, Vec<String>)>,
    /// A write has failed, and it is not known what the disk has of it: what operations see from here on need not be
    /// what the next start finds, so that nothing is acknowledged any more.
    is_poisoned: bool,
}

/// Gives operations their times, and has their claims.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Claims>);

/// An operation that runs.
pub(crate) struct Claiming<'c> {
    clock: &'c Clock,
    begin: u64,
}

impl Clock {
    /// A clock that knows what there was at first.
    pub(crate) fn new(found: &Found, names: &[&str]) -> Self {
        let of_all = |(of, is): (&String, &String)| (of.clone(), is.clone());
        let mut all: Vec<_> = found.iter().map(of_all).collect();
        let gone = names.iter().filter(|name| !found.contains_key(**name));
        all.extend(gone.map(|name| ((*name).to_owned(), "gone".to_owned())));
        let claim = |(of, is)| Claim { of, is: Some(is), begin: 0, end: 0, acknowledged: true };
        let all = all.into_iter().map(claim).collect();
        Self(Mutex::new(Claims { now: 1, all, ..Claims::default() }))
    }

    /// An operation begins, which may change these collections.
    pub(crate) fn begin(&self, touched: Vec<String>) -> Claiming<'_> {
        let mut claims = self.0.lock().unwrap();
        claims.now += 1;
        let begin = claims.now;
        claims.begun.push((begin, touched));
        Claiming { clock: self, begin }
    }

    /// What is there in the end and may not be, or the other way round.
    pub(crate) fn wrong(&self, found: &Found) -> Option<String> {
        let claims = self.0.lock().unwrap();
        let keys: Vec<&str> = claims.all.iter().map(|claim| &*claim.of).filter(|of| !of.ends_with('/')).collect();
        for key in keys {
            let collection = key.split_once('/').map(|(collection, _)| collection);
            // Of what is not there nothing is known.
            if collection.is_some_and(|collection| found.get(collection).is_none_or(|kind| kind != "collection")) {
                continue;
            }
            let about = |claim: &&Claim| {
                claim.of == key || collection.is_some_and(|name| claim.of.strip_suffix('/') == Some(name))
            };
            let known: Vec<&Claim> = claims.all.iter().filter(about).collect();
            let last_begin = known.iter().filter(|claim| claim.acknowledged).map(|claim| claim.begin).max();
            let may: Vec<_> = known.iter().filter(|claim| last_begin.is_none_or(|last| claim.end >= last)).collect();
            let is = found.get(key).map_or("gone", String::as_str);
            if !may.iter().any(|claim| claim.is.as_deref().is_none_or(|claimed| claimed == is)) {
                return Some(format!("{key} is {is} in the end, but what was done to it last: {may:#?}"));
            }
        }
        None
    }
}

impl Claiming<'_> {
    /// The operation has ended, with what it claims when it is acknowledged.
    pub(crate) fn end(self, done: Result<Vec<(String, Option<String>)>, ErrorCode>) {
        let mut claims = self.clock.0.lock().unwrap();
        claims.now += 1;
        let end = claims.now;
        let at = claims.begun.iter().position(|(begin, _)| *begin == self.begin).unwrap();
        let (begin, touched) = claims.begun.swap_remove(at);
        let acknowledged = done.is_ok() && !claims.is_poisoned;
        claims.is_poisoned |= matches!(&done, Err(ErrorCode::FILE_STREAM_FAILED));
        let all = match done {
            Ok(all) if acknowledged => all,
            _ => touched.into_iter().flat_map(|name| [(format!("{name}/"), None), (name, None)]).collect(),
        };
        let claim = |(of, is)| Claim { of, is, begin, end, acknowledged };
        claims.all.extend(all.into_iter().map(claim));
    }
}
