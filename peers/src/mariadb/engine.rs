//! The two engines.

use super::config;
use super::kind::Kind;
use super::schema;
use super::server::{self, Server};
use super::store::MariaDbStore;
use anyhow::Result;
use spinney_lab::driver::{Config, Engine, Store, TableSpec};
use std::path::Path;

/// MariaDB with one storage engine for the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MariaDb {
    /// The storage engine.
    pub(crate) kind: Kind,
}

impl Engine for MariaDb {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::InnoDb => "innodb",
            Kind::MyRocks => "myrocks",
        }
    }

    fn version(&self) -> String {
        server::version().unwrap_or_else(|| "-".to_owned())
    }

    fn missing(&self) -> Option<String> {
        if server::version().is_none() || server::installer().is_none() {
            return Some("no MariaDB server: `apt-get install mariadb-server`".to_owned());
        }
        let plugin = self.kind == Kind::InnoDb || server::has_plugin("ha_rocksdb.so");
        (!plugin).then(|| "no MyRocks: `apt-get install mariadb-plugin-rocksdb`".to_owned())
    }

    fn client_server(&self) -> bool {
        true
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let tables = schema::tables(tables)?;
        let options = config::options(self.kind, config)?;
        let server = Server::start(dir, config.log.dir.as_deref(), &options)?;
        Ok(Box::new(MariaDbStore::open(self.kind, server, config, tables, options)?))
    }
}
