//! Counters that many threads increment without reading them: merges with the built-in operator `add`.
//!
//! `cargo run -p spinney --example counter`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::thread;

use spinney::{Database, Durability, Options, Table, TableOptions};

/// The count of a page; a page that nobody visited has none.
fn visits(counters: &Table, page: &str) -> spinney::Result<u64> {
    let value = counters.get(page)?;
    Ok(value.map_or(0, |bytes| u64::from_le_bytes((*bytes).try_into().expect("`add` stores 8 bytes"))))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("spinney-counter-{}", std::process::id()));
    // A commit survives a crash of the process when it returns, and one of the machine a tenth of a second later.
    let options = Options::default().durability(Durability::Interval);
    let db = Database::open(&dir, options)?;
    let merge = TableOptions::default().merge("add");
    let counters = db.open_or_create_table("visits", merge)?;
    thread::scope(|scope| {
        let increment = || (0..1000).try_for_each(|_| counters.merge("/", 1_u64.to_le_bytes()));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(increment)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    println!("visits of /: {}", visits(&counters, "/")?);
    assert_eq!(visits(&counters, "/")?, 4000);
    assert_eq!(visits(&counters, "/nothing")?, 0);
    db.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}
