//! `serve`: what it prints, what it serves, and how it ends.

use crate::support::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spinney_document::bson::DocumentBuf;
use spinney_wire::{HEADER_BYTES, Header, Message};
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout};

/// A server that runs.
struct Serving {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = place.command(args).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The address in a line such as `listening on 127.0.0.1:1: mongodb://127.0.0.1:1`.
    fn address(&mut self) -> String {
        let line = self.line();
        line.strip_prefix("listening on ").and_then(|rest| rest.split(": ").next()).unwrap().to_owned()
    }

    /// Ends it by a signal: what it wrote to stderr, and its exit code.
    fn end(mut self) -> (String, Option<i32>) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (said, self.child.wait().unwrap().code())
    }
}

/// Sends a command and returns the reply as JSON.
fn run(stream: &mut TcpStream, command: &str) -> String {
    let command = DocumentBuf::from_json(command).unwrap();
    let message = Message {
        more_to_come: false,
        exhaust_allowed: false,
        checksum: false,
        body: command.view(),
        sequences: Vec::new(),
    };
    stream.write_all(&message.to_bytes(1, 0)).unwrap();
    let mut head = [0; HEADER_BYTES];
    stream.read_exact(&mut head).unwrap();
    let header = Header::parse(&head).unwrap();
    let mut body = vec![0; header.len - HEADER_BYTES];
    stream.read_exact(&mut body).unwrap();
    Message::parse(&header, &body).unwrap().body.to_json()
}

