//! Reads at a time of the cluster, at each member of a set: one state at one time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{park_timeout, scope};
use std::time::Duration;

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Timestamp, Value};
use spinney_document::doc;
use spinney_server::base::clock::monotonic;

use super::client::{TestServer, number};
use super::replica::{config, initiate, until_told};

const ACCOUNTS: i32 = 5;
const BALANCE: i64 = 100;
const TOTAL: i64 = 2 * ACCOUNTS as i64 * BALANCE;
const WRITERS: u8 = 3;

/// Reads that two members must have had in common, at the least.
const READS_MIN: usize = 200;

/// A healthy set has each state everywhere within this time.
const SOON: Duration = Duration::from_secs(5);

/// Three members, of which the first is the primary.
fn set() -> [TestServer; 3] {
    let members = [(); 3].map(|()| TestServer::member());
    let hosts = [0, 1, 2].map(|at: usize| &*members[at].address);
    initiate(&members[0], &config(1, &hosts, ""));
    for other in &members[1..] {
        until_told(&members[0], other, "SECONDARY");
    }
    members
}

fn session(of: u8, command: DocumentBuilder) -> DocumentBuf {
    let mut command = command;
    command.open_document("lsid").append("id", Value::Binary(4, &[of; 16])).close();
    command.finish()
}

fn timestamp(reply: Document<'_>, name: &str) -> Timestamp {
    match reply.get(name) {
        Some(Value::Timestamp(time)) => time,
        other => panic!("{other:?} in {reply}"),
    }
}

/// A find of all documents with a read concern.
fn find(collection: &str, concern: &DocumentBuf, told: Option<Timestamp>) -> DocumentBuilder {
    let mut command = DocumentBuilder::new();
    command.append("find", collection).append("readConcern", concern);
    command.append("$readPreference", &doc! {"mode": "nearest"});
    if let Some(told) = told {
        command.append("$clusterTime", &doc! {"clusterTime": Value::Timestamp(told)});
    }
    command
}

fn snapshot(at: Option<Timestamp>) -> DocumentBuf {
    match at {
        Some(at) => doc! {"level": "snapshot", "atClusterTime": Value::Timestamp(at)},
        None => doc! {"level": "snapshot"},
    }
}

/// What a snapshot has: balances by `_id`, and its time; or the code of the error.
fn read(server: &TestServer, collection: &str, at: Option<Timestamp>) -> Result<(Vec<i64>, Timestamp), i64> {
    let reply = server.client().run("bank", session(9, find(collection, &snapshot(at), None)).view());
    let Some(cursor) = reply.view().get("cursor").and_then(|cursor| cursor.as_document()) else {
        return Err(number(&reply, "code"));
    };
    let batch = cursor.get("firstBatch").unwrap().as_array().unwrap();
    let mut balances: Vec<(i64, i64)> = batch
        .values()
        .filter_map(|account| account.as_document())
        .map(|account| ["_id", "balance"].map(|name| account.get(name).unwrap().as_exact_i64().unwrap()).into())
        .collect();
    balances.sort_unstable();
    let time = timestamp(cursor, "atClusterTime");
    assert!(at.is_none_or(|at| at == time));
    Ok((balances.into_iter().map(|(_, balance)| balance).collect(), time))
}

