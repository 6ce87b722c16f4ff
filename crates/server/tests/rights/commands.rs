//! The cases of commands: what each needs, written by hand.

use std::collections::BTreeSet;

use crate::model::Case;
use crate::roles::ROLES;
use crate::world::{World, is_refused};
use crate::{collections, reads, server};

/// All cases.
fn cases() -> impl Iterator<Item = &'static Case> {
    [reads::CASES, collections::CASES, server::CASES].into_iter().flatten()
}

#[test]
fn each_command_needs_what_its_row_says() {
    let mut world = World::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in cases() {
        for role in ROLES {
            let (reply, seen) = world.run(*role, case.database, case.command);
            let (allowed, refused) = (world.granted(*role).meet(&case.need), is_refused(&reply));
            let told = |what: &str| format!("{} of {}: {} on {}: {what}", role.1, role.0, case.command, case.database);
            if allowed == refused {
                wrong.push(told(if allowed { "is refused" } else { "is not refused" }));
            }
            wrong.extend(seen.iter().map(|what| told(what)));
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_command_has_a_case() {
    let mut world = World::new();
    let listed = world.root.ok("admin", r#"{"listCommands": 1}"#);
    let commands = listed.view().get("commands").unwrap().as_document().unwrap();
    let missing: Vec<_> = commands
        .elements()
        .map(|command| command.name.to_str_lossy().into_owned())
        .filter(|name| !cases().any(|case| case.name == name))
        .collect();
    assert!(missing.is_empty(), "commands without a case: {missing:?}");
    let known: BTreeSet<_> = commands.elements().map(|command| command.name.to_str_lossy().into_owned()).collect();
    assert!(cases().all(|case| known.contains(case.name)), "cases of commands that there are not");
}
