//! The table of the server's commands.

use spinney_document::bson::Kind;
use spinney_document::command::Privilege;
use spinney_document::command::commands as library;
use spinney_document::command::spec::{Field, FieldType, Target};

use super::spec::{Command, Run};
use super::{
    diagnostics, fail_point, handshake, legacy, merge, open_transaction, replica_change, replica_request, replica_set,
    roles, sasl, users,
};
use crate::peer::members;

const ANY: FieldType = FieldType::Any;

/// All commands of the server. Those about data are the library's.
static COMMANDS: [Command; 42] = [
    of_all(plain("hello", "Tells what the server is and can.", handshake::hello).any_fields()),
    of_all(
        plain("isMaster", "Tells what the server is and can, as older drivers ask.", handshake::hello)
            .aliases(&["ismaster"])
            .any_fields(),
    ),
    of_all(
        plain("getLastError", "Tells what the last write of the connection did.", legacy::get_last_error)
            .aliases(&["getlasterror"])
            .fields(&[
                Field::optional("w", ANY),
                Field::optional("j", ANY),
                Field::optional("fsync", ANY),
                Field::optional("wtimeout", ANY),
            ]),
    ),
    of_users(
        plain("replSetGetStatus", "Tells the state of the replica set.", replica_set::status)
            .fields(&[Field::optional("initialSync", ANY)])
            .needs(&[Privilege::on_cluster("replSetGetStatus")])
            .admin_only(),
    ),
    of_users(
        plain("replSetGetConfig", "Tells the configuration of the replica set.", replica_set::config)
            .fields(&[Field::optional("commitmentStatus", ANY)])
            .needs(&[Privilege::on_cluster("replSetGetConfig")])
            .admin_only(),
    ),
    of_users(
        plain("replSetInitiate", "Makes a replica set of members.", replica_change::initiate)
            .needs(&[Privilege::on_cluster("replSetConfigure")])
            .admin_only(),
    ),
    of_users(
        plain("replSetReconfig", "Changes the members of the replica set.", replica_change::reconfig)
            .fields(&[Field::optional("force", FieldType::Bool)])
            .needs(&[Privilege::on_cluster("replSetConfigure")])
            .admin_only(),
    ),
    of_users(
        plain("replSetStepDown", "Lets another member become the primary.", replica_change::step_down)
            .fields(&[
                Field::optional("force", FieldType::Bool),
                Field::optional("secondaryCatchUpPeriodSecs", FieldType::Long),
            ])
            .needs(&[Privilege::on_cluster("replSetStateChange")])
            .admin_only(),
    ),
    of_users(
        plain("replSetFreeze", "Keeps the member from becoming the primary.", replica_change::freeze)
            .needs(&[Privilege::on_cluster("replSetStateChange")])
            .admin_only(),
    ),
    of_users(
        plain(members::COMMAND, "Carries a request of another member.", replica_request::request)
            .fields(&[Field::required(members::PAYLOAD, FieldType::Documents)])
            .needs(&[Privilege::on_cluster("internal")])
            .admin_only(),
    ),
    of_users(
        plain(members::STREAM, "Lets a connection carry entries of the primary.", replica_request::stream)
            .needs(&[Privilege::on_cluster("internal")])
            .admin_only(),
    ),
    of_users(
        plain(members::READ_INDEX_COMMAND, "Tells another member what it has to apply.", replica_request::read_index)
            .fields(&[Field::optional(members::READ_TIME, FieldType::OneOf(&[Kind::Timestamp]))])
            .needs(&[Privilege::on_cluster("internal")])
            .admin_only(),
    ),
    of_users(
        plain("getCmdLineOpts", "Tells how the server was started.", diagnostics::command_line)
            .needs(&[Privilege::on_cluster("getCmdLineOpts")])
            .admin_only(),
    ),
    of_users(
        plain("dropConnections", "Closes connections to other servers, of which there are none.", diagnostics::drop)
            .fields(&[Field::required("hostAndPort", FieldType::Array)])
            .needs(&[Privilege::on_cluster("dropConnections")])
            .admin_only(),
    ),
    of_users(
        rotated("logRotate", "Begins another file of the log, which goes to standard error here.", diagnostics::rotate)
            .needs(&[Privilege::on_cluster("logRotate")])
            .admin_only(),
    ),
    of_users(
        plain("shutdown", "Ends the server.", diagnostics::shutdown)
            .fields(&[Field::optional("force", FieldType::Bool), Field::optional("timeoutSecs", FieldType::Long)])
            .needs(&[Privilege::on_cluster("shutdown")])
            .admin_only(),
    ),
    of_tests(
        named("configureFailPoint", "Lets commands fail on purpose.", fail_point::configure)
            .needs_login()
            .fields(&[Field::required("mode", ANY), Field::optional("data", FieldType::Object)])
            .admin_only(),
    ),
    of_all(plain("saslStart", "Begins to log in.", sasl::start).fields(&[
        Field::required("mechanism", FieldType::String),
        Field::required("payload", ANY),
        Field::optional("options", FieldType::Object),
        Field::optional("autoAuthorize", ANY),
        Field::optional("db", FieldType::String),
    ])),
    of_all(
        plain("saslContinue", "Goes on to log in.", sasl::continue_conversation)
            .fields(&[Field::required("conversationId", FieldType::Int), Field::required("payload", ANY)]),
    ),
    of_users(
        plain("beginTransaction", "Begins a transaction of the connection.", open_transaction::begin)
            .needs_login()
            .fields(&[Field::optional("isolation", FieldType::String)]),
    ),
    of_users(
        plain("rollbackTransaction", "Ends the connection's transaction.", open_transaction::roll_back).needs_login(),
    ),
    of_all(plain("authenticate", "Logs in by the certificate of the connection.", sasl::authenticate).any_fields()),
    of_all(plain("logout", "Logs the users of the database out.", sasl::logout)),
    of_all(
        plain("connectionStatus", "Tells who has logged in by the connection.", sasl::connection_status)
            .fields(&[Field::optional("showPrivileges", FieldType::Bool)]),
    ),
    of_users(
        named("createUser", "Creates a user.", users::create)
            .writes()
            .fields(&USER_FIELDS)
            .needs(&[Privilege::on_database("createUser")]),
    ),
    of_users(
        named("updateUser", "Changes a user.", users::update)
            .writes()
            .fields(&USER_FIELDS)
            .needs_by(users::update_needs),
    ),
    of_users(named("dropUser", "Drops a user.", users::remove).writes().needs(&[Privilege::on_database("dropUser")])),
    of_users(
        plain("dropAllUsersFromDatabase", "Drops all users of the database.", users::remove_all)
            .writes()
            .needs(&[Privilege::on_database("dropUser")]),
    ),
    of_users(
        plain("usersInfo", "Tells about users.", users::info)
            .fields(&[
                Field::optional("showCredentials", FieldType::Bool),
                Field::optional("showPrivileges", FieldType::Bool),
                Field::optional("showCustomData", FieldType::Bool),
                Field::optional("showAuthenticationRestrictions", FieldType::Bool),
                Field::optional("filter", FieldType::Object),
            ])
            .needs_by(users::info_needs),
    ),
    of_users(
        named("grantRolesToUser", "Gives a user more roles.", users::grant)
            .writes()
            .fields(&[Field::required("roles", FieldType::Array)])
            .needs(&[Privilege::on_database("grantRole")]),
    ),
    of_users(
        named("revokeRolesFromUser", "Takes roles from a user.", users::revoke)
            .writes()
            .fields(&[Field::required("roles", FieldType::Array)])
            .needs(&[Privilege::on_database("revokeRole")]),
    ),
    of_users(
        plain("rolesInfo", "Tells about roles.", roles::info)
            .fields(&[
                Field::optional("showPrivileges", ANY),
                Field::optional("showBuiltinRoles", FieldType::Bool),
                Field::optional("showAuthenticationRestrictions", FieldType::Bool),
            ])
            .needs_by(roles::info_needs),
    ),
    of_users(
        named("createRole", "Creates a role.", roles::create)
            .writes()
            .fields(&[
                Field::required("privileges", FieldType::Array),
                Field::required("roles", FieldType::Array),
                RESTRICTIONS,
            ])
            .needs(&[Privilege::on_database("createRole")]),
    ),
    of_users(
        named("updateRole", "Changes a role.", roles::update)
            .writes()
            .fields(&[
                Field::optional("privileges", FieldType::Array),
                Field::optional("roles", FieldType::Array),
                RESTRICTIONS,
            ])
            .needs(&[Privilege::on_database("revokeRole")]),
    ),
    of_users(named("dropRole", "Drops a role.", roles::remove).writes().needs(&[Privilege::on_database("dropRole")])),
    of_users(
        plain("dropAllRolesFromDatabase", "Drops all roles of the database that clients defined.", roles::remove_all)
            .writes()
            .needs(&[Privilege::on_database("dropRole")]),
    ),
    of_users(
        named("grantPrivilegesToRole", "Gives a role more privileges.", roles::grant_privileges)
            // It checks that the client may grant each of the privileges.
            .needs_login()
            .writes()
            .fields(&[Field::required("privileges", FieldType::Array)]),
    ),
    of_users(
        named("revokePrivilegesFromRole", "Takes privileges from a role.", roles::revoke_privileges)
            // As before.
            .needs_login()
            .writes()
            .fields(&[Field::required("privileges", FieldType::Array)]),
    ),
    of_users(
        named("grantRolesToRole", "Gives a role the privileges of other roles.", roles::grant_roles)
            .writes()
            .fields(&[Field::required("roles", FieldType::Array)])
            .needs(&[Privilege::on_database("grantRole")]),
    ),
    of_users(
        named("revokeRolesFromRole", "Takes the privileges of other roles from a role.", roles::revoke_roles)
            .writes()
            .fields(&[Field::required("roles", FieldType::Array)])
            .needs(&[Privilege::on_database("revokeRole")]),
    ),
    of_users(
        plain("_mergeAuthzCollections", "Takes in users and roles that a dump had.", merge::merge)
            .writes()
            .fields(&[
                Field::optional("tempUsersCollection", FieldType::String),
                Field::optional("tempRolesCollection", FieldType::String),
                Field::optional("db", FieldType::String),
                Field::optional("drop", FieldType::Bool),
            ])
            .needs_by(merge::needs)
            .admin_only(),
    ),
    of_users(
        plain(
            "invalidateUserCache",
            "Lets connections look at their roles again, such as after a dump was restored.",
            users::invalidate_cache,
        )
        .needs(&[Privilege::on_cluster("invalidateUserCache")])
        .admin_only(),
    ),
];

