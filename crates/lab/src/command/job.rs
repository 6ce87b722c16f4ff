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
    /// A directory for the data, which exists and is empty; or has what an earlier process of the run left.
    pub dir: PathBuf,
    /// A file for what the run has come to, so that it can go on when it is interrupted; what it says of an earlier
    /// process is taken over.
    pub progress: Option<PathBuf>,
    /// Which repetition this is, from 0.
    pub repetition: u32,
}
