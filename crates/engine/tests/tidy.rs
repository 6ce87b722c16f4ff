//! Code that checks code: the rules of the house that neither the compiler nor clippy can hold.
//!
//! Each rule is a test of its own and prints every violation as `file:line: what and why`. The rules look at a file's
//! text with comments and string literals blanked out ([`Source::code`]), so a word in prose never counts as code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers of the engine, bottom first: a file imports only from its own layer and from layers before it.
const LAYERS: [&str; 10] = ["base", "env", "log", "block", "store", "cache", "tree", "table", "txn", "db"];

/// The layers of `db`, bottom first.
const DB_LAYERS: [&str; 7] = ["state", "throttle", "commit", "jobs", "maintenance", "open", "api"];

/// The layers of the document database, bottom first.
const DOCUMENT_LAYERS: [&str; 23] = [
    "base",
    "bson",
    "collation",
    "keys",
    "path",
    "pattern",
    "expr",
    "query",
    "projection",
    "aggregate",
    "update",
    "notes",
    "catalog",
    "plan",
    "exec",
    "collection",
    "pipeline",
    "database",
    "repair",
    "session",
    "changes",
    "typed",
    "command",
];

/// The layers of the server, bottom first.
const SERVER_LAYERS: [&str; 8] = ["base", "auth", "socket", "peer", "state", "command", "connection", "listen"];

/// The layers of replication, bottom first.
const REPLICA_LAYERS: [&str; 5] = ["base", "entry", "storage", "raft", "node"];

/// Where `unsafe` may be written, as prefixes of paths from the root of the repository.
const UNSAFE: [&str; 11] = [
    "crates/engine/src/base/memory/",
    "crates/engine/src/base/prefetch.rs",
    "crates/engine/src/env/buffer.rs",
    "crates/engine/src/env/os/",
    "crates/engine/src/tree/memtable/",
    // Allocators that count.
    "crates/document/tests/fuzz/memory.rs",
    "crates/engine/tests/damage/memory.rs",
    // It forks.
    "crates/engine/tests/fork.rs",
    // Bindings to engines written in C.
    "peers/",
    // The interface for C.
    "c/src/",
    "c/benches/",
];

/// Columns of a line of comment; `rustfmt` cares for code.
const COLUMNS_MAX: usize = 120;

/// The longest source file in lines.
const LINES_MAX: usize = 800;

/// The longest file of tests or benches in lines.
const TEST_LINES_MAX: usize = 1000;

/// The longest test module inside a source file in lines.
const TEST_MODULE_LINES_MAX: usize = 250;

/// Notes to oneself that must not be committed. (In pieces, so that this file does not break its own rule.)
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Paths that exist on somebody's machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Directories that hold no text of ours.
const SKIPPED: [&str; 4] = ["target", ".git", "corpus", "artifacts"];

// ---------------------------------------------------------------------------------------------------------------------
// The rules.

#[test]
fn imports_point_only_to_lower_layers() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        let Some(layer) = source.layer() else { continue };
        for (line, name) in source.crate_paths() {
            match LAYERS.iter().position(|known| *known == name) {
                None => found.add(&source, line, &format!("`crate::{name}` is no layer: name the layer it comes from")),
                Some(other) if other > layer => found.add(
                    &source,
                    line,
                    &format!("`{}` must not know `{name}`, which is a layer above it", LAYERS[layer]),
                ),
                Some(_) => {}
            }
        }
    }
    found.none();
}

#[test]
fn imports_within_db_point_only_to_lower_layers() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        let Some(layer) = source.layer_within("crates/engine/src/db", &DB_LAYERS) else { continue };
        for (line, path) in source.absolute_paths(&source.module().expect("a source is a module").1) {
            let [_, name, ..] = &path[..] else { continue };
            let other = DB_LAYERS.iter().position(|known| known == name).filter(|_| path[0] == "db");
            if other.is_some_and(|other| other > layer) {
                let what = format!("`{}` must not know `{name}`, which is a layer above it", DB_LAYERS[layer]);
                found.add(&source, line, &what);
            }
        }
    }
    found.none();
}

