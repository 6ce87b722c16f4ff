//! What an open reads of the log that is kept for change streams, and what it still knows of before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Durability, Options};
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};

const MIB: u64 = 1 << 20;

/// How much log there may be behind what is stored of it.
const BEHIND_BYTES: u64 = 16 * MIB;

/// Bytes of a document that [`insert`] inserts.
const DOCUMENT_BYTES: usize = 64 << 10;

fn open(machine: &SimEnv) -> (spinney::Database, Service) {
    open_at(machine, "/db")
}

fn open_at(machine: &SimEnv, path: &str) -> (spinney::Database, Service) {
    let options = Options::default().durability(Durability::Sync).log_keep_bytes(256 * MIB);
    let options = options.log_segment_bytes(MIB).memory_bytes(8 * MIB);
    let engine = spinney::Database::builder(path).options(options).env(machine.env()).open().unwrap();
    (engine.clone(), Service::new(Database::with_engine(engine).unwrap()))
}

fn run(service: &Service, command: &str) -> String {
    let (body, client) = (DocumentBuf::from_json(command).unwrap(), Client::default());
    service.run(&Request { database: "app", body: body.view(), sequences: &[], client: &client }).view().to_json()
}

/// Inserts document `id` by a statement of a session that is done once.
fn insert(service: &Service, id: u64) -> String {
    let (session, number) = (id % 7, id / 7 + 1);
    let filler = "x".repeat(DOCUMENT_BYTES);
    run(
        service,
        &format!(
            r#"{{"insert":"c","documents":[{{"_id":{id},"x":"{filler}"}}],"lsid":{{"id":{{"$uuid":"00000000-0000-4000-8000-0000000000{session:02x}"}}}},"txnNumber":{{"$numberLong":"{number}"}}}}"#
        ),
    )
}

fn fill(service: &Service, from: u64, bytes: u64) -> u64 {
    let to = from + bytes / DOCUMENT_BYTES as u64;
    for id in from..to {
        let told = insert(service, id);
        assert!(told.starts_with(r#"{"n":1,"ok":1.0"#), "{told}");
    }
    to
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Opens the database again; bytes of the log that were read.
fn read_by_open(machine: &SimEnv) -> (spinney::Database, Service, u64) {
    let before = machine.read_bytes(is_log);
    let (engine, service) = open(machine);
    (engine, service, machine.read_bytes(is_log) - before)
}

/// The newest statement of each session was done.
fn check_sessions(service: &Service, end: u64) {
    for id in end - 7..end {
        let told = insert(service, id);
        assert!(told.contains(r#""retriedStmtIds":[0]"#), "document {id}: {told}");
    }
    let count = run(service, r#"{"count":"c"}"#);
    assert!(count.contains(&format!(r#""n":{end},"#)), "{count}");
}

/// A stream from a token of before shows all that came later.
fn check_stream(service: &Service, token: &str, count: u64) {
    let reply = run(
        service,
        &format!(
            r#"{{"aggregate":"c","pipeline":[{{"$changeStream":{{"resumeAfter":{token}}}}},{{"$project":{{"documentKey":1}}}}],"cursor":{{"batchSize":100000}}}}"#
        ),
    );
    let (mut shown, mut cursor) = (reply.matches("documentKey").count() as u64, String::new());
    if let Some((_, rest)) = reply.split_once(r#""id":{"$numberLong":""#) {
        rest.split_once('"').unwrap().0.clone_into(&mut cursor);
    }
    while shown < count {
        let reply = run(service, &format!(r#"{{"getMore":{{"$numberLong":"{cursor}"}},"collection":"c"}}"#));
        let more = reply.matches("documentKey").count() as u64;
        assert!(more > 0, "{shown} of {count}: {reply}");
        shown += more;
    }
    assert_eq!(shown, count);
}

fn stream_token(service: &Service) -> String {
    let reply = run(service, r#"{"aggregate":"c","pipeline":[{"$changeStream":{}}],"cursor":{}}"#);
    let (_, rest) = reply.split_once(r#""postBatchResumeToken":"#).unwrap();
    rest[..=rest.find('}').unwrap()].to_owned()
}

/// Each open read all of the kept log, of which nobody needs anything but the notes of the newest commits: seconds for
/// 700 MiB.
#[test]
fn an_open_after_a_clean_stop_reads_no_log_that_is_kept() {
    let machine = SimEnv::new(1);
    let (engine, service) = open(&machine);
    run(&service, r#"{"create":"c"}"#);
    let token = stream_token(&service);
    let mut end = fill(&service, 0, 40 * MIB);
    let (mut engine, mut service) = (engine, service);
    for _ in 0..3 {
        drop(service);
        engine.close().unwrap();
        let read;
        (engine, service, read) = read_by_open(&machine);
        // What is in memtables, and some windows of the reader.
        assert!(read < 8 * MIB, "{read} bytes of the log were read");
        assert!(engine.log_bytes_after(engine.log_start()) > 40 * MIB, "it is still there");
        check_sessions(&service, end);
        check_stream(&service, &token, end);
        end = fill(&service, end, MIB);
    }
}

#[test]
fn an_open_after_a_kill_reads_the_log_behind_what_was_stored_of_it() {
    let machine = SimEnv::new(2);
    let (_engine, service) = open(&machine);
    run(&service, r#"{"create":"c"}"#);
    let token = stream_token(&service);
    let (mut end, mut bound) = (0, 0);
    for round in 0..6 {
        end = fill(&service, end, 9 * MIB);
        let killed = machine.fork();
        killed.power_crash(CrashProfile::Strict);
        let (engine, service, read) = read_by_open(&killed);
        // Twice: for counts and for sessions, beside what recovery needs.
        bound = 2 * (BEHIND_BYTES + MIB) + 8 * MIB;
        assert!(read < bound, "round {round}: {read} bytes of the log were read");
        check_sessions(&service, end);
        check_stream(&service, &token, end);
        // Again without a write between: what was found is stored, or is found again.
        drop(service);
        drop(engine);
        killed.power_crash(CrashProfile::Strict);
        let (_engine, service, _) = read_by_open(&killed);
        check_sessions(&service, end);
    }
    assert!(end * DOCUMENT_BYTES as u64 > bound, "the whole log is more");
}

/// What the rows say of the log is of no use in a copy, which has another log.
#[test]
fn a_copy_of_a_database_in_use_knows_its_own_commits() {
    let machine = SimEnv::new(3);
    let (engine, service) = open(&machine);
    run(&service, r#"{"create":"c"}"#);
    let mut end = fill(&service, 0, 20 * MIB);
    engine.checkpoint("/copy").unwrap();
    let (copy, copied) = open_at(&machine, "/copy");
    end = fill(&copied, end, MIB);
    drop(copied);
    copy.close().unwrap();
    let (_copy, copied) = open_at(&machine, "/copy");
    check_sessions(&copied, end);
}
