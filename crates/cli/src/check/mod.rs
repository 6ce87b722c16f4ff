//! Documents of a database, compared with their indexes: by `verify --documents`, and after a salvage.

pub(crate) mod documents;
pub(crate) mod mended;