#[test]
fn imports_within_the_document_database_and_the_server_point_only_to_lower_layers() {
    let mut found = Complaints::default();
    let crates = [
        ("crates/document/src", &DOCUMENT_LAYERS[..]),
        ("crates/replica/src", &REPLICA_LAYERS),
        ("crates/server/src", &SERVER_LAYERS),
    ];
    for (root, layers) in crates {
        for source in rust_sources() {
            let Some(layer) = source.layer_within(root, layers) else { continue };
            for (line, path) in source.absolute_paths(&source.module().expect("a source is a module").1) {
                let other = layers.iter().position(|known| path.first().is_some_and(|name| name == known));
                if let Some(other) = other.filter(|other| *other > layer) {
                    let (name, other) = (layers[layer], layers[other]);
                    found.add(&source, line, &format!("`{name}` must not know `{other}`, which is a layer above it"));
                }
            }
        }
    }
    found.none();
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = Complaints::default();
    let sources: Vec<_> = rust_sources().collect();
    for (source, line, what) in imports_in_circles(&sources) {
        found.add(source, line, &what);
    }
    found.none();
}

#[test]
fn every_folder_is_a_layer() {
    for (path, layers) in [
        ("crates/engine/src", &LAYERS[..]),
        ("crates/engine/src/db", &DB_LAYERS),
        ("crates/document/src", &DOCUMENT_LAYERS),
        ("crates/server/src", &SERVER_LAYERS),
    ] {
        let folders = children(&root().join(path)).into_iter().filter(|path| path.is_dir());
        let mut folders: Vec<_> = folders.map(|path| name_of(&path)).filter(|name| name != "tests").collect();
        folders.sort();
        let mut layers: Vec<_> = layers.iter().map(|layer| (*layer).to_owned()).collect();
        layers.sort();
        assert_eq!(folders, layers, "{path}: its folders are not the layers");
    }
}

#[test]
fn every_file_begins_with_a_header() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        let paragraph: Vec<_> = source.text.lines().map_while(|line| line.strip_prefix("//! ")).collect();
        if !paragraph.last().is_some_and(|line| line.ends_with('.')) {
            found.add(&source, 1, "must begin with `//!` and a sentence that says what the file is");
        }
    }
    found.none();
}

#[test]
fn files_are_short() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        let (lines, max) = (source.text.lines().count(), if source.is_test() { TEST_LINES_MAX } else { LINES_MAX });
        if lines > max {
            found.add(&source, lines, &format!("{lines} lines, and {max} is the limit: look for the second noun"));
        }
        for (from, to) in source.test_items() {
            if to - from > TEST_MODULE_LINES_MAX {
                let what = format!(
                    "{} lines of tests in the file, and {TEST_MODULE_LINES_MAX} is the limit: give them a `tests.rs`",
                    to - from
                );
                found.add(&source, from, &what);
            }
        }
    }
    found.none();
}

#[test]
fn comments_are_no_wider_than_code() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        let wide = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX;
        for (number, _) in (1..).zip(source.text.lines()).filter(|(_, line)| wide(line)) {
            found.add(&source, number, "wrap the comment");
        }
    }
    found.none();
}

#[test]
fn every_file_belongs_to_a_module() {
    let mut found = Complaints::default();
    let sources: Vec<_> = rust_sources().collect();
    for source in &sources {
        let Some((parent, module)) = source.declared_by() else { continue };
        let declared = sources.iter().any(|other| {
            other.path == parent
                && word_positions(&other.code, "mod").any(|at| is_declaration(&other.code[at..], &module))
        });
        if !declared {
            found.add(source, 1, &format!("dead file: no `mod {module};` in {}", parent.display()));
        }
    }
    found.none();
}

#[test]
fn a_module_is_a_file_or_a_folder_but_not_both() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        if root().join(source.path.with_extension("")).is_dir() && !source.is_test_root() {
            found.add(&source, 1, "stands beside a folder of its name: it should be the `mod.rs` in there");
        }
    }
    found.none();
}

#[test]
fn unsafe_stays_in_the_files_that_may_have_it() {
    let mut found = Complaints::default();
    for source in rust_sources() {
        if UNSAFE.iter().any(|prefix| source.path.starts_with(prefix)) {
            continue;
        }
        for at in word_positions(&source.code, "unsafe") {
            found.add(
                &source,
                source.line_of(at),
                "`unsafe` outside of the files that may have it (see UNSAFE in tidy.rs)",
            );
        }
    }
    found.none();
}

