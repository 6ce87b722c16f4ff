//! The table of the server's commands.

use spinney_document::bson::Kind;
use spinney_document::command::Privilege;
use spinney_document::command::spec::{Field, FieldType};

use super::spec::Command;
use super::{diagnostics, fail_point, handshake, legacy, parameters, replica_set};

const ANY: FieldType = FieldType::Any;

/// All commands of the server. Those about data are the library's.
static COMMANDS: [Command; 13] = [
    Command::new("hello", "Tells what the server is and can.", handshake::hello).before_login().lenient(),
    Command::new("isMaster", "Tells what the server is and can, as older drivers ask.", handshake::hello)
        .aliases(&["ismaster"])
        .before_login()
        .lenient(),
    Command::new("whatsmyuri", "Tells the client's address.", diagnostics::whatsmyuri).before_login(),
    Command::new("getLastError", "Tells what the last write of the connection did.", legacy::get_last_error)
        .aliases(&["getlasterror"])
        .fields(&[
            Field::optional("w", ANY),
            Field::optional("j", ANY),
            Field::optional("fsync", ANY),
            Field::optional("wtimeout", ANY),
        ])
        .before_login(),
    Command::new("replSetGetStatus", "Tells the state of the replica set.", replica_set::status)
        .fields(&[Field::optional("initialSync", ANY)])
        .needs(&[Privilege::on_cluster("replSetGetStatus")])
        .admin_only(),
    Command::new("replSetGetConfig", "Tells the configuration of the replica set.", replica_set::config)
        .fields(&[Field::optional("commitmentStatus", ANY)])
        .needs(&[Privilege::on_cluster("replSetGetConfig")])
        .admin_only(),
    Command::new("hostInfo", "Tells what machine this is.", diagnostics::host_info)
        .needs(&[Privilege::on_cluster("hostInfo")]),
    Command::new("getCmdLineOpts", "Tells how the server was started.", diagnostics::command_line)
        .needs(&[Privilege::on_cluster("getCmdLineOpts")])
        .admin_only(),
    Command::new("getLog", "Tells recent events.", diagnostics::get_log)
        .of(&[Kind::String])
        .needs(&[Privilege::on_cluster("getLog")])
        .admin_only(),
    Command::new("shutdown", "Ends the server.", diagnostics::shutdown)
        .fields(&[Field::optional("force", FieldType::Bool), Field::optional("timeoutSecs", FieldType::Long)])
        .needs(&[Privilege::on_cluster("shutdown")])
        .admin_only(),
    Command::new("getParameter", "Tells the values of parameters.", parameters::get)
        .lenient()
        .needs(&[Privilege::on_cluster("getParameter")])
        .admin_only(),
    Command::new("setParameter", "Changes a parameter.", parameters::set)
        .lenient()
        .needs(&[Privilege::on_cluster("setParameter")])
        .admin_only(),
    Command::new("configureFailPoint", "Lets commands fail on purpose.", fail_point::configure)
        .of(&[Kind::String])
        .fields(&[Field::required("mode", ANY), Field::optional("data", FieldType::Object)])
        .admin_only()
        .test_only(),
];

/// The command with a name, if the server has it.
#[must_use]
pub fn find(name: &str, test_commands: bool) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.is_called(name) && (test_commands || !command.test_only))
}

/// All commands of the server.
#[must_use]
pub fn all() -> &'static [Command] {
    &COMMANDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::command::Service;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_taken_twice_here_or_by_the_library() {
        let names = || {
            let declarations = all().iter().map(|command| command.declaration);
            declarations.flat_map(|declared| declared.aliases.iter().copied().chain(std::iter::once(declared.name)))
        };
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
        assert!(all().iter().all(|command| command.declaration.help.ends_with('.')));
        let dir = tempfile::tempdir().unwrap();
        let db = spinney_document::Database::open(dir.path().join("db"), spinney::Options::default()).unwrap();
        let service = Service::new(db);
        let both: Vec<_> = names().filter(|name| service.command(name).is_some()).collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
