//! The insert benchmark on documents: `insert-documents`.

use super::form::Form;
use super::params::Insert;
use crate::command::common::Common;
use crate::driver::Engine;
use crate::experiments::connect::Connect;
use crate::experiments::describe::Describe;
use crate::run::Bench;
use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench insert-documents
  spinney bench insert-documents --memory 4x,1x,0.1x --rates none
  spinney bench insert-documents --rows 2000000000 --batch 1000 --clients 10 --memory 144GiB,32GiB,8GiB --deletes false --rates none
  spinney bench insert-documents --connect mongodb://127.0.0.1:27017 --memory 4x")]
pub struct InsertDocuments {
    /// As on tables.
    #[command(flatten)]
    pub insert: Insert,
    /// The server, if it is one.
    #[command(flatten)]
    pub connect: Connect,
}

impl Describe for InsertDocuments {
    const NAME: &'static str = "insert-documents";
    const COLUMNS: &[(&str, &str)] = &[];

    fn parameters(&self) -> Vec<(String, String)> {
        let mut parameters = self.insert.parameters_of(Form::Documents);
        parameters.extend(self.connect.connect.iter().map(|address| ("server".to_owned(), address.clone())));
        parameters
    }

    fn disk_bytes(&self) -> u64 {
        self.insert.disk_bytes_of(Form::Documents)
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
        self.insert.run_form(Form::Documents, self.connect(), common, bench)
    }
}
