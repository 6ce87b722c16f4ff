//! A consumer of the change feed: it keeps a copy of a table elsewhere, and goes on after a restart where it stopped.
//!
//! `cargo run -p spinney --example change_feed`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;

use spinney::{Commit, Database, Kind, Lsn, Options, TableOptions};

/// What the consumer has copied, and up to which position of the log. A real one stores both together.
#[derive(Default)]
struct Copy {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    position: Lsn,
}

impl Copy {
    /// Applies what was committed since the position.
    fn catch_up(&mut self, db: &Database) -> spinney::Result<u64> {
        let mut commits = 0;
        for commit in &mut db.changes(self.position)? {
            let commit = commit?;
            self.apply(&commit);
            self.position = commit.end;
            commits += 1;
        }
        Ok(commits)
    }

    fn apply(&mut self, commit: &Commit) {
        for change in commit.changes() {
            if commit.table_name(change.table) != Some("stock") {
                continue;
            }
            match change.kind {
                Kind::Put => drop(self.entries.insert(change.key.to_vec(), change.value.to_vec())),
                Kind::Delete => drop(self.entries.remove(change.key)),
                other => println!("the example does not copy {other:?}"),
            }
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("spinney-feed-{}", std::process::id()));
    let db = Database::open(&dir, Options::default())?;
    let stock = db.open_or_create_table("stock", TableOptions::default())?;
    let mut copy = Copy { position: db.log_start(), ..Copy::default() };
    stock.put("apples", "7")?;
    stock.put("pears", "3")?;
    println!("{} commits copied", copy.catch_up(&db)?);
    db.close()?;

    // The feed begins again at the stored position, although the database was closed.
    let db = Database::open(&dir, Options::default())?;
    let stock = db.open_or_create_table("stock", TableOptions::default())?;
    stock.delete("pears")?;
    stock.put("apples", "6")?;
    println!("{} commits copied", copy.catch_up(&db)?);
    let there = stock.range(..).map(|entry| entry.map(|(key, value)| (key, value.to_vec())));
    assert_eq!(there.collect::<Result<Vec<_>, _>>()?, copy.entries.into_iter().collect::<Vec<_>>());
    db.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}
