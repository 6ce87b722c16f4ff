//! What the operations of a document database cost: documents of 1 KB with three indexes.
//!
//! | step | what it does |
//! |---|---|
//! | insert | inserts documents, one in a commit |
//! | bulk | inserts documents, many in a call |
//! | settle | waits until no background work is left |
//! | find | finds documents by `_id` |
//! | covered | reads ranges of an index that has all fields that are asked for |
//! | fetched | reads the same ranges with the whole documents |
//! | count | counts the documents in a half of an index |
//! | scan | looks at all documents for one that is not there |
//! | group | groups all documents by a field and adds up another |
//! | inc | adds to a field without an index, by `_id` |
//! | move | changes a field with an index, by `_id` |
//! | delete | deletes documents by `_id` |
//! | build | builds an index over the documents that are left |

mod data;
mod params;
mod steps;
#[cfg(test)]
mod tests;

pub use params::Documents;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, Engine};
use crate::run::Bench;
use crate::text::{bytes, count};
use anyhow::{Result, ensure};
use data::Text;
use steps::Steps;

impl Describe for Documents {
    const NAME: &'static str = "documents";
    const COLUMNS: &[(&str, &str)] =
        &[("disk/BSON", "bytes on disk, indexes included and the redo log not, per byte of the documents as BSON")];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let mut parameters = vec![
            parameter("documents", count(self.documents)),
            parameter("inserted one by one", count(self.singles())),
            parameter("documents per bulk insert", count(self.batch)),
            parameter("reads in a step", count(self.reads)),
            parameter("updates in a step", count(self.updates)),
            parameter("scans in a step", count(self.scans)),
            parameter("clients", self.clients.to_string()),
            parameter("document", format!("about {}", bytes(data::DOCUMENT_BYTES))),
            parameter("indexes", "a; b, price descending; name".to_owned()),
            parameter("memory", bytes(self.memory)),
        ];
        parameters.extend(self.connect.connect.iter().map(|address| parameter("server", address.clone())));
        parameters
    }

    fn disk_bytes(&self) -> u64 {
        4 * self.documents * data::DOCUMENT_BYTES + (1 << 30)
    }

    fn documents(&self) -> bool {
        true
    }

    fn connect(&self) -> Option<&str> {
        self.connect.connect.as_deref()
    }

    fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        self.connect.unsuited(engine)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        ensure!(!common.verify, "there is no model of documents to compare reads with: --verify is for tables");
        let config =
            Config { connect: self.connect.connect.clone(), ..common.config(self.memory, DurabilityArg::Buffered) };
        let mut db = bench.open("documents", &config, &[])?;
        let text = Text::new(common.seed);
        let steps = Steps { params: self, seed: common.seed, text: &text };
        steps.make(&db)?;
        steps.insert(&mut db)?;
        steps.bulk(&mut db)?;
        steps.settle(&mut db)?;
        steps.find(&mut db)?;
        steps.ranges(&mut db, "covered", &["b", "price"])?;
        steps.ranges(&mut db, "fetched", &[])?;
        steps.count(&mut db)?;
        steps.scan(&mut db)?;
        steps.group(&mut db)?;
        steps.update(&mut db)?;
        steps.move_entries(&mut db)?;
        steps.delete(&mut db)?;
        steps.build(&mut db)?;
        db.close()
    }
}
