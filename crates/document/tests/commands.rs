//! The golden scripts of `testdata/command`: requests and replies of commands, in extended JSON.
//!
//! A script is cases, apart by empty lines, each with a database of its own; `#` begins a comment. The words that begin
//! a line:
//!
//! | word | meaning |
//! |---|---|
//! | `> DB J` | the command `J` in the database `DB` |
//! | `>> FIELD J` | documents, an array, that come beside the next command under the name of a field |
//! | `as USER` | who sends the commands that follow |
//! | `wait N` | milliseconds that pass |
//! | `< J` | the reply, without `"ok":1.0` |
//! | `~ J` | fields that the reply has among others |
//! | `! N` | the code of the error that the reply is, and perhaps a part of its message |
//!
//! A string `"@name"` in a reply stands for a value: any the first time, and the same from then on, also in commands.
//! `"@any"` stands for any each time.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use spinney_document::base::Environment;
use spinney_document::bson::{Document, DocumentBuf, Kind, Value};
use spinney_document::command::spec::Target;
use spinney_document::command::{Client, Request, Service};
use spinney_document::{Database, doc};

/// Time and random numbers that a script decides.
#[derive(Debug)]
struct Scripted {
    now_ms: AtomicI64,
    random: AtomicU64,
}

impl Environment for Scripted {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst)
    }
}

struct Script {
    service: Service,
    environment: Arc<Scripted>,
    client: Client,
    bound: BTreeMap<String, String>,
    _directory: tempfile::TempDir,
}

impl Script {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = spinney::Database::open(directory.path().join("db"), spinney::Options::default()).unwrap();
        let environment = Arc::new(Scripted { now_ms: AtomicI64::new(1_700_000_000_000), random: AtomicU64::new(7) });
        let database = Database::with_parts(engine, Arc::clone(&environment) as Arc<dyn Environment>).unwrap();
        let (client, bound) = (Client::default(), BTreeMap::new());
        Self { service: Service::new(database), environment, client, bound, _directory: directory }
    }

    fn parse(&self, at: &str, text: &str) -> DocumentBuf {
        let text =
            self.bound.iter().fold(text.to_owned(), |text, (name, json)| text.replace(&format!("\"{name}\""), json));
        DocumentBuf::from_json(&text).unwrap_or_else(|error| panic!("{at}: {text}: {error}"))
    }

    fn run(&self, at: &str, line: &str, beside: &[(String, DocumentBuf)]) -> DocumentBuf {
        let (database, json) = line.split_once(' ').unwrap();
        let body = self.parse(at, json);
        let sequences: Vec<(&str, Vec<Document<'_>>)> = beside
            .iter()
            .map(|(name, array)| {
                let values = array.view().get("v").unwrap().as_array().unwrap().values();
                (name.as_str(), values.map(|value| value.as_document().unwrap()).collect())
            })
            .collect();
        self.service.run(&Request { database, body: body.view(), sequences: &sequences, client: &self.client })
    }

    /// Compares a value with the expected one; with `part`, a document may have other fields.
    fn matches(&mut self, found: Value<'_>, wanted: Value<'_>, part: bool) -> bool {
        match (found, wanted) {
            (found, Value::String(name)) if name.as_bytes().starts_with(b"@") => {
                let (name, json) = (name.to_str_lossy().into_owned(), shown(found));
                name == "@any" || *self.bound.entry(name).or_insert_with(|| json.clone()) == json
            }
            (Value::Document(found), Value::Document(wanted)) if part => wanted
                .elements()
                .all(|wanted| found.get(wanted.name).is_some_and(|found| self.matches(found, wanted.value, part))),
            (Value::Document(found), Value::Document(wanted)) => {
                found.elements().count() == wanted.elements().count()
                    && found.elements().zip(wanted.elements()).all(|(found, wanted)| {
                        found.name == wanted.name && self.matches(found.value, wanted.value, part)
                    })
            }
            (Value::Array(found), Value::Array(wanted)) => {
                found.count() == wanted.count()
                    && found.values().zip(wanted.values()).all(|(found, wanted)| self.matches(found, wanted, part))
            }
            (found, wanted) => shown(found) == shown(wanted),
        }
    }

    fn check(&mut self, at: &str, word: &str, rest: &str, reply: &DocumentBuf) {
        let told = reply.view().to_canonical_json();
        if word == "!" {
            let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
            let found = reply.view().get("code").map(shown);
            assert!(found.is_some_and(|found| found == format!("{{\"$numberInt\":\"{code}\"}}")), "{at}: {told}");
            let said = reply.view().get("errmsg").unwrap();
            assert!(said.as_str().unwrap().contains(message), "{at}: {told}");
            return;
        }
        assert_eq!(reply.view().get("ok").map(shown), Some(shown(Value::Double(1.0))), "{at}: {told}");
        let mut wanted = self.parse(at, rest);
        if word == "<" {
            let mut with_ok = spinney_document::bson::DocumentBuilder::new();
            with_ok.append_all(wanted.view()).append("ok", 1.0);
            wanted = with_ok.finish();
        }
        let same = self.matches(Value::Document(reply.view()), Value::Document(wanted.view()), word == "~");
        assert!(same, "{at}:\n found {told}\nwanted {}", wanted.view().to_canonical_json());
    }
}

