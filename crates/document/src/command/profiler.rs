//! Which commands are profiled, and the collections `system.profile` that they are written to.
//!
//! # Concurrency
//!
//! A command that is not slow, where nothing is profiled, reads two atomics. The latch guards the settings of
//! databases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::base::{ErrorCode, Result};
use crate::bson::DocumentBuf;
use crate::collection::handle::WriteOptions;
use crate::database::Database;
use crate::expr::Context;
use crate::query::Filter;

/// The most bytes of the documents in a `system.profile`, of which the oldest make room.
pub const PROFILE_BYTES_MAX: i64 = 1 << 20;

/// What decides whether a command is profiled and whether it is logged as slow.
#[derive(Debug)]
pub struct Profiler {
    /// From how many milliseconds on a command is slow.
    slow_ms: AtomicI32,
    /// The bits of the share of slow commands that are profiled and logged.
    sample_rate: AtomicU64,
    /// How many databases are profiled or have a filter.
    active: AtomicUsize,
    databases: Mutex<BTreeMap<String, Profile>>,
}

/// The profiling of a database.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// 0: nothing is profiled; 1: slow commands are; 2: all are.
    pub level: i32,
    /// Which commands are profiled and logged, instead of the slow ones.
    pub filter: Option<Arc<ProfileFilter>>,
}

/// A filter of the documents of a profile.
#[derive(Debug)]
pub struct ProfileFilter {
    /// The filter as it was given.
    pub document: DocumentBuf,
    /// The filter.
    pub filter: Filter,
}

/// What becomes of a command that has ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether it may be logged as slow.
    pub log: bool,
    /// Whether it may be profiled.
    pub profile: bool,
    /// What its document must match for both.
    pub filter: Option<Arc<ProfileFilter>>,
}

impl Default for Profiler {
    fn default() -> Self {
        Self {
            slow_ms: AtomicI32::new(100),
            sample_rate: AtomicU64::new(1_f64.to_bits()),
            active: AtomicUsize::new(0),
            databases: Mutex::default(),
        }
    }
}

impl Profiler {
    /// From how many milliseconds on a command is slow.
    #[must_use]
    pub fn slow_ms(&self) -> i32 {
        self.slow_ms.load(Ordering::Relaxed)
    }

    /// Sets from how many milliseconds on a command is slow.
    pub fn set_slow_ms(&self, millis: i32) {
        self.slow_ms.store(millis, Ordering::Relaxed);
    }

    /// The share of slow commands that are profiled and logged, from 0 to 1.
    #[must_use]
    pub fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Ordering::Relaxed))
    }

    /// Sets the share of slow commands that are profiled and logged, from 0 to 1.
    pub fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// The profiling of a database.
    #[must_use]
    pub fn of(&self, database: &str) -> Profile {
        self.databases.lock().get(database).cloned().unwrap_or_default()
    }

    /// Whether some commands of a database are profiled.
    #[must_use]
    pub fn is_profiled(&self, database: &str) -> bool {
        self.active.load(Ordering::Relaxed) > 0 && self.databases.lock().get(database).is_some_and(|one| one.level > 0)
    }

    /// Changes the profiling of a database.
    pub fn change(&self, database: &str, change: impl FnOnce(&mut Profile)) {
        let mut databases = self.databases.lock();
        let profile = databases.entry(database.to_owned()).or_default();
        change(profile);
        let active = databases.values().filter(|profile| profile.level > 0 || profile.filter.is_some()).count();
        // A command that begins or ends meanwhile is seen by the old or the new settings.
        self.active.store(active, Ordering::Relaxed);
    }

    /// What becomes of a command of a database that took some microseconds; nothing when it is neither logged nor
    /// profiled. With `logs_all` each command is logged; else `random` decides which of the slow ones are.
    #[must_use]
    pub fn verdict(
        &self,
        database: &str,
        micros: u64,
        logs_all: bool,
        random: impl FnOnce() -> u64,
    ) -> Option<Verdict> {
        let is_slow = i64::try_from(micros / 1000).unwrap_or(i64::MAX) >= i64::from(self.slow_ms());
        if !is_slow && !logs_all && self.active.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let profile = self.of(database);
        let sampled = profile.filter.is_some() || is_slow && is_sampled(self.sample_rate(), random);
        let verdict = Verdict {
            log: sampled || logs_all,
            profile: profile.level > 0 && (sampled || profile.level > 1),
            filter: profile.filter,
        };
        (verdict.log || verdict.profile).then_some(verdict)
    }
}