#[test]
fn no_notes_to_oneself_and_no_paths_of_a_machine() {
    let mut found = Complaints::default();
    for source in texts() {
        for (index, line) in source.text.lines().enumerate() {
            for note in NOTES {
                if word_positions(line, note).next().is_some() {
                    found.add(&source, index + 1, &format!("`{note}`: do it, or write it down as a decision"));
                }
            }
            for path in MACHINE_PATHS {
                if line.contains(path) && !line.contains("://") {
                    found.add(&source, index + 1, &format!("`{path}` exists on one machine only"));
                }
            }
        }
    }
    found.none();
}

// ---------------------------------------------------------------------------------------------------------------------
// The rules' own tests.

#[test]
fn comments_strings_and_characters_are_not_code() {
    let text = r##"let a = "un\"safe"; // unsafe
/* unsafe /* nested */ unsafe */ let b = r#"unsafe "q" "#; let c = '"'; fn f<'a>(x: &'a str) {} let d = b'\''; unsafe {}"##;
    let code = code_of(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(word_positions(&code, "unsafe").count(), 1, "{code}");
    assert!(code.contains("fn f<'a>(x: &'a str) {}"));
    assert_eq!(code.lines().count(), 2);
}

#[test]
fn every_way_to_name_a_layer_is_seen() {
    let text = "use crate::{base::Key, env::{File, Env}, db};\nuse super::super::log::Writer;\nuse super::x::Y;\n\
                fn f() { crate::txn::g() }\n#[cfg(test)]\nmod tests { use crate::db::Z; }\n";
    let source = Source::new(PathBuf::from("crates/engine/src/tree/run/leaf.rs"), text.to_owned());
    let names: Vec<_> = source.crate_paths().into_iter().map(|(line, name)| format!("{line} {name}")).collect();
    assert_eq!(names, ["1 base", "1 env", "1 db", "4 txn"]);
    let source = Source::new(PathBuf::from("crates/engine/src/tree/merge.rs"), text.to_owned());
    let names: Vec<_> = source.crate_paths().into_iter().map(|(line, name)| format!("{line} {name}")).collect();
    assert_eq!(names, ["1 base", "1 env", "1 db", "2 log", "4 txn"]);
}

/// The edges of the circles of a crate with these files.
fn edges_of_circles(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files
        .iter()
        .map(|(path, text)| Source::new(PathBuf::from(format!("crates/a/src/{path}")), (*text).to_owned()))
        .collect();
    let found = imports_in_circles(&sources);
    let name = |path: &Path| path.strip_prefix("crates/a/src").expect("all lie there").display().to_string();
    found.into_iter().map(|(source, line, what)| format!("{}:{line} {what}", name(&source.path))).collect()
}

#[test]
fn a_circle_is_found_however_its_imports_are_written() {
    let root = ("lib.rs", "mod x;\nmod y;\npub use x::A;\n");
    // Through the re-export of the folder.
    let found = edges_of_circles(&[
        root,
        ("x/mod.rs", "mod a;\nmod b;\npub use a::A;\n"),
        ("x/a.rs", "pub struct A;\n"),
        ("x/b.rs", "use super::A;\n"),
        ("y.rs", "use crate::x::A;\n"),
    ]);
    assert_eq!(
        found,
        [
            "x/b.rs:1 imports crates/a/src/x/mod.rs, in a circle of 2 files",
            "x/mod.rs:2 imports crates/a/src/x/b.rs, in a circle of 2 files"
        ]
    );
    // Through `super::super` and a path within an expression.
    let found = edges_of_circles(&[
        root,
        ("x/mod.rs", "mod a;\n"),
        ("x/a.rs", "use super::super::y::Y;\n"),
        ("y.rs", "pub struct Y;\nfn f() {\n    crate::x::a::g::<Y>(1);\n}\n"),
    ]);
    assert_eq!(
        found,
        [
            "x/a.rs:1 imports crates/a/src/y.rs, in a circle of 2 files",
            "y.rs:3 imports crates/a/src/x/a.rs, in a circle of 2 files"
        ]
    );
    // Through groups within groups, a glob, and a module within the file.
    let found = edges_of_circles(&[
        root,
        ("x/mod.rs", "mod a;\nmod b;\nmod c;\n"),
        ("x/a.rs", "use crate::{\n    y::Y,\n    x::{self as up, b::{B, C}},\n};\n"),
        ("x/b.rs", "use super::{super::y, c::*};\n"),
        ("x/c.rs", "mod inner {\n    use super::super::a::A;\n    use super::C;\n}\n"),
        ("y.rs", ""),
    ]);
    let edges: Vec<_> = found.iter().filter_map(|edge| edge.strip_suffix(", in a circle of 4 files")).collect();
    assert_eq!(
        edges,
        [
            "x/a.rs:3 imports crates/a/src/x/b.rs",
            "x/a.rs:3 imports crates/a/src/x/mod.rs",
            "x/b.rs:1 imports crates/a/src/x/c.rs",
            "x/c.rs:2 imports crates/a/src/x/a.rs",
            "x/mod.rs:1 imports crates/a/src/x/a.rs",
            "x/mod.rs:2 imports crates/a/src/x/b.rs",
            "x/mod.rs:3 imports crates/a/src/x/c.rs",
        ]
    );
}

#[test]
fn siblings_tests_and_visibilities_make_no_circle() {
    let found = edges_of_circles(&[
        ("lib.rs", "mod x;\n#[cfg(test)]\nmod model;\npub use x::A;\n"),
        ("model.rs", "use crate::A;\n"),
        ("x/mod.rs", "mod a;\nmod b;\n#[cfg(all(test, shuttle))]\nmod s;\n#[cfg(test)]\nmod tests;\npub use a::A;\n"),
        ("x/a.rs", "pub(in crate::x) struct A;\n#[cfg(test)]\nmod tests { use super::super::b::B; }\n"),
        ("x/b.rs", "// use super::A;\nuse super::a::A;\nimpl A { fn f(&self) { self::g() } }\n"),
        ("x/s.rs", "use super::A;\n"),
        ("x/tests.rs", "use super::*;\n"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_module_is_declared_by_the_file_above_it() {
    let parent = |path: &str| {
        let source = Source::new(PathBuf::from(path), String::new());
        source.declared_by().map(|(parent, module)| format!("{} {module}", parent.display()))
    };
    assert_eq!(parent("crates/a/src/lib.rs"), None);
    assert_eq!(parent("crates/a/tests/x.rs"), None);
    assert_eq!(parent("crates/a/src/x/y.rs").as_deref(), Some("crates/a/src/x/mod.rs y"));
    assert_eq!(parent("crates/a/src/x/mod.rs").as_deref(), Some("crates/a/src/lib.rs x"));
    assert_eq!(parent("xtask/src/x.rs").as_deref(), Some("xtask/src/main.rs x"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading the repository.

/// A text file of the repository.
struct Source {
    /// From the root of the repository.
    path: PathBuf,
    text: String,
    /// The text with comments, strings and characters blanked out, byte for byte; empty when the file is not Rust.
    code: String,
}

impl Source {
    fn new(path: PathBuf, text: String) -> Self {
        let code = if path.extension().is_some_and(|ext| ext == "rs") { code_of(&text) } else { String::new() };
        Self { path, text, code }
    }

    /// The position in [`LAYERS`] of an engine source that is not a test.
    fn layer(&self) -> Option<usize> {
        self.layer_within("crates/engine/src", &LAYERS)
    }

    /// The position in `layers` of a source in one of these folders of `root`, if it is not a test.
    fn layer_within(&self, root: &str, layers: &[&str]) -> Option<usize> {
        let inside = self.path.strip_prefix(root).ok()?;
        let first = inside.iter().next()?.to_str()?;
        if self.is_test() { None } else { layers.iter().position(|layer| *layer == first) }
    }

    /// Whether the whole file is tests or benches.
    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.iter().any(|part| part == "tests" || part == "benches")
    }

    /// Whether cargo finds the file by itself as a test, bench or example.
    fn is_test_root(&self) -> bool {
        let folder = self.path.parent().map(name_of).unwrap_or_default();
        ["tests", "benches", "examples", "bin", "fuzz_targets"].contains(&folder.as_str())
    }

    fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// The file that must declare this one as a module, and the module's name. Nothing for the roots of a crate.
    fn declared_by(&self) -> Option<(PathBuf, String)> {
        let stem = self.path.file_stem()?.to_str()?.to_owned();
        let folder = self.path.parent()?;
        if self.is_test_root() || ["lib", "main", "build"].contains(&stem.as_str()) {
            return None;
        }
        let (home, module) = if stem == "mod" { (folder.parent()?, name_of(folder)) } else { (folder, stem) };
        let candidates = ["mod.rs", "lib.rs", "main.rs"].map(|file| home.join(file));
        let main = root().join(&candidates[2]).is_file();
        if name_of(home) != "src" {
            // A bench of several files has a `main.rs`.
            return Some((candidates[if main { 2 } else { 0 }].clone(), module));
        }
        Some((candidates[if main { 2 } else { 1 }].clone(), module))
    }

    /// The first name after `crate::`, written so or by climbing with `super::`, outside of test items: (line, name).
    fn crate_paths(&self) -> Vec<(usize, String)> {
        let tests = self.test_items();
        let mut found = Vec::new();
        let depth = self.path.iter().skip(3).count() - usize::from(self.path.ends_with("mod.rs"));
        let climb = "super::".repeat(depth);
        for root in ["crate::", climb.as_str()] {
            for at in word_positions(&self.code, root) {
                let line = self.line_of(at);
                let inside_path = self.code[..at].ends_with("super::") || self.code[..at].ends_with("self::");
                if !inside_path && !tests.iter().any(|(from, to)| (*from..=*to).contains(&line)) {
                    found.extend(first_names(&self.code[at + root.len()..]).into_iter().map(|name| (line, name)));
                }
            }
        }
        found.sort_by_key(|(line, _)| *line);
        found
    }

    /// The names of the crate and of the module that the file is, if it lies in the sources of a crate.
    fn module(&self) -> Option<(PathBuf, Vec<String>)> {
        let parts: Vec<_> =
            self.path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let src = parts.iter().position(|part| part == "src")?;
        let mut module = parts[src + 1..].to_vec();
        if ["mod", "lib", "main"].contains(&module.last()?.as_str()) {
            module.pop();
        }
        Some((parts[..src].iter().collect(), module))
    }

    /// The modules in files of their own that the file declares, outside of test items or within: (line, name).
    fn declarations(&self, within_tests: bool) -> Vec<(usize, String)> {
        let declarations = word_positions(&self.code, "mod ").filter_map(|at| {
            let name = first_names(&self.code[at + "mod ".len()..]).pop()?;
            is_declaration(&self.code[at..], &name).then(|| (self.line_of(at), name))
        });
        let tests = self.test_items();
        let within = |line: usize| tests.iter().any(|(from, to)| (*from..=*to).contains(&line));
        declarations.filter(|(line, _)| within(*line) == within_tests).collect()
    }

    /// Every path that begins with `crate`, `super` or `self`, as seen from the root of the crate when the file is the
    /// module `module`, outside of test items: (line, names).
    fn absolute_paths(&self, module: &[String]) -> Vec<(usize, Vec<String>)> {
        let (tests, inner) = (self.test_items(), inline_modules(&self.code));
        let roots = ["crate::", "super::", "self::"];
        let mut starts: Vec<_> = roots.iter().flat_map(|root| word_positions(&self.code, root)).collect();
        starts.sort_unstable();
        let (mut found, mut end) = (Vec::new(), 0);
        for start in starts {
            // A part of the path before it, or a visibility.
            if start < end || self.code[..start].ends_with("(in ") {
                continue;
            }
            let mut paths = Vec::new();
            end = path_tree(&self.code, start, &[], &mut paths);
            let around = inner.iter().filter(|(from, to, _)| (*from..*to).contains(&start)).map(|(_, _, name)| name);
            let base: Vec<_> = module.iter().chain(around).cloned().collect();
            for (at, path) in paths {
                let line = self.line_of(at);
                if !tests.iter().any(|(from, to)| (*from..=*to).contains(&line)) {
                    found.push((line, absolute(&base, &path)));
                }
            }
        }
        found
    }

    /// The lines, from and to, of the items under `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
    fn test_items(&self) -> Vec<(usize, usize)> {
        let attributes = ["#[cfg(test)]", "#[cfg(all(test, "];
        let starts = attributes.iter().flat_map(|attribute| self.code.match_indices(attribute)).map(|(at, _)| at);
        starts.map(|at| (self.line_of(at), self.line_of(at + item_len(&self.code[at..])))).collect()
    }
}

/// The imports that form circles of files, each as the file, the line, and what it imports; circles within one of the
/// folders `excepted` are left out. A path counts as an import of the file of the longest module that it names, so a
/// path through the re-export of a `mod.rs` is an import of that `mod.rs`, which itself imports its children.
fn imports_in_circles(sources: &[Source]) -> Vec<(&Source, usize, String)> {
    let mut crates: BTreeMap<PathBuf, BTreeMap<Vec<String>, &Source>> = BTreeMap::new();
    for source in sources {
        if let (Some((name, module)), false) = (source.module(), source.is_test()) {
            crates.entry(name).or_default().insert(module, source);
        }
    }
    let mut found = Vec::new();
    for mut files in crates.into_values() {
        let tests: Vec<_> = children_of(&files, true).into_iter().map(|(_, _, child)| child).collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let imports = imports(&files);
        let reached: BTreeMap<_, _> = imports.keys().map(|module| (*module, reached(&imports, module))).collect();
        for (from, tos) in &imports {
            let circle = |to: &Vec<String>| reached.get(to).is_some_and(|reached| reached.contains(from));
            let size = reached[from].iter().filter(|to| circle(to)).count();
            for (to, lines) in tos.iter().filter(|(to, _)| circle(to)) {
                let what = format!("imports {}, in a circle of {size} files", files[*to].path.display());
                found.extend(lines.iter().map(|line| (files[*from], *line, what.clone())));
            }
        }
    }
    found.sort_by(|(a, line_a, what_a), (b, line_b, what_b)| (&a.path, line_a, what_a).cmp(&(&b.path, line_b, what_b)));
    found
}

/// The modules that `files` declare in files of their own, outside of test items or within: (file, line, child).
fn children_of<'f>(
    files: &'f BTreeMap<Vec<String>, &Source>,
    within_tests: bool,
) -> Vec<(&'f Vec<String>, usize, Vec<String>)> {
    let declared = files.iter().flat_map(|(module, source)| {
        let child = |name| module.iter().cloned().chain([name]).collect();
        source.declarations(within_tests).into_iter().map(move |(line, name)| (module, line, child(name)))
    });
    declared.collect()
}

/// What each file imports and the lines that do, by the names of the modules that the files are.
type Imports<'f> = BTreeMap<&'f Vec<String>, BTreeMap<&'f Vec<String>, BTreeSet<usize>>>;

/// The imports of `files` from each other.
fn imports<'f>(files: &'f BTreeMap<Vec<String>, &Source>) -> Imports<'f> {
    let mut paths = children_of(files, false);
    for (module, source) in files {
        paths.extend(source.absolute_paths(module).into_iter().map(|(line, path)| (module, line, path)));
    }
    let mut imports = Imports::new();
    for (from, line, path) in paths {
        let file = (0..=path.len()).rev().find_map(|len| files.get_key_value(&path[..len]));
        if let Some((to, _)) = file.filter(|(to, _)| *to != from) {
            imports.entry(from).or_default().entry(to).or_default().insert(line);
        }
    }
    imports
}

/// The files that `from` imports, and those that they import, and so on.
fn reached<'f>(imports: &Imports<'f>, from: &Vec<String>) -> BTreeSet<&'f Vec<String>> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for to in imports.get(next).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

/// Violations, each a line.
#[derive(Default)]
struct Complaints(String);

impl Complaints {
    fn add(&mut self, source: &Source, line: usize, what: &str) {
        writeln!(self.0, "{}:{line}: {what}", source.path.display()).expect("a String takes any text");
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the engine lies in the repository")
}

/// All Rust sources of the repository.
fn rust_sources() -> impl Iterator<Item = Source> {
    texts().into_iter().filter(|source| source.path.extension().is_some_and(|ext| ext == "rs"))
}

/// All texts that we write: sources, manifests, documents, scripts.
fn texts() -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in children(&folder) {
            if path.is_dir() && !SKIPPED.contains(&name_of(&path).as_str()) {
                folders.push(path);
            } else if path.is_file() && is_text(&path) {
                let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let relative = path.strip_prefix(&root).expect("found below the root").to_owned();
                found.push(Source::new(relative, text));
            }
        }
    }
    found
}

fn is_text(path: &Path) -> bool {
    let ext = path.extension().map(|ext| ext.to_string_lossy().into_owned()).unwrap_or_default();
    ["rs", "toml", "md", "sh"].contains(&ext.as_str()) || path.ends_with(".ci/run")
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading Rust, as far as the rules need it.

/// Where `word` stands in `text` and is not a part of a longer word.
fn word_positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back().is_some_and(is_word);
        let after = text[at + word.len()..].chars().next().is_some_and(is_word);
        !(before || after && word.ends_with(is_word))
    })
}

