//! Commands about the commands themselves: `ping`, `listCommands`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::spec::Target;
use crate::base::Result;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("ping", Target::Value(&[]), "Answers.", ping).needs_nothing().stable(),
    Command::new("listCommands", Target::Value(&[]), "Tells which commands there are.", list_commands)
        .any_fields()
        .needs_nothing(),
];

fn ping(_call: &Call<'_>) -> Result<Reply> {
    Ok(Reply::new())
}

fn list_commands(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    reply.open_document("commands");
    let mut all = call.table.all();
    all.extend(call.state.others.get().into_iter().flatten().copied());
    all.sort_by_key(|command| command.name);
    for command in all {
        reply.open_document(command.name).append("help", command.help);
        if !command.aliases.is_empty() {
            reply.open_array("aliases");
            command.aliases.iter().for_each(|alias| {
                reply.push(*alias);
            });
            reply.close();
        }
        reply.append("requiresAuth", !command.before_login);
        reply.append("secondaryOk", false).append("adminOnly", !command.everywhere);
        reply.open_array("apiVersions");
        if command.stable {
            reply.push("1");
        }
        reply.close().open_array("deprecatedApiVersions").close().close();
    }
    reply.close();
    Ok(reply)
}