fn shown(value: Value<'_>) -> String {
    let json = doc! {"v": value}.view().to_canonical_json();
    json[5..json.len() - 1].to_owned()
}

#[test]
fn commands_reply_as_in_mongodb() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/command");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let (text, mut script) = (fs::read_to_string(&file).unwrap(), None);
        let (mut reply, mut beside) = (DocumentBuf::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let (line, at) = (line.trim(), format!("{name}:{number}"));
            if line.is_empty() {
                script = None;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let script = script.get_or_insert_with(Script::new);
            let (word, rest) = line.split_once(' ').unwrap();
            match word {
                ">" => {
                    reply = script.run(&at, rest, &beside);
                    beside.clear();
                }
                ">>" => {
                    let (field, array) = rest.split_once(' ').unwrap();
                    beside.push((field.to_owned(), script.parse(&at, &format!("{{\"v\":{array}}}"))));
                }
                "as" => script.client.user = Some(rest.to_owned()),
                "wait" => {
                    script.environment.now_ms.fetch_add(rest.parse().unwrap(), Ordering::SeqCst);
                }
                word => script.check(&at, word, rest, &reply),
            }
        }
    }
}

/// Each command refuses a field that it does not know and, in each of its fields, a value of another type.
#[test]
fn every_command_is_parsed_strictly() {
    let script = Script::new();
    let listed = script.run("listCommands", r#"admin {"listCommands":1}"#, &[]);
    let commands = listed.view().get("commands").and_then(|commands| commands.as_document()).unwrap();
    let mut checked = 0;
    for command in commands {
        let name = command.name.to_str_lossy();
        let declared = script.service.command(&name).unwrap();
        let target = match declared.target {
            Target::Collection => r#""c""#,
            Target::Namespace => r#""app.c""#,
            Target::CollectionOrDatabase => "1",
            Target::Value(kinds) => match kinds.first() {
                Some(Kind::Document) => r#"{"find":"c"}"#,
                Some(Kind::String) => r#""x""#,
                Some(Kind::Array) => "[]",
                Some(Kind::Bool) => "true",
                Some(Kind::Int64) if kinds.len() == 1 => r#"{"$numberLong":"1"}"#,
                _ => "1",
            },
        };
        let code = |field: &str, value: &str| {
            let reply = script.run(&name, &format!(r#"admin {{"{name}":{target},"{field}":{value}}}"#), &[]);
            reply.view().get("code").and_then(|code| code.as_exact_i64())
        };
        if !declared.any_fields {
            assert_eq!(code("nonsense", "1"), Some(40415), "{name}");
            checked += 1;
        }
        for field in declared.fields {
            // No field takes this type but those that take any.
            if !field.kind.kinds().is_empty() {
                assert_eq!(code(field.name, r#"{"$maxKey":1}"#), Some(14), "{name}.{}", field.name);
                checked += 1;
            }
        }
        assert!(declared.help.ends_with('.'), "{name}");
    }
    assert!(checked > 150, "{checked}");
}
