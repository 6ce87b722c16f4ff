//! The table of the server's commands.

use super::spec::{Command, Needs};
use super::{diagnostics, handshake, legacy, replica_set};

/// All commands of the server. Those about data are the library's.
static COMMANDS: [Command; 10] = [
    Command::new("hello", "Tells what the server is and can.", handshake::hello).needs(Needs::Nothing),
    Command::new("isMaster", "Tells what the server is and can, as older drivers ask.", handshake::hello)
        .aliases(&["ismaster"])
        .needs(Needs::Nothing),
    Command::new("whatsmyuri", "Tells the client's address.", diagnostics::whatsmyuri).needs(Needs::Nothing),
    Command::new("getLastError", "Tells what the last write of the connection did.", legacy::get_last_error)
        .aliases(&["getlasterror"])
        .needs(Needs::Nothing),
    Command::new("replSetGetStatus", "Tells the state of the replica set.", replica_set::status)
        .needs(Needs::Cluster("replSetGetStatus"))
        .admin_only(),
    Command::new("replSetGetConfig", "Tells the configuration of the replica set.", replica_set::config)
        .needs(Needs::Cluster("replSetGetConfig"))
        .admin_only(),
    Command::new("hostInfo", "Tells what machine this is.", diagnostics::host_info)
        .needs(Needs::Cluster("hostInfo"))
        .admin_only(),
    Command::new("getCmdLineOpts", "Tells how the server was started.", diagnostics::command_line)
        .needs(Needs::Cluster("getCmdLineOpts"))
        .admin_only(),
    Command::new("getLog", "Tells recent events.", diagnostics::get_log).needs(Needs::Cluster("getLog")).admin_only(),
    Command::new("shutdown", "Ends the server.", diagnostics::shutdown).needs(Needs::Cluster("shutdown")).admin_only(),
];

/// The command with a name, if the server has it.
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.is_called(name))
}

/// All commands of the server.
#[must_use]
pub fn all() -> &'static [Command] {
    &COMMANDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_taken_twice() {
        let names = || all().iter().flat_map(|command| command.aliases.iter().chain(std::iter::once(&command.name)));
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
        assert!(all().iter().all(|command| command.help.ends_with('.')));
    }
}
