//! A store of people with a secondary index: both change in one transaction, and a query goes by the index.
//!
//! `cargo run -p spinney --example index`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use spinney::{Database, ErrorKind, Options, Table, TableOptions};

struct People {
    db: Database,
    /// Key: name. Value: city.
    people: Table,
    /// Key: city, a zero byte, name. No value: the key says all.
    by_city: Table,
}

impl People {
    fn open(dir: &std::path::Path) -> spinney::Result<Self> {
        let db = Database::open(dir, Options::default())?;
        let people = db.open_or_create_table("people", TableOptions::default())?;
        let by_city = db.open_or_create_table("people by city", TableOptions::default())?;
        Ok(Self { db, people, by_city })
    }

    /// Adds a person, or moves them to another city. A transaction that met another one is tried again.
    fn put(&self, name: &str, city: &str) -> spinney::Result<()> {
        loop {
            let mut txn = self.db.begin();
            if let Some(old) = txn.get(&self.people, name)? {
                txn.delete(&self.by_city, index_key(&old, name))?;
            }
            txn.put(&self.people, name, city)?;
            txn.put(&self.by_city, index_key(city.as_bytes(), name), "")?;
            match txn.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                committed => return committed,
            }
        }
    }

    /// The names of the people in a city, in order.
    fn in_city(&self, city: &str) -> spinney::Result<Vec<String>> {
        let prefix = index_key(city.as_bytes(), "");
        let mut names = Vec::new();
        for entry in self.by_city.prefix(&prefix) {
            let (key, _) = entry?;
            names.push(String::from_utf8_lossy(&key[prefix.len()..]).into_owned());
        }
        Ok(names)
    }
}

fn index_key(city: &[u8], name: &str) -> Vec<u8> {
    [city, b"\0", name.as_bytes()].concat()
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("spinney-index-{}", std::process::id()));
    let store = People::open(&dir)?;
    store.put("Ann", "Oslo")?;
    store.put("Bob", "Rome")?;
    store.put("Cid", "Oslo")?;
    store.put("Ann", "Rome")?;
    println!("in Oslo: {:?}", store.in_city("Oslo")?);
    println!("in Rome: {:?}", store.in_city("Rome")?);
    assert_eq!(store.in_city("Oslo")?, ["Cid"]);
    assert_eq!(store.in_city("Rome")?, ["Ann", "Bob"]);
    store.db.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}
