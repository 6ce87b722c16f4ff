//! The times at which a member began to get a copy of the primary's database because its own disagreed with the log.
//!
//! # Format
//! The file `resyncs` in the folder of the database, which a copy leaves there: milliseconds since 1970, 8 bytes each,
//! little-endian.

use std::io;
use std::path::Path;

use super::copies::replace_durable;

const RESYNCS: &str = "resyncs";

/// How many copies a member gets in a [`PERIOD_MS`]: what breaks its data again and again is not mended by copies,
/// which cost the primary as much as reading all data.
pub(crate) const RESYNCS_MAX: usize = 2;

/// An hour.
const PERIOD_MS: i64 = 60 * 60 * 1000;

/// The times within a period, in the folder of a database. A clock that was set back makes none of them older.
///
/// # Errors
/// What the system says.
pub(crate) fn lately(dir: &Path, now_ms: i64) -> io::Result<Vec<i64>> {
    let bytes = match std::fs::read(dir.join(RESYNCS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let (times, _) = bytes.as_chunks();
    let times = times.iter().map(|time| i64::from_le_bytes(*time));
    Ok(times.filter(|time| now_ms.saturating_sub(*time) < PERIOD_MS).collect())
}

/// Notes durably that a copy is begun.
///
/// # Errors
/// What the system says.
pub(crate) fn note(dir: &Path, now_ms: i64) -> io::Result<()> {
    let mut times = lately(dir, now_ms)?;
    times.push(now_ms);
    let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    replace_durable(dir, RESYNCS, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_last_hour_are_known_and_older_ones_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let lately = |now_ms| lately(dir.path(), now_ms).unwrap();
        assert!(lately(0).is_empty());
        note(dir.path(), 1000).unwrap();
        note(dir.path(), 2000).unwrap();
        assert_eq!(lately(2000), [1000, 2000]);
        assert_eq!(lately(1000 + PERIOD_MS), [2000]);
        assert_eq!(lately(0), [1000, 2000], "the clock was set back");
        note(dir.path(), 3000 + PERIOD_MS).unwrap();
        assert_eq!(lately(3000 + PERIOD_MS), [3000 + PERIOD_MS]);
    }
}
