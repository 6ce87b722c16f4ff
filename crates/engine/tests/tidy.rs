//! Code that checks code: the rules of the house that neither the compiler nor clippy can hold.
//!
//! Each rule is a test of its own and prints every violation as `file:line: what and why`. The rules look at a file's
//! text with comments and string literals blanked out ([`Source::code`]), so a word in prose never counts as code.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers of the engine, bottom first: a file imports only from its own layer and from layers before it.
const LAYERS: [&str; 10] = ["base", "env", "log", "block", "store", "cache", "tree", "table", "txn", "db"];

/// Where `unsafe` may be written, as prefixes of paths from the root of the repository.
const UNSAFE: [&str; 8] = [
    "crates/engine/src/base/memory/",
    "crates/engine/src/base/prefetch.rs",
    "crates/engine/src/env/buffer.rs",
    "crates/engine/src/env/os/",
    "crates/engine/src/tree/memtable/",
    // An allocator that counts.
    "crates/engine/tests/damage/memory.rs",
    // It forks.
    "crates/engine/tests/fork.rs",
    // Bindings to engines written in C.
    "peers/",
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
fn every_folder_of_the_engine_is_a_layer() {
    let root = root().join("crates/engine/src");
    let mut folders: Vec<_> =
        children(&root).into_iter().filter(|path| path.is_dir()).map(|path| name_of(&path)).collect();
    folders.sort();
    let mut layers: Vec<_> = LAYERS.iter().map(|layer| (*layer).to_owned()).collect();
    layers.sort();
    assert_eq!(folders, layers, "crates/engine/src: its folders are not the layers");
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
        let inside = self.path.strip_prefix("crates/engine/src").ok()?;
        let first = inside.iter().next()?.to_str()?;
        if self.is_test() { None } else { LAYERS.iter().position(|layer| *layer == first) }
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

    /// The lines, from and to, of the items under `#[cfg(test)]`.
    fn test_items(&self) -> Vec<(usize, usize)> {
        let starts = self.code.match_indices("#[cfg(test)]").map(|(at, _)| at);
        starts.map(|at| (self.line_of(at), self.line_of(at + item_len(&self.code[at..])))).collect()
    }
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
