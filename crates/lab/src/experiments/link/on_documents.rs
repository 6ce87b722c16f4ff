//! `LinkBench` on documents: `link-documents`.

use super::documents;
use super::form::Form;
use super::load;
use super::params::Link;
use super::requests::{self, Stream};
use super::setting::Setting;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, Engine, LogConfig};
use crate::experiments::connect::Connect;
use crate::experiments::describe::Describe;
use crate::run::{Bench, Db};
use crate::text::count;
use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

/// Bytes of the log that are kept for a change stream.
const KEEP_BYTES: u64 = 256 << 20;

/// Nodes whose counts are compared with their links at the end.
const CHECKED_NODES: u64 = 1_000;

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench link-documents
  spinney bench link-documents --nodes 1000000 --phases 6 --seconds 60 --requesters 8 --memory 256MiB
  spinney bench link-documents --connect mongodb://127.0.0.1:27017 --streams without")]
pub struct LinkDocuments {
    /// As on tables.
    #[command(flatten)]
    pub link: Link,
    /// Whether a client reads a change stream beside the requests; each is a database of its own
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Stream::Without, Stream::With])]
    pub streams: Vec<Stream>,
    /// The server, if it is one.
    #[command(flatten)]
    pub connect: Connect,
}

impl Describe for LinkDocuments {
    const NAME: &'static str = "link-documents";
    const COLUMNS: &[(&str, &str)] = Link::COLUMNS;

    fn parameters(&self) -> Vec<(String, String)> {
        let mut parameters = self.link.parameters();
        parameters.extend(self.connect.connect.iter().map(|address| ("server".to_owned(), address.clone())));
        parameters
    }

    fn disk_bytes(&self) -> u64 {
        // Of documents with their indexes twice as much as of rows.
        2 * self.link.disk_bytes() + KEEP_BYTES
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
        let setting = Setting::new(Form::Documents, self.link.nodes, common.seed);
        for &stream in &self.streams {
            let config = common.config(self.link.memory, DurabilityArg::Interval);
            let log =
                LogConfig { keep_bytes: if stream == Stream::Without { 0 } else { KEEP_BYTES }, ..config.log.clone() };
            let config = Config { log, connect: self.connect.connect.clone(), transactions: true, ..config };
            let name = format!("link{}", stream.suffix().replace(' ', "-"));
            let mut db = bench.open(&name, &config, &[])?;
            self.run_on(&setting, stream, &mut db)?;
            db.close()?;
            bench.remove(&name)?;
        }
        Ok(())
    }
}

impl LinkDocuments {
    fn run_on(&self, setting: &Setting, stream: Stream, db: &mut Db<'_, '_>) -> Result<()> {
        documents::create(&mut *db.store().client()?)?;
        load::run(setting, self.link.loaders as usize, &format!("load{}", stream.suffix()), db)?;
        for number in 1..=u64::from(self.link.phases) {
            requests::run(setting, self.link.phase(number, stream), db)?;
        }
        let nodes = self.link.nodes;
        let lists = documents::check(&mut *db.store().client()?, nodes, setting.seed, CHECKED_NODES)?;
        db.bench().note(format!("after the run {} lists have as many links as their counts say", count(lists)));
        Ok(())
    }
}
