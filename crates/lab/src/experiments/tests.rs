//! What the tests of all experiments need.

use crate::command::Common;
use crate::driver::Compression;

/// The arguments that all experiments take, as they are unless asked otherwise.
pub(super) fn common() -> Common {
    Common {
        engines: Vec::new(),
        durability: None,
        interval: 100,
        compression: Compression::None,
        direct_io: true,
        background_threads: 2,
        memory_limit: None,
        seed: 1,
        verify: false,
    }
}
