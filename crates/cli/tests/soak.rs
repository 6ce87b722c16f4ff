//! Memory, file descriptors and space on disk while threads commit for some seconds and the data stays as large as it
//! is.
//!
//! `SPINNEY_SOAK_SECONDS` makes it longer (default 6).
//!
//! In seconds a step of the allocator or of a neighbour's load looks like growth. A run that reports growth is
//! therefore made again for [`LONGER`] times as long, against the same rate per hour: a step stays as large as it was,
//! while what grows with time grows on.

use crate::support::Place;

/// How many times as long the second run lasts that decides whether what the first one saw is growth.
const LONGER: u64 = 5;

#[test]
fn nothing_grows_while_the_data_does_not() {
    let seconds = std::env::var("SPINNEY_SOAK_SECONDS").map_or(6, |seconds| seconds.parse().unwrap());
    let (place, output) = soak(seconds);
    let (place, output) = if output.status.success() { (place, output) } else { soak(LONGER * seconds) };
    assert!(output.status.success(), "{output:#?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let figures = ["resident memory", "file descriptors", "space on disk"];
    assert!(figures.iter().all(|figure| said.contains(figure)), "{said}");
    let checked = place.ok(&["stress", "--check", "db"]);
    assert_eq!(checked.lines().count(), 3, "{checked}");
}

/// A run of this many seconds in a new database, what it printed passed on to the test's log.
fn soak(seconds: u64) -> (Place, std::process::Output) {
    let place = Place::new();
    let seconds = seconds.to_string();
    let args = ["stress", "db", "--soak", "--threads", "3", "--durability", "buffered", "--seconds", &seconds];
    let output = place.run(&args);
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    (place, output)
}