/// Whether one of many commands is among a share of them.
fn is_sampled(rate: f64, random: impl FnOnce() -> u64) -> bool {
    // The upper 32 bits, of which a float holds every value.
    rate >= 1.0 || f64::from(u32::try_from(random() >> 32).unwrap_or_default()) < rate * f64::from(u32::MAX)
}

impl ProfileFilter {
    /// Reads a filter.
    ///
    /// # Errors
    /// Those of [`Filter::parse`].
    pub fn parse(document: DocumentBuf, context: &Context) -> Result<Self> {
        Ok(Self { filter: Filter::parse(document.view(), context)?, document })
    }
}

impl Verdict {
    /// Whether a command with this document is meant.
    #[must_use]
    pub fn takes(&self, document: &DocumentBuf) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.filter.matches(document.view()).unwrap_or(false))
    }

    /// Writes a document to the profile of a database, a capped collection of [`PROFILE_BYTES_MAX`]. Each member of a
    /// replica set has its own.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn write(&self, database: &Database, name: &str, document: &DocumentBuf) -> Result<()> {
        let namespace = format!("{name}.system.profile");
        let collection = match database.collection(&namespace)? {
            Some(collection) => collection,
            None => {
                let created =
                    database.create_collection(&namespace, doc! {"capped": true, "size": PROFILE_BYTES_MAX}.view());
                match created {
                    // Another thread was first, with other options.
                    Err(error) if error.code() == ErrorCode::NAMESPACE_EXISTS => {}
                    created => created?,
                }
                database.collection_or_create(&namespace)?
            }
        };
        // What a profile tells is no reason to wait for the device.
        let options = WriteOptions { durability: Some(spinney::Durability::Buffered), ..WriteOptions::default() };
        collection.insert_one_with(document.view(), options).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(value: u64) -> impl FnOnce() -> u64 {
        move || value
    }

    #[test]
    fn slow_commands_are_logged_and_profiled_by_the_level() {
        let profiler = Profiler::default();
        assert!(profiler.verdict("a", 99_999, false, random(0)).is_none());
        let slow = profiler.verdict("a", 100_000, false, random(0)).unwrap();
        assert!(slow.log && !slow.profile);
        profiler.change("a", |profile| profile.level = 1);
        assert!(profiler.verdict("a", 1, false, random(0)).is_none());
        assert!(profiler.verdict("a", 100_000, false, random(0)).unwrap().profile);
        assert!(!profiler.verdict("b", 100_000, false, random(0)).unwrap().profile);
        profiler.change("a", |profile| profile.level = 2);
        let fast = profiler.verdict("a", 1, false, random(0)).unwrap();
        assert!(!fast.log && fast.profile);
        assert!(profiler.verdict("b", 1, true, random(0)).unwrap().log);
    }

    #[test]
    fn a_share_is_sampled() {
        let profiler = Profiler::default();
        profiler.set_sample_rate(0.5);
        assert!(profiler.verdict("a", 100_000, false, random(u64::MAX / 4)).is_some());
        assert!(profiler.verdict("a", 100_000, false, random(u64::MAX / 4 * 3)).is_none());
        profiler.set_sample_rate(0.0);
        assert!(profiler.verdict("a", 100_000, false, random(0)).is_none());
    }
}
