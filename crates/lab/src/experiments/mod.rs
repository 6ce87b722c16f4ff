//! The experiments: each is a folder with its data, its steps, and the columns of its own.

pub mod commit;
pub mod connect;
mod describe;
mod device;
pub mod documents;
#[cfg(test)]
mod fake;
pub mod insert;
pub mod journal;
pub mod kv;
pub mod link;
pub mod scale;
pub mod shape;
mod tally;
pub mod ycsb;

#[cfg(test)]
mod least;
#[cfg(test)]
pub(crate) mod tests;

use crate::command::common::Common;
use crate::driver::Engine;
use crate::run::Bench;
use anyhow::Result;
use describe::Describe;
use serde::{Deserialize, Serialize};

/// An experiment with its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// See [`insert`].
    Insert(insert::Insert),
    /// See [`shape`].
    Shape(shape::Shape),
    /// See [`commit`].
    Commit(commit::Commit),
    /// See [`journal`].
    Journal(journal::Journal),
    /// See [`link`].
    Link(link::Link),
    /// See [`kv`].
    Kv(kv::Kv),
    /// See [`scale`].
    Scale(scale::Scale),
    /// See [`ycsb`].
    Ycsb(ycsb::Ycsb),
    /// See [`documents`].
    Documents(documents::Documents),
    /// See [`insert`].
    InsertDocuments(insert::InsertDocuments),
    /// See [`link`].
    LinkDocuments(link::LinkDocuments),
}

/// Calls a function of [`Describe`] on whichever experiment it is.
macro_rules! each {
    ($experiment:expr, $it:ident => $body:expr) => {
        match $experiment {
            Experiment::Insert($it) => $body,
            Experiment::Shape($it) => $body,
            Experiment::Commit($it) => $body,
            Experiment::Journal($it) => $body,
            Experiment::Link($it) => $body,
            Experiment::Kv($it) => $body,
            Experiment::Scale($it) => $body,
            Experiment::Ycsb($it) => $body,
            Experiment::Documents($it) => $body,
            Experiment::InsertDocuments($it) => $body,
            Experiment::LinkDocuments($it) => $body,
        }
    };
}

fn name_of<E: Describe>(_: &E) -> &'static str {
    E::NAME
}

fn columns_of<E: Describe>(_: &E) -> &'static [(&'static str, &'static str)] {
    E::COLUMNS
}

impl Experiment {
    /// The name of its command.
    #[must_use]
    pub fn name(&self) -> &'static str {
        each!(self, it => name_of(it))
    }

    /// Its own columns: title and meaning.
    #[must_use]
    pub fn columns(&self) -> Vec<(String, String)> {
        each!(self, it => columns_of(it))
            .iter()
            .map(|(title, text)| ((*title).to_owned(), (*text).to_owned()))
            .collect()
    }

    /// Its parameters for the report, name and value.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        each!(self, it => it.parameters())
    }

    /// Bytes on disk that one run of one engine may need.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        each!(self, it => it.disk_bytes())
    }

    /// Whether a run that was interrupted can go on.
    #[must_use]
    pub fn resumes(&self) -> bool {
        each!(self, it => it.resumes())
    }

    /// Why this engine is not to run it, if so.
    #[must_use]
    pub fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        match (each!(self, it => it.documents()), engine.documents()) {
            (true, false) => return Some("of tables, and the experiment is on documents".to_owned()),
            (false, true) => return Some("of documents, and the experiment is on tables".to_owned()),
            _ => {}
        }
        match engine.other_log_of() {
            Some(other) if !matches!(self, Self::Commit(_)) => {
                Some(format!("as `{other}` but for its redo log, and only takes part in `commit`"))
            }
            _ => each!(self, it => it.unsuited(engine)),
        }
    }

    /// Whether this engine is among those that run it when none is named: of documents if the experiment is on
    /// documents; the clients of servers when there is a server, and no others then.
    #[must_use]
    pub fn by_default(&self, engine: &dyn Engine) -> bool {
        let documents = each!(self, it => it.documents());
        let is_remote = each!(self, it => it.connect()).is_some();
        documents == engine.documents() && (!documents || engine.client_server() == is_remote)
    }

    /// Runs it on one engine.
    ///
    /// # Errors
    /// What the engine says; [`crate::Interrupted`] when it was stopped.
    pub fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        each!(self, it => it.run(common, bench))
    }
}
