//! Plans.

use super::scan::Scan;
use crate::base::interrupt::Summarize;

/// How documents are found.
#[derive(Clone, Debug)]
pub enum Plan {
    /// No document can match.
    Nothing,
    /// The document with one `_id`, given as its key.
    Id(Vec<u8>),
    /// The documents of a scan of the collection, or of an index and fetched.
    Scan(Scan),
    /// What is asked for is in the keys of an index; documents are fetched only where a key does not tell.
    Covered(Scan),
    /// The documents that one of several plans finds, each once.
    Union(Vec<Plan>),
    /// The documents of a plan, sorted.
    Sort(Box<Plan>),
}

impl Plan {
    /// The scan of one index, where the plan is that.
    #[must_use]
    pub fn scan(&self) -> Option<&Scan> {
        match self {
            Self::Scan(scan) | Self::Covered(scan) => Some(scan),
            Self::Sort(input) => input.scan(),
            Self::Nothing | Self::Id(_) | Self::Union(_) => None,
        }
    }

    fn summarize(&self, parts: &mut Vec<String>) {
        let part = match self {
            Self::Nothing => "EOF".to_owned(),
            Self::Id(_) => "IDHACK".to_owned(),
            Self::Scan(scan) | Self::Covered(scan) => scan.summary(),
            Self::Sort(input) => return input.summarize(parts),
            Self::Union(plans) => return plans.iter().for_each(|plan| plan.summarize(parts)),
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }

    /// Whether the documents are sorted when all have been found.
    #[must_use]
    pub const fn sorts(&self) -> bool {
        matches!(self, Self::Sort(_))
    }
}

impl Summarize for Plan {
    /// The scans, each once, as profilers and logs show them.
    fn summary(&self) -> String {
        let mut parts = Vec::new();
        self.summarize(&mut parts);
        parts.join(", ")
    }
}
