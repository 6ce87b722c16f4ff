//! Who clients are and what they may do: SCRAM, users, privileges, roles. No socket and no storage.

pub mod actions;
pub mod credentials;
pub mod key_file;
pub mod privilege;
pub mod role;
pub mod roles;
pub mod scram;
pub mod scram_client;
pub mod user;
pub mod x509;

pub use credentials::{Credential, Mechanism};
pub use key_file::MemberKey;
pub use privilege::{Privileges, Resource, Target};
pub use role::Role;
pub use user::{RoleName, User};