/// The arguments of the command `serve` under "As a server" in README.md.
fn of_the_readme() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let (_, section) = text.split_once("\n## As a server\n").unwrap();
    let line = section.lines().find_map(|line| line.strip_prefix("spinney ")).unwrap();
    line.split('#').next().unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_server_of_the_readme_serves_and_keeps_what_it_was_given() {
    let place = Place::new();
    let readme = of_the_readme();
    assert_eq!(readme[..2], ["serve", "shop"]);
    let words: Vec<&str> = readme.iter().map(String::as_str).chain(["--listen", "127.0.0.1:0"]).collect();
    let mut serving = Serving::start(&place, &words);
    // The catalog has a row: since when the log tells what change streams need.
    assert_eq!(serving.line(), "serving shop: 0 databases, 0 collections, 1 tree");
    let address = serving.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    assert!(run(&mut stream, r#"{"hello": 1, "$db": "admin"}"#).contains(r#""setName":"rs0""#));
    let insert = r#"{"insert": "orders", "documents": [{"_id": 4711, "total": 12}], "$db": "shop"}"#;
    assert!(run(&mut stream, insert).starts_with(r#"{"n":1,"#));
    let (said, code) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("connection accepted"), "{said}");
    let mut serving = Serving::start(&place, &[&words[..], &["--log-json", "--metrics", "127.0.0.1:0"]].concat());
    let metrics = serving.line();
    assert!(metrics.starts_with("page, /metrics and /health on http://127.0.0.1:"), "{metrics}");
    assert!(serving.line().starts_with("serving shop: 1 database, 1 collection, "));
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    let found = run(&mut stream, r#"{"find": "orders", "$db": "shop"}"#);
    assert!(found.contains(r#""firstBatch":[{"_id":4711,"total":12}]"#), "{found}");
    let (said, code) = serving.end();
    assert_eq!(code, Some(0));
    assert!(said.lines().count() > 0 && said.lines().all(|line| line.starts_with('{')), "{said}");
}

#[test]
fn options_come_from_a_file_and_the_environment_and_the_manager_is_told() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("manager")).unwrap();
    let file = place.file("serve.toml", "db = \"shop\"\nlisten = \"nowhere\"\nreplSet = \"rs7\"\nlog-json = true\n");
    let mut command = place.command(&["serve", "--config", &file]);
    command.env("SPINNEY_LISTEN", "127.0.0.1:0").env("NOTIFY_SOCKET", place.path("manager"));
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut serving = Serving { child, lines };
    assert!(serving.line().starts_with("serving shop: "));
    let address = serving.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    assert!(run(&mut stream, r#"{"hello": 1, "$db": "admin"}"#).contains(r#""setName":"rs7""#));
    let told = || {
        let mut bytes = [0; 1000];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    assert_eq!(told(), format!("READY=1\nSTATUS=listening on {address}"));
    let (said, code) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(told().starts_with("STOPPING=1\n"));
    assert!(said.lines().all(|line| line.starts_with('{')), "{said}");
    let wrong = place.file("wrong.toml", "listen = \"127.0.0.1:0\"\nport = 1\n");
    let message = place.refused(&["serve", "shop", "--config", &wrong]);
    assert!(message.contains("wrong.toml:2: there is no option port"), "{message}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let place = Place::new();
    place.refused(&["serve", "db", "--tls-cert", "x"]);
    place.refused(&["serve", "db", "--journal", "never"]);
    let message = place.refused(&["serve", "db", "--listen", "nowhere"]);
    assert!(message.contains("nowhere is no address to listen on: give a host and a port"), "{message}");
    let message = place.refused(&["serve", "db", "--listen", "127.0.0.1:0", "--oplogSize", "64"]);
    assert!(message.contains("--replSet <NAME>"), "{message}");
    let message = place.fails(&["serve", "db", "--listen", "127.0.0.1:0", "--tls-cert", "x", "--tls-key", "y"]);
    assert!(message.contains("cannot read x: "), "{message}");
    // What was not made by a server that did not begin.
    assert!(!place.path("db").exists());
}

#[test]
fn a_member_of_a_replica_set_says_what_it_lacks() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    for option in ["--members=a:1", "--join", "--advertise=a:1", "--keyFile=key"] {
        place.refused(&["serve", "db", option]);
    }
    let set = ["serve", "db", "--replSet", "rs0", "--listen", "127.0.0.1:0"];
    let refused = |more: &[&str]| place.refused(&[&set[..], more].concat());
    assert!(refused(&["--members", "a:1,b:2"]).contains("is none of --members"));
    assert!(refused(&["--members", "a b"]).contains("'a b' is no address of a host"));
    assert!(refused(&["--members", "a:1,b:2,a:1"]).contains("--members has a:1 twice"));
    assert!(refused(&["--members", "a,a:27017"]).contains("--members has a:27017 twice"));
    assert!(refused(&["--members", ""]).contains("--members is empty"));
    assert!(refused(&["--members", "0.0.0.0:1"]).contains("--members has 0.0.0.0:1, which is no address"));
    assert!(refused(&["--join", "--members", "a:1"]).contains("'--join' cannot be used with '--members <ADDRESSES>'"));
    assert!(refused(&["--join", "--advertise", "nonsense"]).contains("--advertise nonsense has no port"));
    assert!(refused(&["--join", "--advertise", "a:b"]).contains("--advertise: 'a:b' is no address of a host"));
    for any in ["0.0.0.0:31010", "[::]:31010"] {
        let what = format!("--advertise has {any}, which is no address");
        assert!(refused(&["--join", "--advertise", any]).contains(&what));
    }
    assert!(refused(&["--join", "--oplogSize", "0"]).contains("'0' for '--oplogSize <MIB>'"));
    assert!(place.refused(&["serve", "db", "--replSet", ""]).contains("--replSet is empty"));
    assert!(!place.path("db").exists());
    let any = ["serve", "db", "--replSet", "rs0", "--listen", "0.0.0.0:0", "--join"];
    assert!(place.refused(&any).contains("--advertise"));
    let key = place.file("key", "c2VjcmV0");
    std::fs::set_permissions(place.path("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&["--join", "--keyFile", &key]).contains("are too open"));
    std::fs::write(place.path("key"), "no key!").unwrap();
    std::fs::set_permissions(place.path("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&["--join", "--keyFile", &key]).contains("not of base64"));
}

#[test]
fn a_member_waits_until_it_is_made_part_of_a_set_and_stays_one() {
    let place = Place::new();
    let set = ["serve", "db", "--replSet", "rs0", "--listen", "127.0.0.1:0"];
    let mut serving = Serving::start(&place, &[&set[..], &["--join"]].concat());
    assert!(serving.line().starts_with("serving db: "));
    let address = serving.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    let hello = run(&mut stream, r#"{"hello": 1, "$db": "admin"}"#);
    assert!(hello.starts_with(r#"{"isWritablePrimary":false,"secondary":false,"info":"Does not have"#), "{hello}");
    let insert = r#"{"insert": "orders", "documents": [{"_id": 1}], "$db": "shop"}"#;
    assert!(run(&mut stream, insert).contains(r#""code":10107"#));
    assert!(run(&mut stream, r#"{"find": "orders", "$db": "shop"}"#).contains(r#""code":13436"#));
    assert!(run(&mut stream, r#"{"replSetGetStatus": 1, "$db": "admin"}"#).contains(r#""code":94"#));
    let initiated = run(&mut stream, r#"{"replSetInitiate": {}, "$db": "admin"}"#);
    assert!(initiated.contains(&format!(r#""me":"{address}""#)), "{initiated}");
    assert!(run(&mut stream, r#"{"replSetInitiate": {}, "$db": "admin"}"#).contains(r#""code":23"#));
    let waits = r#"{"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 10000, "$db": "admin"}"#;
    let version = |hello: &str| {
        let (_, rest) = hello.split_once(r#""topologyVersion":"#).unwrap();
        rest.split_once("},\"max").unwrap().0.to_owned() + "}"
    };
    let mut hello = run(&mut stream, r#"{"hello": 1, "$db": "admin"}"#);
    while !hello.contains(r#""isWritablePrimary":true"#) {
        hello = run(&mut stream, &waits.replace("VERSION", &version(&hello)));
    }
    assert!(run(&mut stream, insert).starts_with(r#"{"n":1,"#));
    let (said, code) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    // What was agreed on is not changed without the set.
    assert!(place.refused(&["serve", "db", "--listen", "127.0.0.1:0"]).contains("give --replSet"));
}

/// A start without `--replSet`, and each command that writes, gave the log of changes up without a word.
#[test]
fn a_server_without_a_set_keeps_the_log_of_changes_and_says_so() {
    let place = Place::new();
    let kept = || spinney::kept_log_bytes(place.path("db")).unwrap();
    let serve = |more: &[&str]| {
        let words = ["serve", "db", "--listen", "127.0.0.1:0"];
        let mut serving = Serving::start(&place, &[&words, more].concat());
        assert!(serving.line().starts_with("serving db: "));
        serving
    };
    let mut serving = serve(&["--replSet", "rs0", "--oplogSize", "100"]);
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    assert!(run(&mut stream, r#"{"insert":"c","documents":[{"_id":1}],"$db":"shop"}"#).starts_with(r#"{"n":1,"#));
    assert_eq!(serving.end().1, Some(0));
    // What no recovery needs is what streams need.
    place.ok(&["flush", "db"]);
    assert!(kept() > 0);
    let (said, code) = serve(&[]).end();
    assert!(code == Some(0) && said.contains("--cut-log gives it up"), "{said}");
    place.ok(&["doc", "indexes", "db", "shop.c", "--create", r#"{"x": 1}"#]);
    let before = kept();
    place.ok(&["flush", "db"]);
    assert!(kept() > before, "more of it, and nothing is given up");
    let (said, code) = serve(&["--cut-log"]).end();
    assert!(code == Some(0) && !said.contains("--cut-log"), "{said}");
    place.ok(&["flush", "db"]);
    assert_eq!(kept(), 0);
}

#[test]
fn a_server_goes_on_while_its_database_is_copied() {
    let place = Place::new();
    let mut serving = Serving::start(&place, &["serve", "db", "--listen", "127.0.0.1:0", "--replSet", "rs0"]);
    assert!(serving.line().starts_with("serving db: "));
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    let mut insert = |id: u32| {
        let insert = format!(r#"{{"insert":"c","documents":[{{"_id":{id},"a":{}}}],"$db":"shop"}}"#, id % 7);
        assert!(run(&mut stream, &insert).starts_with(r#"{"n":1,"#));
    };
    (0..100).for_each(&mut insert);
    place.ok(&["checkpoint", "db", "first"]);
    (100..300).for_each(&mut insert);
    let told = place.ok(&["checkpoint", "db", "second", "--since", "first"]);
    assert!(told.contains("linked"), "{told}");
    insert(300);
    assert_eq!(serving.end().1, Some(0));
    for (copy, count) in [("first", 100), ("second", 300)] {
        place.ok(&["verify", "--documents", copy]);
        let found = place.ok(&["doc", "find", copy, "shop.c", "{}"]);
        assert_eq!(found.lines().count(), count, "{copy}");
    }
    let message = place.refused(&["checkpoint", "db", "db/inside"]);
    assert!(message.contains("lies in the database"), "{message}");
}
