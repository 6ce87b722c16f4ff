//! What the connections of a server share, each part guarding its own.

pub mod accounts;
pub mod auth_schema;
pub mod catch_up;
pub mod connections;
pub mod counters;
pub mod ending;
pub mod fail_points;
pub mod history;
pub mod message_memory;
pub mod records;
pub mod replica;
pub mod server;
pub mod settings;
pub mod topology;

pub use message_memory::MessageMemory;
pub use replica::{Replica, Standing};
pub use server::Server;
pub use settings::Settings;
