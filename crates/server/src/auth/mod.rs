//! Who clients are and what they may do: SCRAM, users, roles. No socket and no storage.

pub mod credentials;
pub mod roles;
pub mod scram;
pub mod user;

pub use credentials::{Credential, Mechanism};
pub use user::{RoleName, User};
