//! The tour of README.md: every command of its block, as it stands there and in its order.

use crate::support::Place;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The commands under "As a command", without those that install.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let (_, section) = text.split_once("\n## As a command\n").unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter(|line| !line.trim().is_empty());
    let (install, commands): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("cargo install"));
    assert_eq!(install.len(), 1, "{block}");
    commands.into_iter().map(str::to_owned).collect()
}

/// What a command of the tour must print, by its verb.
fn shows(verb: &str, said: &str) -> bool {
    let lines = said.lines().count();
    match verb {
        "load" => said.starts_with("loaded 313 rows"),
        "get" => said.starts_with('{') || said.trim().parse::<i64>().is_ok_and(|number| number > 0),
        "scan" => lines == 5,
        "count" | "shell" => said.trim().parse::<u64>().is_ok_and(|count| count > 0),
        "log" => lines > 2,
        "tables" => lines > 2 && said.contains("packages") && said.contains("merge=add"),
        "shape" => said.contains('█') && said.contains("run"),
        "stat" => lines > 20,
        "verify" => !said.is_empty() && !said.contains(" 0 entries"),
        "doc" => ["imported 313", "index section_1", "{\"_id\"", "IXSCAN", "shop.packages"]
            .iter()
            .any(|what| said.contains(what)),
        "dump" => said.is_empty() || said.starts_with("key,value\r\nfront-page,1\r\n"),
        "restore" => said.starts_with("restored 3 tables: 627 entries"),
        "salvage" => said.contains("packages") && said.contains("313"),
        "checkpoint" => said.is_empty() || said.contains("0 copied"),
        "create" | "put" | "merge" | "flush" | "compact" => said.is_empty(),
        _ => false,
    }
}

#[test]
fn the_tour_of_the_readme_runs_as_typed_and_every_command_shows_something() {
    let place = Place::new();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata"), place.path("testdata")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_spinney")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let commands = commands();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in &commands {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]).current_dir(place.path("")).env("PATH", &path);
        let output = shell.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let verb = command.split_once("spinney ").and_then(|(_, rest)| rest.split(' ').next());
        assert!(verb.is_some_and(|verb| shows(verb, &said)), "{command}: {said}");
    }
}