/// Whether `code`, which begins with `mod`, declares the module `name` in a file of its own.
fn is_declaration(code: &str, name: &str) -> bool {
    let rest = code["mod".len()..].trim_start().strip_prefix(name);
    rest.is_some_and(|rest| rest.trim_start().starts_with(';'))
}

/// The first name of a path, or of each path in a `{group}`.
fn first_names(code: &str) -> Vec<String> {
    let name = |code: &str| code.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = code.strip_prefix('{') else { return vec![name(code)] };
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(name(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The paths of the tree of names that begins at `start` behind `prefix`, with where each begins; and the tree's end.
fn path_tree(code: &str, start: usize, prefix: &[String], found: &mut Vec<(usize, Vec<String>)>) -> usize {
    let (mut path, mut at) = (prefix.to_vec(), start);
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with('{') {
            // A group: each of its paths, behind which there may be `as` and another name.
            while !code[at..].starts_with('}') {
                at = path_tree(code, at + 1, &path, found);
                at += code[at..].find([',', '}']).unwrap_or(code[at..].len());
                if at == code.len() {
                    return at;
                }
            }
            return at + 1;
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = if code[at..].starts_with('*') { 1 } else { code[at..].find(|c| !is_name(c)).unwrap_or(0) };
        if len > 0 {
            path.push(code[at..at + len].to_owned());
            at += len;
        }
        match code[at..].trim_start().strip_prefix("::") {
            Some(rest) => at = code.len() - rest.len(),
            None => {
                if path.len() > prefix.len() {
                    found.push((start + code[start..].len() - code[start..].trim_start().len(), path));
                }
                return at;
            }
        }
    }
}

/// The names from the root of the crate that `path` means within `module`.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let mut names = module.to_vec();
    for name in path {
        match name.as_str() {
            "crate" => names.clear(),
            "self" => {}
            "super" => drop(names.pop()),
            _ => names.push(name.clone()),
        }
    }
    names
}

/// The modules that are written out within `code`: (from, to, name).
fn inline_modules(code: &str) -> Vec<(usize, usize, String)> {
    let modules = word_positions(code, "mod ").filter_map(|at| {
        let rest = &code[at + "mod ".len()..];
        let name = first_names(rest).pop()?;
        let body = rest.strip_prefix(name.as_str())?.trim_start().starts_with('{');
        body.then(|| (at, at + item_len(&code[at..]), name))
    });
    modules.collect()
}

/// The length of the item that `code` begins with: up to its `;` or its closing brace.
fn item_len(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at,
            '}' => depth -= 1,
            ';' if depth == 0 => return at,
            _ => {}
        }
    }
    code.len()
}

/// `text` with its comments, strings and characters replaced by blanks, byte for byte; lines stay where they are.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let blank = blank_len(rest, after_word);
        if blank == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.extend(rest[..blank].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = &rest[blank..];
        }
    }
    code
}

/// The length of the comment, string or character that `text` begins with; 0 when it begins with code.
fn blank_len(text: &str, after_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_len(text);
    }
    if text.starts_with('"') {
        return quoted_len(text, '"');
    }
    if text.starts_with('\'') {
        // A lifetime has no closing quote right after its first character.
        let mut chars = text.chars().skip(1);
        let is_char = chars.next() == Some('\\') || chars.next() == Some('\'');
        return if is_char { quoted_len(text, '\'') } else { 0 };
    }
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r'));
    if let (Some(raw), false) = (raw, after_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = text.len() - raw.len() + hashes + 1;
            return text[body..].find(&end).map_or(text.len(), |at| body + at + end.len());
        }
    }
    0
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let Some(next) = text[at..].find(['/', '*']) else { return text.len() };
        at += next;
        let step = match text.get(at..at + 2) {
            Some("/*") => 1,
            Some("*/") => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            return at;
        }
    }
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
