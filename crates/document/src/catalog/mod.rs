//! The catalog: which collections and indexes there are, with what options, in which tables of the engine.
//!
//! # Format
//! The engine's table `catalog` has a row for each collection and view: key = namespace, value = a BSON document, see
//! the file `row.rs`; and under the key `#` the next number. Collections and indexes are stored in tables with names
//! that are numbers, `c-<n>` and `i-<n>`, so that renaming changes one row. What a pipeline does not keep in memory is
//! in tables `s-<n>`, which are dropped at open.
//!
//! # Recovery
//! Tables are created before the row that names them, and dropped after it is gone. At open, tables that no row names
//! are dropped. A row changes in one transaction with what it describes, which has read it and checked that it is that
//! of the collection in hand (the file `row_change.rs`). A row that cannot be used is a damaged collection, and fails
//! nothing else (the file `damage.rs`).

pub mod apply;
pub mod capped;
mod clustered;
pub mod committer;
pub mod copy;
mod count_recovery;
mod counts;
pub mod damage;
mod drop_database;
pub mod expiry;
mod follow;
pub mod index_entry;
mod index_filters;
pub mod index_spec;
mod indexes;
mod latch;
mod load;
mod log_notes;
mod names;
pub mod namespace;
pub mod options;
pub mod own;
mod own_changes;
mod recent_states;
pub mod record;
pub mod registry;
mod row;
mod row_change;
mod same_index;
pub mod settle;
pub mod state;
pub mod tables;
pub mod uncommitted;

pub use apply::Agreed;
pub use capped::{Capped, CappedLimits, CappedLock, Holdings};
pub use committer::{Committer, MEMBER_TABLE, Pending, PreparedCommit, is_of_member};
pub use copy::{Copying, adopt};
pub use counts::CopiedCounts;
pub use damage::{Damage, DamagedIndex};
pub use index_filters::{IndexFilter, IndexFilters, NamedIndex};
pub use index_spec::{IndexChanges, IndexSpec, StorageSpec};
pub use indexes::Added;
pub use log_notes::{KnownSession, Since, UnknownCommits};
pub use names::Entry;
pub use namespace::Namespace;
pub use options::CollectionOptions;
pub use record::{Ahead, Past, Recorder, SessionListener};
pub use registry::Catalog;
pub use state::{AtRest, CollectionState, Index, IndexBuild, Schema, SchemaGuard, Uses};
