//! The manifest: the durable record of which tables, runs and roots make up the database.
//!
//! # Recovery
//! The copy is written after the manifest: its first record is durable before `CURRENT` names the manifest; each later
//! one is written when it is durable in the manifest, without a sync of its own. So a record of the copy is one of the
//! manifest, always; a power failure may cost the copy its last records. No write depends on the copy: when one to it
//! fails, there is none until the next manifest. A damaged record is read from the copy by a salvage
//! ([`Manifest::load_damaged`]). An open refuses it, as it refuses a last record that is damaged in the manifest and
//! whole in the copy: without a copy that would be taken for a torn tail.
//!
//! Each frame is durable before the change that it describes is used, so a frame that is torn at the end of the file
//! was never relied on and ends the manifest. A bad frame with a good one after it is corruption. The good one is
//! looked for at every offset: the length's own checksum tells in a few bytes where none begins, so that the search
//! takes time in proportion to the file. A manifest is never appended to after a crash: each open writes a new one and
//! switches `CURRENT` to it by write, sync, rename, sync of the directory.

mod current;
mod format;
mod load;
mod writer;

pub use format::FORMAT_VERSION;
pub use load::{LoadedManifest, ManifestDamage};
pub use writer::{Manifest, RESERVE_BYTES};
