//! Locks of keys and key ranges that transactions ask for and hold to their end: exclusive, in the order of the
//! requests.
//!
//! # Concurrency
//! A request is granted when no request before it that overlaps is left. The thread that releases locks grants them to
//! those that waited for them and wakes these threads and no others, so that no later request comes in between.
//!
//! Before a thread waits it follows the waits from owner to owner (a waits-for graph, Coffman et al. 1971): if they
//! lead back to its own transaction, it is refused. The other transactions of the circle go on when that one ends.
//!
//! # Invariants
//! 1. An owner releases all its locks together, so that whoever waits for one of them need not look at those that the
//!    owner got later.
//! 2. An owner waits for one request at a time.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::base::sync::{AtomicU64, Condvar, Mutex};
use crate::base::{Error, ErrorKind, Result, TableId};
use crate::env::Env;
use crate::tree::Limits;

/// The number of a transaction among those that lock.
pub type Owner = u64;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A key, whether it exists or not.
    Key(TableId, Arc<[u8]>),
    /// All keys of a range, also those that do not exist.
    Range(TableId, Limits),
}

/// The locks of a database.
#[derive(Debug, Default)]
pub struct LockTable {
    /// The last owner.
    owners: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next request.
    next: u64,
    /// Requests for a key, held or waiting, in their order; at least one.
    keys: BTreeMap<(TableId, Arc<[u8]>), Line>,
    /// Requests for ranges, held or waiting, in their order.
    ranges: Vec<(TableId, Limits, Request)>,
    /// What each owner waits for.
    waits: BTreeMap<Owner, Wait>,
}

/// Mostly one request, which is granted.
type Line = SmallVec<[Request; 1]>;

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    owner: Owner,
}

/// Where threads take turns, how long one of them waits until it looks whether a lock is free.
const TURN: Duration = Duration::from_millis(20);

/// How a request waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For how long.
    pub limit: Duration,
    /// How long without asking whether it goes on.
    pub nap: Duration,
}

#[derive(Debug)]
struct Wait {
    target: Target,
    number: u64,
    granted: Arc<Condvar>,
}

impl LockTable {
    /// A number for a transaction that is going to lock.
    pub fn owner(&self) -> Owner {
        // Relaxed: the numbers only have to differ.
        self.owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Locks targets for an owner up to the first one that someone else may have a part of; how many it has locked.
    pub fn lock_free(&self, owner: Owner, targets: &[Target]) -> usize {
        let mut state = self.state.lock();
        targets.iter().take_while(|target| state.lock_free(owner, target)).count()
    }

    /// Locks a key or a range for an owner, which may hold it or a part of it already. Waits for as long as the
    /// patience lasts, and as `goes_on` has no objection.
    ///
    /// # Errors
    /// `Deadlock` at once when those that it would wait for wait for the owner; `Timeout` when the limit has passed;
    /// what `goes_on` says. The owner keeps the locks that it had.
    pub fn lock(
        &self,
        owner: Owner,
        target: &Target,
        (env, Patience { limit, nap }): (&Env, Patience),
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if state.lock_free(owner, target) || state.holds(owner, target) {
            return Ok(());
        }
        let number = state.request(owner, target);
        if state.is_free(owner, target, number) {
            return Ok(());
        }
        let granted = Arc::new(Condvar::new());
        state.waits.insert(owner, Wait { target: target.clone(), number, granted: Arc::clone(&granted) });
        let mut refused = state.is_deadlocked(owner).then(deadlock);
        let start = env.clock.now();
        while refused.is_none() && state.waits.contains_key(&owner) {
            let left = limit.saturating_sub(env.clock.now().saturating_sub(start));
            refused = goes_on().err().or_else(|| left.is_zero().then(|| timeout(limit)));
            if refused.is_some() {
                break;
            }
            if env.threads.concurrent() {
                granted.wait_for(&mut state, left.min(nap));
            } else {
                // Others release it meanwhile, if at all, in their turns.
                drop(state);
                env.threads.sleep(left.min(nap).min(TURN));
                state = self.state.lock();
            }
        }
        let Some(error) = refused else { return Ok(()) };
        state.waits.remove(&owner);
        state.remove(owner, target, Some(number));
        state.grant(target);
        Err(error)
    }

    /// Releases all locks of an owner, which are those of the targets.
    pub fn release(&self, owner: Owner, targets: &[Target]) {
        let mut state = self.state.lock();
        targets.iter().for_each(|target| state.remove(owner, target, None));
        targets.iter().for_each(|target| state.grant(target));
    }

    /// Wakes all threads that wait, so that each looks whether it is to go on.
    pub fn wake_all(&self) {
        self.state.lock().waits.values().for_each(|wait| _ = wait.granted.notify_one());
    }
}

#[cold]
fn deadlock() -> Error {
    let message = "another transaction waits for a lock of this one, which would wait for it: roll back and retry";
    Error::new(ErrorKind::Deadlock, message)
}

#[cold]
fn timeout(limit: Duration) -> Error {
    let message = format!("another transaction has held the lock for longer than {limit:?}: retry, or wait longer");
    Error::new(ErrorKind::Timeout, message)
}

impl State {
    /// Locks a key that nobody else has a request for, by one look; not while ranges are locked or waited for.
    fn lock_free(&mut self, owner: Owner, target: &Target) -> bool {
        let Target::Key(table, key) = target else { return false };
        if !self.ranges.is_empty() {
            return false;
        }
        match self.keys.entry((*table, Arc::clone(key))) {
            Entry::Vacant(line) => {
                line.insert(smallvec![Request { number: self.next, owner }]);
                self.next += 1;
                true
            }
            Entry::Occupied(line) => line.get().iter().any(|by| by.owner == owner),
        }
    }

