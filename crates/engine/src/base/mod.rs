//! The words that every layer shares: keys, positions, errors, checked decoding.

pub mod checksum;
pub mod codec;
pub mod compress;
pub mod coverage;
pub(crate) mod debug;
pub mod error;
pub mod histogram;
pub mod ids;
pub mod intrusive_list;
pub mod key;
pub mod memory;
pub mod num;
pub mod options;
pub mod prefetch;
pub mod shared_map;
pub(crate) mod steps;
pub mod sync;
pub mod thread_counters;
pub(crate) mod trace;
pub mod value;

pub use coverage::CoveragePoint;
pub use error::{Error, ErrorKind, Result};
pub use histogram::Histogram;
pub use ids::{FileId, Lsn, SeqNum, TableId};
pub use key::{Entry, Kind};
pub use options::{NamedOption, OptionKind};
pub use value::Value;
