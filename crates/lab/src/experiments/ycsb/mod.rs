//! Placeholder.

use super::Describe;
use crate::command::Common;
use crate::run::Bench;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// Placeholder.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct Ycsb {}

impl Describe for Ycsb {
    const NAME: &'static str = "ycsb";

    fn parameters(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn run(&self, _common: &Common, _bench: &mut Bench<'_>) -> Result<()> {
        bail!("not yet")
    }
}
