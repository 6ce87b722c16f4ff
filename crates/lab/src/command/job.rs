//! What a worker is told.

use super::common::Common;
use crate::experiments::Experiment;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One run of one engine. It travels as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The experiment.
    pub experiment: Experiment,
    /// The arguments of all experiments.
    pub common: Common,
    /// The engine's name.
    pub engine: String,
    /// A directory for the data, which exists and is empty.
    pub dir: PathBuf,
    /// Which repetition this is, from 0.
    pub repetition: u32,
}