    /// Lines a request up.
    fn request(&mut self, owner: Owner, target: &Target) -> u64 {
        let request = Request { number: self.next, owner };
        self.next += 1;
        match target {
            Target::Key(table, key) => self.keys.entry((*table, Arc::clone(key))).or_default().push(request),
            Target::Range(table, range) => self.ranges.push((*table, range.clone(), request)),
        }
        request.number
    }

    /// Whether the owner holds all of the target already by one of its locks.
    fn holds(&self, owner: Owner, target: &Target) -> bool {
        let within = |range: &Limits| match target {
            Target::Key(_, key) => range.contain(key),
            Target::Range(_, inner) => {
                let ends = range.high.as_ref().is_none_or(|high| inner.high.as_ref().is_some_and(|end| end <= high));
                range.low <= inner.low && ends
            }
        };
        let has_key = match target {
            Target::Key(table, key) => {
                self.keys.get(&(*table, Arc::clone(key))).is_some_and(|line| line.iter().any(|of| of.owner == owner))
            }
            Target::Range(..) => false,
        };
        has_key || self.ranges.iter().any(|(of, range, by)| by.owner == owner && *of == target.table() && within(range))
    }

    /// The requests that overlap a target, in no order.
    fn overlaps<'s>(&'s self, target: &'s Target) -> impl Iterator<Item = Request> + 's {
        let table = target.table();
        let (single, within) = match target {
            Target::Key(table, key) => (self.keys.get(&(*table, Arc::clone(key))), None),
            Target::Range(table, range) => {
                let from = Bound::Included((*table, range.low.as_slice().into()));
                let before = |key: &[u8]| range.high.as_ref().is_none_or(|high| key < &**high);
                let keys = self.keys.range((from, Bound::Unbounded));
                (None, Some(keys.take_while(move |((of, key), _)| of == table && before(key)).map(|(_, line)| line)))
            }
        };
        let meets = move |range: &Limits| match target {
            Target::Key(_, key) => range.contain(key),
            Target::Range(_, other) => {
                let before = |low: &[u8], high: &Option<Vec<u8>>| high.as_ref().is_none_or(|high| low < &**high);
                before(&other.low, &range.high) && before(&range.low, &other.high)
            }
        };
        let ranges = self.ranges.iter().filter(move |(of, range, _)| *of == table && meets(range));
        single
            .into_iter()
            .chain(within.into_iter().flatten())
            .flatten()
            .copied()
            .chain(ranges.map(|(.., request)| *request))
    }

    /// The owners that a request must wait for: not one whose request itself waits for a lock of the owner.
    fn blockers<'s>(&'s self, owner: Owner, target: &'s Target, number: u64) -> impl Iterator<Item = Owner> + 's {
        let before = self.overlaps(target).filter(move |by| by.number < number && by.owner != owner);
        before.filter(move |by| !self.waits_for(*by, owner)).map(|by| by.owner)
    }

    fn is_free(&self, owner: Owner, target: &Target, number: u64) -> bool {
        self.blockers(owner, target, number).next().is_none()
    }

    /// Whether a request waits for a lock that an owner holds.
    fn waits_for(&self, by: Request, holder: Owner) -> bool {
        let Some(wait) = self.waits.get(&by.owner).filter(|wait| wait.number == by.number) else { return false };
        self.overlaps(&wait.target).any(|before| before.owner == holder && before.number < wait.number)
    }

