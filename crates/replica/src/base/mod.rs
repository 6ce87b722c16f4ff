//! What the other layers and callers name: configuration, settings, status, errors, the way to other members, threads
//! that may block.

pub(crate) mod blocking;
pub(crate) mod caller;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod frames;
pub(crate) mod pipe;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod transport;
pub(crate) mod watched;
