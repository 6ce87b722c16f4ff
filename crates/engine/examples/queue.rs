//! A durable queue: producers append, consumers take the oldest message; a message that is taken is gone for all.
//!
//! `cargo run -p spinney --example queue`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use spinney::{Database, Durability, ErrorKind, Options, Table, TableOptions};

struct Queue {
    db: Database,
    /// Key: number of the message, big-endian. Value: the message.
    messages: Table,
    next: AtomicU64,
}

impl Queue {
    fn open(dir: &std::path::Path) -> spinney::Result<Self> {
        let db = Database::open(dir, Options::default().durability(Durability::Buffered))?;
        let messages = db.open_or_create_table("messages", TableOptions::default())?;
        // The number after the newest. (A message that was taken leaves no trace; keep the number in a table of its
        // own where numbers must never come again.)
        let newest = messages.last()?.map(|(key, _)| number_of(&key));
        Ok(Self { db, messages, next: AtomicU64::new(newest.map_or(0, |number| number + 1)) })
    }

    fn push(&self, message: &str) -> spinney::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.messages.put(number.to_be_bytes(), message)
    }

    /// Takes the oldest message. Of two consumers that take the same one, the second finds a conflict and tries again.
    fn pop(&self) -> spinney::Result<Option<String>> {
        loop {
            let mut txn = self.db.begin();
            let Some((key, message)) = txn.first(&self.messages)? else { return Ok(None) };
            txn.delete(&self.messages, key)?;
            match txn.commit() {
                Ok(()) => return Ok(Some(String::from_utf8_lossy(&message).into_owned())),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn number_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("keys have 8 bytes"))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("spinney-queue-{}", std::process::id()));
    let queue = Queue::open(&dir)?;
    for number in 0..100 {
        queue.push(&format!("message {number}"))?;
    }
    let mut taken = thread::scope(|scope| {
        let consumer = || {
            let mut taken = Vec::new();
            while let Some(message) = queue.pop()? {
                taken.push(message);
            }
            Ok::<_, spinney::Error>(taken)
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(consumer)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    println!("{} messages taken", taken.len());
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 100);
    queue.db.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}
