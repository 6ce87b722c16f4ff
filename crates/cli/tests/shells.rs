//! What shells and `man` get.

use crate::support::Place;

/// What bash is offered for the last of the words.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let mut args = vec!["--", "spinney"];
    args.extend_from_slice(words);
    let mut command = place.command(&args);
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("IFS", "\n");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn commands_databases_tables_and_collections_are_completed() {
    let place = Place::loaded("lsm");
    assert_eq!(offered(&place, &["sca"]), ["scan"]);
    assert_eq!(offered(&place, &["scan", "d"]), ["db/"]);
    place.ok(&["create", "db", "pictures"]);
    assert_eq!(offered(&place, &["scan", "db", "p"]), ["packages", "pictures"]);
    assert_eq!(offered(&place, &["dump", "db", "packages", "pi"]), ["pictures"]);
    let json = place.path("two.jsonl");
    std::fs::write(&json, "{\"_id\": 1}\n{\"_id\": 2}\n").unwrap();
    place.ok(&["doc", "import", "shop", "shop.orders", json.to_str().unwrap()]);
    assert_eq!(offered(&place, &["doc", "find", "shop", "shop.o"]), ["shop.orders"]);
    // Nothing is made, and nothing fails, where there is no database.
    assert!(offered(&place, &["scan", "none", "p"]).is_empty() && !place.path("none").exists());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.ok(&["completions", shell]).contains("COMPLETE"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let place = Place::new();
    place.ok(&["man", "pages"]);
    let page = std::fs::read_to_string(place.path("pages/spinney-scan.1")).unwrap();
    assert!(page.contains("spinney\\-scan") && page.contains("Examples"), "{page}");
    for name in ["spinney.1", "spinney-doc-find.1", "spinney-serve.1", "spinney-bench-kv.1"] {
        assert!(place.path("pages").join(name).exists(), "{name}");
    }
}