/// Makes the accounts: the time of the last one.
fn open_accounts(primary: &TestServer) -> Timestamp {
    let mut last = None;
    for name in ["x", "y"] {
        for id in 0..ACCOUNTS {
            let insert = format!(r#"{{"insert": "{name}", "documents": [{{"_id": {id}, "balance": {BALANCE}}}]}}"#);
            last = Some(timestamp(primary.client().ok("bank", &insert).view(), "operationTime"));
        }
    }
    last.unwrap()
}

/// Moves money between accounts, in a transaction each, until told to end.
fn transfer(primary: &TestServer, writer: u8, ended: &AtomicBool) {
    let (mut client, mut round) = (primary.client(), 0_i64);
    let name = |at: i64| if at % 2 == 0 { "x" } else { "y" };
    while !ended.load(Ordering::Relaxed) {
        round += 1;
        let amount = round % 7 + 1;
        let add = |at: i64, amount: i64, starts: bool| {
            let mut command = DocumentBuilder::new();
            command.append("update", name(at)).open_array("updates").push_document();
            command.append("q", &doc! {"_id": at / 2 % i64::from(ACCOUNTS)});
            command.open_document("u").append("$inc", &doc! {"balance": amount}).close().close().close();
            command.append("txnNumber", round).append("autocommit", false);
            if starts {
                command.append("startTransaction", true);
            }
            session(writer, command)
        };
        let (from, to) = (round * 3 + i64::from(writer), round * 5 + 1);
        let done = [add(from, -amount, true), add(to, amount, false)]
            .iter()
            .all(|statement| number(&client.run("bank", statement.view()), "ok") == 1);
        let mut end = DocumentBuilder::new();
        end.append(if done { "commitTransaction" } else { "abortTransaction" }, 1);
        end.append("txnNumber", round).append("autocommit", false);
        client.run("admin", session(writer, end).view());
    }
}

/// A member that lacked commits up to the time, or had later ones, refused the read or showed another state.
#[test]
fn two_members_read_one_state_at_one_time_beside_transfers() {
    let members = set();
    let opened = open_accounts(&members[0]);
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Each keeps its states from its first such read on, which waits for all accounts: a member that chooses the time
    // of a read has no account that is missing.
    members.iter().for_each(|member| drop(read(member, "x", Some(opened)).unwrap()));
    let too_old: usize = scope(|threads| {
        (0..WRITERS).for_each(|writer| {
            threads.spawn({
                let (primary, ended) = (&members[0], &ended);
                move || transfer(primary, writer, ended)
            });
        });
        let readers = [(0, 1), (1, 2), (2, 0)].map(|(chooses, other)| {
            let (members, ended, reads) = (&members, &ended, &reads);
            threads.spawn(move || {
                let mut too_old = 0;
                while !ended.load(Ordering::Relaxed) {
                    let (x, time) = read(&members[chooses], "x", None).unwrap();
                    let (same, y) =
                        match (read(&members[other], "x", Some(time)), read(&members[other], "y", Some(time))) {
                            (Ok((same, _)), Ok((y, _))) => (same, y),
                            // A thread of a busy machine may have slept for longer than states are kept.
                            (Err(239), _) | (_, Err(239)) => {
                                too_old += 1;
                                continue;
                            }
                            failed => panic!("{failed:?}"),
                        };
                    assert_eq!(x, same, "members {chooses} and {other} at {time:?}");
                    assert_eq!(x.iter().chain(&y).sum::<i64>(), TOTAL, "members {chooses} and {other} at {time:?}");
                    if reads.fetch_add(1, Ordering::Relaxed) >= READS_MIN {
                        ended.store(true, Ordering::Relaxed);
                    }
                }
                too_old
            })
        });
        readers
            .into_iter()
            .map(|reader| {
                reader.join().unwrap_or_else(|failed| {
                    ended.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(failed)
                })
            })
            .sum()
    });
    assert!(too_old * 20 < READS_MIN, "{too_old} of {READS_MIN} states were not kept");
}

#[test]
fn an_idle_set_has_the_time_of_its_last_commit_at_each_member_at_once() {
    let members = set();
    for round in 0..5 {
        let insert = format!(r#"{{"insert": "x", "documents": [{{"_id": {round}, "balance": 1}}]}}"#);
        let reply = members[0].client().ok("bank", &insert);
        let (time, begun) = (timestamp(reply.view(), "operationTime"), monotonic());
        for member in &members {
            let (balances, _) = read(member, "x", Some(time)).unwrap();
            assert_eq!(balances.len(), round + 1);
            let after = doc! {"afterClusterTime": Value::Timestamp(time)};
            let reply = member.client().run("bank", find("x", &after, None).finish().view());
            assert_eq!(number(&reply, "ok"), 1, "{reply:?}");
            assert!(timestamp(reply.view(), "operationTime") >= time, "it names what it has applied");
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

/// A time that a client made up and that no commit has: a later commit must not be within it.
#[test]
fn a_time_ahead_of_all_commits_is_refused_or_passed_by_the_set() {
    let members = set();
    open_accounts(&members[0]);
    for (at, member) in members.iter().enumerate() {
        let now = timestamp(member.client().ok("admin", r#"{"ping": 1}"#).view(), "operationTime");
        let ahead = Timestamp { time: now.time + 20, increment: 1 };
        for concern in [doc! {"afterClusterTime": Value::Timestamp(ahead)}, snapshot(Some(ahead))] {
            let begun = monotonic();
            let reply = member.client().run("bank", session(7, find("x", &concern, None)).view());
            assert_eq!(number(&reply, "code"), 72, "member {at}: {reply:?}");
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        }
        let told = |concern: &DocumentBuf| {
            let reply = member.client().run("bank", session(8, find("x", concern, Some(ahead))).view());
            assert_eq!(number(&reply, "ok"), 1, "member {at}: {reply:?}");
            timestamp(reply.view(), "operationTime")
        };
        assert!(told(&doc! {"afterClusterTime": Value::Timestamp(ahead)}) >= ahead);
        told(&snapshot(Some(ahead)));
        let before = read(member, "x", Some(ahead)).unwrap();
        let update = r#"{"update": "x", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"balance": 1}}}]}"#;
        members[0].client().ok("bank", update);
        for other in &members {
            match read(other, "x", Some(ahead)) {
                Ok(read) => assert_eq!(read, before, "the write is later"),
                Err(code) => assert_eq!(code, 239),
            }
        }
    }
}

#[test]
fn a_read_behind_a_member_without_a_primary_ends_by_its_limit_and_by_a_kill() {
    let [first, mut second, mut third] = set();
    let now = timestamp(first.client().ok("admin", r#"{"ping": 1}"#).view(), "operationTime");
    second.end();
    third.end();
    let ahead = Timestamp { time: now.time + 20, increment: 1 };
    for concern in [doc! {"afterClusterTime": Value::Timestamp(ahead)}, snapshot(Some(ahead))] {
        let mut limited = find("x", &concern, Some(ahead));
        limited.append("maxTimeMS", 300);
        let begun = monotonic();
        let reply = first.client().run("bank", session(7, limited).view());
        assert_eq!(number(&reply, "code"), 50, "{reply:?}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        scope(|threads| {
            let begun = monotonic();
            let mut endless = find("x", &concern, Some(ahead));
            endless.append("comment", "endless");
            let waiting = threads.spawn(|| first.client().run("bank", session(7, endless).view()));
            let mut client = first.client();
            while !waiting.is_finished() && begun.elapsed() < SOON {
                let running = client.ok("admin", r#"{"currentOp": 1, "command.comment": "endless"}"#);
                let operations = running.view().get("inprog").unwrap().as_array().unwrap();
                for operation in operations.values().filter_map(|operation| operation.as_document()) {
                    let id = operation.get("opid").unwrap().as_exact_i64().unwrap();
                    client.ok("admin", &format!(r#"{{"killOp": 1, "op": {id}}}"#));
                }
                park_timeout(Duration::from_millis(20));
            }
            let reply = waiting.join().unwrap();
            assert_eq!(number(&reply, "code"), 11601, "{reply:?}");
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        });
    }
}

#[test]
fn a_state_is_kept_for_reads_at_its_time_and_not_read_of_a_collection_that_was_dropped_since() {
    let members = set();
    open_accounts(&members[0]);
    // Each keeps its states from its first such read on.
    members.iter().for_each(|member| drop(read(member, "x", None).unwrap()));
    let mut client = members[0].client();
    let (before, time) = read(&members[0], "x", None).unwrap();
    let update = r#"{"update": "x", "updates": [{"q": {}, "u": {"$inc": {"balance": 1}}, "multi": true}]}"#;
    client.ok("bank", update);
    for member in &members {
        assert_eq!(read(member, "x", Some(time)).unwrap().0, before);
    }
    let dropped = client.ok("bank", r#"{"drop": "x"}"#);
    client.ok("bank", r#"{"insert": "x", "documents": [{"_id": 0, "balance": 7}]}"#);
    let behind = timestamp(dropped.view(), "operationTime");
    for member in &members {
        assert_eq!(read(member, "x", Some(time)), Err(246));
        assert_eq!(read(member, "x", Some(behind)).unwrap().0, [], "it was dropped by then");
    }
}