    /// Whether the waits lead from an owner back to it.
    fn is_deadlocked(&self, owner: Owner) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![owner]);
        while let Some(at) = next.pop() {
            let Some(wait) = self.waits.get(&at) else { continue };
            for blocker in self.blockers(at, &wait.target, wait.number) {
                if blocker == owner {
                    return true;
                }
                if seen.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        false
    }

    /// Removes the requests of an owner for a target: the one of a number, or all.
    fn remove(&mut self, owner: Owner, target: &Target, number: Option<u64>) {
        let is_it = |by: &Request| by.owner == owner && number.is_none_or(|number| by.number == number);
        match target {
            Target::Key(table, key) => {
                if let Entry::Occupied(mut line) = self.keys.entry((*table, Arc::clone(key))) {
                    line.get_mut().retain(|by| !is_it(by));
                    if line.get().is_empty() {
                        line.remove();
                    }
                }
            }
            Target::Range(table, range) => {
                self.ranges.retain(|(of, held, by)| !(of == table && held == range && is_it(by)));
            }
        }
    }

    /// Grants the waiting requests that overlap a target which was released, and that nothing is before any more.
    fn grant(&mut self, released: &Target) {
        if self.waits.is_empty() {
            return;
        }
        let mut waiting: Vec<Request> = self.overlaps(released).filter(|by| self.is_waiting(*by)).collect();
        waiting.sort_unstable_by_key(|by| by.number);
        if let Target::Key(..) = released
            && self.ranges.is_empty()
        {
            // Only the first of a line can have nothing before it.
            waiting.truncate(1);
        }
        for by in waiting {
            let wait = self.waits.get(&by.owner);
            let is_free = wait.is_some_and(|wait| self.is_free(by.owner, &wait.target, wait.number));
            if is_free && let Some(wait) = self.waits.remove(&by.owner) {
                wait.granted.notify_one();
            }
        }
    }

    fn is_waiting(&self, by: Request) -> bool {
        self.waits.get(&by.owner).is_some_and(|wait| wait.number == by.number)
    }
}

impl Target {
    fn table(&self) -> TableId {
        let (Self::Key(table, _) | Self::Range(table, _)) = self;
        *table
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use proptest::prelude::*;

    use super::*;
    use crate::env::sim::SimEnv;

    const T: TableId = TableId(1);
    const NO_WAIT: Patience = Patience { limit: Duration::ZERO, nap: Duration::MAX };

    fn key(key: &str) -> Target {
        Target::Key(T, key.as_bytes().into())
    }

    fn range(low: &str, high: &str) -> Target {
        Target::Range(T, Limits::new(low.into(), Some(high.into()), None))
    }

    fn try_lock(locks: &LockTable, owner: Owner, target: &Target) -> Result<(), ErrorKind> {
        let env = SimEnv::new(1).env();
        locks.lock(owner, target, (&env, NO_WAIT), || Ok(())).map_err(|error| error.kind())
    }

    /// A request that waits, as if by a thread.
    fn line_up(locks: &LockTable, owner: Owner, target: &Target) -> bool {
        let mut state = locks.state.lock();
        let number = state.request(owner, target);
        let granted = Arc::new(Condvar::new());
        state.waits.insert(owner, Wait { target: target.clone(), number, granted });
        state.is_deadlocked(owner)
    }

    fn waits(locks: &LockTable) -> Vec<Owner> {
        locks.state.lock().waits.keys().copied().collect()
    }

    #[test]
    fn locks_exclude_what_overlaps_and_nothing_else() {
        let locks = LockTable::default();
        assert_eq!(try_lock(&locks, 1, &key("c")), Ok(()));
        assert_eq!(try_lock(&locks, 1, &range("f", "h")), Ok(()));
        for (target, free) in [
            (key("c"), false),
            (key("d"), true),
            (key("f"), false),
            (key("g"), false),
            (key("h"), true),
            (range("a", "c"), true),
            (range("a", "cc"), false),
            (range("c", "ca"), false),
            (range("cc", "f"), true),
            (range("cc", "ff"), false),
            (range("h", "i"), true),
            (Target::Range(T, Limits::new(b"i".to_vec(), None, None)), true),
            (Target::Range(T, Limits::new(Vec::new(), None, None)), false),
            (Target::Key(TableId(2), b"c"[..].into()), true),
        ] {
            let expected = if free { Ok(()) } else { Err(ErrorKind::Timeout) };
            assert_eq!(try_lock(&locks, 2, &target), expected, "{target:?}");
            locks.release(2, slice::from_ref(&target));
            assert_eq!(try_lock(&locks, 1, &target), Ok(()), "{target:?}");
            if free {
                locks.release(1, &[target]);
            }
        }
        let held = [key("c"), range("f", "h")];
        locks.release(1, &held);
        let state = locks.state.lock();
        assert!(state.keys.is_empty() && state.waits.is_empty(), "{state:?}");
    }

    #[test]
    fn requests_are_granted_in_their_order_and_each_by_the_release_before_it() {
        let locks = LockTable::default();
        try_lock(&locks, 1, &key("k")).unwrap();
        assert!(
            !line_up(&locks, 2, &key("k")) && !line_up(&locks, 3, &range("a", "z")) && !line_up(&locks, 4, &key("k"))
        );
        assert_eq!(try_lock(&locks, 5, &key("x")), Err(ErrorKind::Timeout), "it would overtake the range");
        locks.release(1, &[key("k")]);
        assert_eq!(waits(&locks), [3, 4]);
        locks.release(2, &[key("k")]);
        assert_eq!(waits(&locks), [4]);
        locks.release(3, &[range("a", "z")]);
        assert!(waits(&locks).is_empty());
        assert_eq!(try_lock(&locks, 5, &key("x")), Ok(()));
    }

    #[test]
    fn a_circle_of_waits_is_refused_and_what_is_none_is_not() {
        let locks = LockTable::default();
        for (owner, name) in [(1, "a"), (2, "b"), (3, "c")] {
            try_lock(&locks, owner, &key(name)).unwrap();
        }
        assert!(!line_up(&locks, 1, &key("b")) && !line_up(&locks, 2, &key("c")));
        assert_eq!(try_lock(&locks, 3, &range("", "aa")), Err(ErrorKind::Deadlock));
        assert_eq!(try_lock(&locks, 4, &key("a")), Err(ErrorKind::Timeout));
        locks.release(3, &[key("c")]);
        assert_eq!(waits(&locks), [1]);
    }

    /// One that waits for what the owner holds cannot be before it.
    #[test]
    fn an_owner_widens_its_lock_over_those_that_wait_for_it() {
        let locks = LockTable::default();
        try_lock(&locks, 1, &key("k")).unwrap();
        line_up(&locks, 2, &key("k"));
        assert_eq!(try_lock(&locks, 1, &range("a", "z")), Ok(()));
        try_lock(&locks, 3, &key("zz")).unwrap();
        line_up(&locks, 3, &range("j", "l"));
        assert_eq!(try_lock(&locks, 1, &key("zz")), Err(ErrorKind::Deadlock), "the third holds it, and waits");
        locks.release(1, &[key("k"), range("a", "z")]);
        assert_eq!(waits(&locks), [3]);
    }

    /// A key or range of the keys from 0 to 7; a range without an end has all behind, for which 8 stands.
    fn target() -> impl Strategy<Value = (Target, u16)> {
        let letter = |at: u8| vec![b'a' + at];
        let key = (0..8_u8).prop_map(move |at| (Target::Key(T, letter(at).into()), 1 << at));
        let range = (0..8_u8, 1..12_u8).prop_map(move |(low, len)| {
            let end = Some(low + len).filter(|end| *end <= 8);
            let keys = (low..end.unwrap_or(9)).fold(0, |keys, at| keys | 1 << at);
            (Target::Range(T, Limits::new(letter(low), end.map(letter), None)), keys)
        });
        prop_oneof![key, range]
    }

    proptest! {
        /// What is granted is locked: each key has one owner at most, which has asked for it.
        #[test]
        fn random_locks_are_granted_when_no_other_owner_has_a_key_of_them(
            steps in prop::collection::vec((1..4_u64, target(), prop::bool::weighted(0.1), any::<bool>()), 1..40)
        ) {
            let locks = LockTable::default();
            let mut held = [const { Vec::<(Target, u16)>::new() }; 4];
            for (owner, (target, keys), ends, at_once) in steps {
                let own = usize::try_from(owner).unwrap();
                if ends {
                    let targets: Vec<_> = held[own].drain(..).map(|(target, _)| target).collect();
                    locks.release(owner, &targets);
                    continue;
                }
                let of_others = held.iter().enumerate().filter(|(at, _)| *at != own).flat_map(|(_, held)| held);
                let is_free = of_others.fold(0, |all, (_, keys)| all | keys) & keys == 0;
                if at_once {
                    let granted = locks.lock_free(owner, slice::from_ref(&target)) == 1;
                    prop_assert!(is_free || !granted, "owner {} asks for {:?} beside {:?}", owner, target, held);
                    let no_ranges = held.iter().flatten().all(|(held, _)| matches!(held, Target::Key(..)));
                    prop_assert!(granted || !is_free || !no_ranges || matches!(target, Target::Range(..)));
                    if granted {
                        held[own].push((target, keys));
                    }
                    continue;
                }
                let granted = try_lock(&locks, owner, &target);
                prop_assert_eq!(granted.is_ok(), is_free, "owner {} asks for {:?} beside {:?}", owner, target, held);
                if is_free {
                    held[own].push((target, keys));
                }
            }
        }
    }
}
