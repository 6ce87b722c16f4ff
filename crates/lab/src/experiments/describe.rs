//! What each experiment says of itself.

use crate::command::common::Common;
use crate::driver::Engine;
use crate::run::Bench;
use anyhow::Result;

/// What each experiment says of itself.
pub(super) trait Describe {
    /// The name of its command.
    const NAME: &'static str;

    /// Its own columns: title and meaning.
    const COLUMNS: &[(&str, &str)];

    /// Its parameters for the report, name and value.
    fn parameters(&self) -> Vec<(String, String)>;

    /// Bytes on disk that one run of one engine may need.
    fn disk_bytes(&self) -> u64;

    /// Whether it is on documents, not on tables.
    fn documents(&self) -> bool {
        false
    }

    /// The server that it is to run on, if so.
    fn connect(&self) -> Option<&str> {
        None
    }

    /// Why this engine is not to run it, if so.
    fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        engine.client_server().then(|| "a server, which only takes part in `insert` and `commit`".to_owned())
    }

    /// Whether a run that was interrupted can go on: whether what its steps know of the database can be found in it.
    fn resumes(&self) -> bool {
        false
    }

    /// Runs it on one engine.
    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()>;
}
