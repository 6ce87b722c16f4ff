//! Memory, file descriptors and space on disk while threads commit for some seconds and the data stays as large as it
//! is.
//!
//! `SPINNEY_SOAK_SECONDS` makes it longer (default 6).

use crate::support::Place;

#[test]
fn nothing_grows_while_the_data_does_not() {
    let place = Place::new();
    let seconds = std::env::var("SPINNEY_SOAK_SECONDS").unwrap_or_else(|_| "6".to_owned());
    let args = ["stress", "db", "--soak", "--threads", "3", "--durability", "buffered", "--seconds", &seconds];
    let output = place.run(&args);
    assert!(output.status.success(), "{output:#?}");
    let said = String::from_utf8(output.stdout).unwrap();
    eprint!("{said}");
    let figures = ["resident memory", "file descriptors", "space on disk"];
    assert!(figures.iter().all(|figure| said.contains(figure)), "{said}");
    let checked = place.ok(&["stress", "--check", "db"]);
    assert_eq!(checked.lines().count(), 3, "{checked}");
}
