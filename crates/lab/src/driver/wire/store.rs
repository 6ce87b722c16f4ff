//! The server as a database of the lab's.

use super::client::WireClient;
use super::connection::{Connection, Refused};
use crate::driver::client::Client;
use crate::driver::config::{Config, Durability, TableSpec};
use crate::driver::embedded::NAMESPACE;
use crate::driver::engine::Engine;
use crate::driver::lacks::Lacks;
use crate::driver::store::Store;
use anyhow::{Context as _, Result, ensure};
use spinney_document::bson::{Document, DocumentBuf};
use spinney_document::doc;
use std::path::{Path, PathBuf};

/// A server that speaks MongoDB's protocol.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Wire;

struct WireStore {
    address: String,
    /// Whether writes ask for a sync of the server's log.
    is_durable: bool,
    process: Option<u32>,
    data_dir: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

impl Engine for Wire {
    fn name(&self) -> &'static str {
        "mongodb-server"
    }

    fn version(&self) -> String {
        "of the server".to_owned()
    }

    fn client_server(&self) -> bool {
        true
    }

    fn documents(&self) -> bool {
        true
    }

    fn direct_io(&self) -> bool {
        true
    }

    /// The directory is made for the measurements alone.
    fn open(&self, dir: &Path, config: &Config, _tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        ensure!(config.durability != Durability::NoLog, Lacks::new("no collections without a redo log"));
        let address = config.connect.clone().context("there is no server: give one with --connect")?;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut connection = Connection::open(&address)?;
        connection.run(doc! {"dropDatabase": 1, "$db": NAMESPACE}.view(), None)?;
        let version = connection.run(doc! {"buildInfo": 1, "$db": "admin"}.view(), None)?;
        let (process, data_dir) = local(&mut connection)?;
        let is_durable = config.durability == Durability::Sync;
        let settings = [
            ("server", address.clone()),
            ("version", version.view().get("version").map_or_else(String::new, |version| version.to_json())),
            ("write concern", if is_durable { "w: 1, j: true" } else { "w: 1" }.to_owned()),
            ("measured", if process.is_some() { "client and server" } else { "the client alone" }.to_owned()),
            ("memory", "as the server was started".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Ok(Box::new(WireStore { address, is_durable, process, data_dir, settings }))
    }
}

/// The process of a server on this machine, and where its data lies.
fn local(connection: &mut Connection) -> Result<(Option<u32>, Option<PathBuf>)> {
    if !connection.is_local() {
        return Ok((None, None));
    }
    let status = connection.run(doc! {"serverStatus": 1, "$db": "admin"}.view(), None)?;
    let process = status.view().get("pid").and_then(|id| u32::try_from(id.as_exact_i64()?).ok());
    // Another user's process does not tell what it costs.
    let process = process.filter(|id| std::fs::read_to_string(format!("/proc/{id}/io")).is_ok());
    let options = connection.run(doc! {"getCmdLineOpts": 1, "$db": "admin"}.view(), None)?;
    let inner = |name: &str, document: Document<'_>| {
        document.get(name).and_then(|inner| inner.as_document()).map(DocumentBuf::from)
    };
    let storage = inner("parsed", options.view()).and_then(|parsed| inner("storage", parsed.view()));
    let path = storage.and_then(|storage| {
        let path = storage.view().get("dbPath")?;
        Some(PathBuf::from(String::from_utf8_lossy(path.as_text()?.as_bytes()).into_owned()))
    });
    Ok((process, path.filter(|path| path.is_dir())))
}

impl Store for WireStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(WireClient::new(&self.address, self.is_durable)?))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        match Connection::open(&self.address)?.run(doc! {"fsync": 1, "$db": "admin"}.view(), None) {
            Err(error) if error.downcast_ref::<Refused>().is_some_and(Refused::is_unknown_command) => {
                Err(Lacks::new("no command that makes its log durable").into())
            }
            done => done.map(drop),
        }
    }

    fn wait_idle(&self) -> Result<()> {
        Err(Lacks::new("no command that waits for background work").into())
    }

    fn is_log(&self, path: &Path) -> bool {
        // MongoDB's own are in a directory of theirs.
        crate::driver::spinney_parts::is_log(path) || path.components().any(|part| part.as_os_str() == "journal")
    }

    fn data_dir(&self) -> Option<PathBuf> {
        self.data_dir.clone()
    }

    fn processes(&self) -> Vec<u32> {
        self.process.into_iter().collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
