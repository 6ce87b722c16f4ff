//! The table of the server's commands.

use spinney_document::bson::Kind;
use spinney_document::command::Privilege;
use spinney_document::command::spec::{Field, FieldType};

use super::spec::Command;
use super::{diagnostics, fail_point, handshake, legacy, open_transaction, replica_set, sasl, users};

const ANY: FieldType = FieldType::Any;

/// All commands of the server. Those about data are the library's.
static COMMANDS: [Command; 31] = [
    Command::new("hello", "Tells what the server is and can.", handshake::hello).before_login().lenient(),
    Command::new("isMaster", "Tells what the server is and can, as older drivers ask.", handshake::hello)
        .aliases(&["ismaster"])
        .before_login()
        .lenient(),
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
    Command::new("getCmdLineOpts", "Tells how the server was started.", diagnostics::command_line)
        .needs(&[Privilege::on_cluster("getCmdLineOpts")])
        .admin_only(),
    Command::new("shutdown", "Ends the server.", diagnostics::shutdown)
        .fields(&[Field::optional("force", FieldType::Bool), Field::optional("timeoutSecs", FieldType::Long)])
        .needs(&[Privilege::on_cluster("shutdown")])
        .admin_only(),
    Command::new("configureFailPoint", "Lets commands fail on purpose.", fail_point::configure)
        .of(&[Kind::String])
        .fields(&[Field::required("mode", ANY), Field::optional("data", FieldType::Object)])
        .admin_only()
        .test_only(),
    Command::new("saslStart", "Begins to log in.", sasl::start)
        .fields(&[
            Field::required("mechanism", FieldType::String),
            Field::required("payload", ANY),
            Field::optional("options", FieldType::Object),
            Field::optional("autoAuthorize", ANY),
            Field::optional("db", FieldType::String),
        ])
        .before_login(),
    Command::new("saslContinue", "Goes on to log in.", sasl::continue_conversation)
        .fields(&[Field::required("conversationId", FieldType::Int), Field::required("payload", ANY)])
        .before_login(),
    Command::new("beginTransaction", "Begins a transaction of the connection.", open_transaction::begin)
        .fields(&[Field::optional("isolation", FieldType::String)]),
    Command::new("rollbackTransaction", "Ends the connection's transaction.", open_transaction::roll_back),
    Command::new("authenticate", "Logs in by a mechanism of one step, of which there is none.", sasl::authenticate)
        .lenient()
        .before_login(),
    Command::new("logout", "Logs the users of the database out.", sasl::logout).before_login(),
    Command::new("connectionStatus", "Tells who has logged in by the connection.", sasl::connection_status)
        .fields(&[Field::optional("showPrivileges", FieldType::Bool)])
        .before_login(),
    Command::new("createUser", "Creates a user.", users::create)
        .of(&[Kind::String])
        .fields(&USER_FIELDS)
        .needs(&[Privilege::on_database("createUser")]),
    Command::new("updateUser", "Changes a user.", users::update)
        .of(&[Kind::String])
        .fields(&USER_FIELDS)
        .needs(&[Privilege::on_database("changePassword"), Privilege::on_database("changeCustomData")]),
    Command::new("dropUser", "Drops a user.", users::remove)
        .of(&[Kind::String])
        .needs(&[Privilege::on_database("dropUser")]),
    Command::new("dropAllUsersFromDatabase", "Drops all users of the database.", users::remove_all)
        .needs(&[Privilege::on_database("dropUser")]),
    Command::new("usersInfo", "Tells about users.", users::info)
        .fields(&[
            Field::optional("showCredentials", FieldType::Bool),
            Field::optional("showPrivileges", FieldType::Bool),
            Field::optional("showCustomData", FieldType::Bool),
            Field::optional("showAuthenticationRestrictions", FieldType::Bool),
            Field::optional("filter", FieldType::Object),
        ])
        .needs(&[Privilege::on_database("viewUser")]),
    Command::new("grantRolesToUser", "Gives a user more roles.", users::grant)
        .of(&[Kind::String])
        .fields(&[Field::required("roles", FieldType::Array)])
        .needs(&[Privilege::on_database("grantRole")]),
    Command::new("revokeRolesFromUser", "Takes roles from a user.", users::revoke)
        .of(&[Kind::String])
        .fields(&[Field::required("roles", FieldType::Array)])
        .needs(&[Privilege::on_database("revokeRole")]),
    Command::new("rolesInfo", "Tells about roles.", users::roles_info)
        .fields(&[
            Field::optional("showPrivileges", FieldType::Bool),
            Field::optional("showBuiltinRoles", FieldType::Bool),
            Field::optional("showAuthenticationRestrictions", FieldType::Bool),
        ])
        .needs(&[Privilege::on_database("viewRole")]),
    no_own_roles("createRole"),
    no_own_roles("updateRole"),
    no_own_roles("dropRole"),
    no_own_roles("dropAllRolesFromDatabase"),
    no_own_roles("grantPrivilegesToRole"),
    no_own_roles("revokePrivilegesFromRole"),
    no_own_roles("grantRolesToRole"),
    no_own_roles("revokeRolesFromRole"),
];

/// The fields of commands that make or change a user.
const USER_FIELDS: [Field; 6] = [
    Field::optional("pwd", FieldType::String),
    Field::optional("roles", FieldType::Array),
    Field::optional("customData", FieldType::Object),
    Field::optional("mechanisms", FieldType::Array),
    Field::optional("digestPassword", FieldType::Bool),
    Field::optional("authenticationRestrictions", FieldType::Array),
];

/// A command about roles that clients define.
const fn no_own_roles(name: &'static str) -> Command {
    Command::new(name, "Refused: roles are the built-in ones.", users::no_own_roles).lenient().needs(OWN_ROLES)
}

/// What such a command would need.
const OWN_ROLES: &[Privilege] = &[Privilege::on_database("createRole")];

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