/// A command whose first field may be anything.
const fn plain(name: &'static str, help: &'static str, run: Run) -> library::Command<Run> {
    library::Command::with(name, Target::Value(&[]), help, run)
}

/// A command whose first field is a name.
const fn named(name: &'static str, help: &'static str, run: Run) -> library::Command<Run> {
    library::Command::with(name, Target::Value(&[Kind::String]), help, run)
}

/// A command whose first field tells which log is meant.
const fn rotated(name: &'static str, help: &'static str, run: Run) -> library::Command<Run> {
    const KINDS: &[Kind] = &[Kind::String, Kind::Bool, Kind::Int32, Kind::Int64, Kind::Double, Kind::Decimal128];
    library::Command::with(name, Target::Value(KINDS), help, run)
}

/// A command of users.
const fn of_users(command: library::Command<Run>) -> Command {
    Command { command, test_only: false }
}

/// A command for clients that have not logged in too.
const fn of_all(command: library::Command<Run>) -> Command {
    of_users(command.needs_nothing())
}

/// A command that only a server with test commands has.
const fn of_tests(command: library::Command<Run>) -> Command {
    Command { test_only: true, ..of_users(command) }
}

/// The fields of commands that make or change a user.
const USER_FIELDS: [Field; 6] = [
    Field::optional("pwd", FieldType::String),
    Field::optional("roles", FieldType::Array),
    Field::optional("customData", FieldType::Object),
    Field::optional("mechanisms", FieldType::Array),
    Field::optional("digestPassword", FieldType::Bool),
    RESTRICTIONS,
];

/// Restrictions by address.
const RESTRICTIONS: Field = Field::optional("authenticationRestrictions", FieldType::Array);

/// The command with a name, if the server has it.
#[must_use]
pub fn find(name: &str, test_commands: bool) -> Option<&'static Command> {
    all(test_commands).find(|command| command.is_called(name))
}

/// All commands of the server.
pub fn all(test_commands: bool) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |command| test_commands || !command.test_only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::command::Service;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_taken_twice_here_or_by_the_library() {
        let names = || {
            let declarations = all(true).map(Command::declaration);
            declarations.flat_map(|declared| declared.aliases.iter().copied().chain(std::iter::once(declared.name)))
        };
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
        assert!(all(true).all(|command| command.declaration().help.ends_with('.')));
        let dir = tempfile::tempdir().unwrap();
        let db = spinney_document::Database::open(dir.path().join("db"), spinney::Options::default()).unwrap();
        let service = Service::new(db);
        let both: Vec<_> = names().filter(|name| service.command(name).is_some()).collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
