//! Sessions as clients use them: transactions, writes that are done once, and snapshots that reads share.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::Durability;
use spinney::Options;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service, ServiceOptions};

fn open(machine: &SimEnv) -> Service {
    let options = Options::default().durability(Durability::Sync);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    Service::new(Database::with_engine(engine).unwrap())
}

/// Runs a command in the database `app`, or `admin` for those that are only there.
fn run(service: &Service, command: &str) -> String {
    let body = DocumentBuf::from_json(command).unwrap();
    let name = body.view().first().unwrap().name.to_str_lossy().into_owned();
    let everywhere = service.command(&name).is_none_or(|command| command.everywhere);
    let database = if everywhere { "app" } else { "admin" };
    let client = Client::default();
    service.run(&Request { database, body: body.view(), sequences: &[], client: &client }).view().to_json()
}

/// The fields that put a command into session `id`.
fn session(id: u8) -> String {
    format!(r#""lsid":{{"id":{{"$uuid":"00000000-0000-4000-8000-0000000000{id:02x}"}}}}"#)
}

fn once(id: u8, number: i64) -> String {
    format!(r#"{},"txnNumber":{{"$numberLong":"{number}"}}"#, session(id))
}

fn within(id: u8, number: i64) -> String {
    format!(r#"{},"autocommit":false"#, once(id, number))
}

fn first(id: u8, number: i64) -> String {
    format!(r#"{},"startTransaction":true"#, within(id, number))
}

fn documents(service: &Service) -> String {
    run(service, r#"{"find":"c","sort":{"_id":1}}"#)
        .split("\"id\":")
        .next()
        .unwrap()
        .replace(r#"{"cursor":{"firstBatch":"#, "")
}

#[test]
fn statements_tell_what_they_did_and_what_failed() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"a":1},{"_id":2,"a":2},{"_id":3,"a":3}]}"#);
    for (command, reply) in [
        (
            r#"{"update":"c","updates":[{"q":{"a":{"$gt":1}},"u":{"$inc":{"b":1}},"multi":true},{"q":{"_id":9},"u":{"$set":{"x":1}},"upsert":true}]}"#,
            r#"{"n":3,"upserted":[{"index":1,"_id":9}],"nModified":2,"ok":1.0}"#,
        ),
        (
            r#"{"update":"c","ordered":false,"updates":[{"q":{"_id":1},"u":{"$bad":{"b":1}}},{"q":{"_id":1},"u":{"$set":{"a":1}}},{"q":{"_id":1},"u":{"$set":{"_id":2}}}]}"#,
            r#""n":1,"nModified":0,"writeErrors":[{"index":0,"code":9,"#,
        ),
        (
            r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"_id":2}}},{"q":{"_id":1},"u":{"$set":{"a":7}}}]}"#,
            r#"{"n":0,"nModified":0,"writeErrors":[{"index":0,"code":66,"#,
        ),
        (r#"{"delete":"c","deletes":[{"q":{"a":3},"limit":1},{"q":{"_id":9},"limit":0}]}"#, r#"{"n":2,"ok":1.0}"#),
        (r#"{"delete":"c","deletes":[{"q":{},"limit":2}]}"#, r#""code":9,"#),
        (r#"{"update":"c","updates":[{"q":{},"u":{},"x":1}]}"#, r#""code":40415,"#),
        (r#"{"update":"c","updates":[{"u":{}}]}"#, r#""code":40414,"#),
        (r#"{"update":"none","updates":[{"q":{},"u":{"$set":{"a":1}}}]}"#, r#"{"n":0,"nModified":0,"ok":1.0}"#),
        (
            r#"{"findAndModify":"c","query":{"_id":1},"update":{"$inc":{"a":1}},"new":true,"fields":{"_id":0}}"#,
            r#"{"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"a":2},"ok":1.0}"#,
        ),
        (
            r#"{"findAndModify":"c","query":{"_id":5},"update":{"a":1},"upsert":true}"#,
            r#"{"lastErrorObject":{"n":1,"updatedExisting":false,"upserted":5},"value":null,"ok":1.0}"#,
        ),
        (
            r#"{"findAndModify":"c","sort":{"_id":-1},"remove":true}"#,
            r#"{"lastErrorObject":{"n":1},"value":{"_id":5,"a":1},"ok":1.0}"#,
        ),
        (r#"{"findAndModify":"c","remove":true,"update":{}}"#, r#""code":9,"#),
        (
            r#"{"bulkWrite":1,"ops":[{"insert":0,"document":{"_id":7}},{"insert":0,"document":{"_id":7}},{"update":1,"filter":{"_id":1},"updateMods":{"$set":{"z":1}},"upsert":true},{"delete":0,"filter":{"_id":2}}],"nsInfo":[{"ns":"app.c"},{"ns":"app.d"}],"ordered":false}"#,
            r#""nErrors":1,"nInserted":1,"nMatched":0,"nModified":0,"nUpserted":1,"nDeleted":1,"ok":1.0}"#,
        ),
    ] {
        let told = run(&service, command);
        assert!(told.contains(reply), "{command}\n{told}");
    }
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":2},{"_id":7}]"#), "{}", documents(&service));
}

#[test]
fn a_write_is_done_once_however_often_it_is_sent() {
    let service = open(&SimEnv::new(1));
    let insert = format!(r#"{{"insert":"c","documents":[{{"_id":1}},{{"_id":2}}],{}}}"#, once(1, 5));
    assert_eq!(run(&service, &insert), r#"{"n":2,"ok":1.0}"#);
    assert_eq!(run(&service, &insert), r#"{"n":2,"retriedStmtIds":[0,1],"ok":1.0}"#);
    let more = insert.replace(r#"{"_id":2}]"#, r#"{"_id":2},{"_id":3}]"#);
    assert_eq!(run(&service, &more), r#"{"n":3,"retriedStmtIds":[0,1],"ok":1.0}"#);
    let update = format!(
        r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$inc":{{"a":1}}}}}},{{"q":{{"_id":8}},"u":{{"$inc":{{"a":1}}}},"upsert":true}}],{}}}"#,
        once(1, 6)
    );
    let told = r#"{"n":2,"upserted":[{"index":1,"_id":8}],"nModified":1,"ok":1.0}"#;
    assert_eq!(run(&service, &update), told);
    assert_eq!(run(&service, &update), told.replace(r#""ok""#, r#""retriedStmtIds":[0,1],"ok""#));
    let change = format!(
        r#"{{"findAndModify":"c","query":{{"_id":1}},"update":{{"$inc":{{"a":1}}}},"new":true,{}}}"#,
        once(1, 7)
    );
    let told = r#"{"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":1,"a":2},"ok":1.0}"#;
    assert_eq!(run(&service, &change), told);
    assert_eq!(run(&service, &change), told.replace(r#""ok""#, r#""retriedStmtId":0,"ok""#));
    assert!(run(&service, &insert).contains(r#""code":225,"#));
    // Another session has numbers of its own.
    let delete = format!(r#"{{"delete":"c","deletes":[{{"q":{{"_id":{{"$gt":1}}}},"limit":1}}],{}}}"#, once(2, 5));
    assert_eq!(run(&service, &delete), r#"{"n":1,"ok":1.0}"#);
    assert_eq!(run(&service, &delete), r#"{"n":1,"retriedStmtIds":[0],"ok":1.0}"#);
    assert!(run(&service, &delete.replace(r#""limit":1"#, r#""limit":0"#)).contains(r#""code":72,"#));
    let find = format!(r#"{{"find":"c",{}}}"#, once(1, 9));
    assert!(run(&service, &find).contains(r#""code":50768,"#));
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":2},{"_id":3},{"_id":8,"a":1}]"#));
}

#[test]
fn a_write_that_is_sent_again_while_it_runs_is_done_once() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"n":0}]}"#);
    for number in 1..=50 {
        let update =
            format!(r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$inc":{{"n":1}}}}}}],{}}}"#, once(1, number));
        let insert = format!(r#"{{"insert":"d","documents":[{{"x":1}},{{"x":2}}],{}}}"#, once(2, number));
        std::thread::scope(|threads| {
            for command in [&update, &update, &update, &insert, &insert] {
                threads.spawn(|| assert!(run(&service, command).contains(r#""ok":1.0"#)));
            }
        });
    }
    assert!(documents(&service).contains(r#"{"_id":1,"n":50}"#), "{}", documents(&service));
    let counted = run(&service, r#"{"count":"d"}"#);
    assert!(counted.contains(r#""n":100"#), "{counted}");
}

#[test]
fn a_write_whose_reply_was_lost_in_a_crash_is_not_done_again() {
    for (seed, crash) in CrashProfile::EVERY.iter().map(Some).chain([None]).enumerate() {
        let machine = SimEnv::new(u64::try_from(seed).unwrap());
        let service = open(&machine);
        let insert = format!(r#"{{"insert":"c","documents":[{{"a":1}},{{"a":2}}],{}}}"#, once(1, 1));
        let update = format!(
            r#"{{"findAndModify":"c","query":{{"k":1}},"update":{{"$inc":{{"n":1}}}},"upsert":true,"new":true,"fields":{{"_id":0}},{}}}"#,
            once(2, 1)
        );
        let begun = format!(r#"{{"insert":"c","documents":[{{"t":1}}],{}}}"#, first(3, 1));
        let commit = format!(r#"{{"commitTransaction":1,{}}}"#, within(3, 1));
        assert_eq!(run(&service, &insert), r#"{"n":2,"ok":1.0}"#);
        let told = run(&service, &update);
        assert_eq!(run(&service, &begun), r#"{"n":1,"ok":1.0}"#);
        assert_eq!(run(&service, &commit), r#"{"ok":1.0}"#);
        // The replies have not arrived.
        match crash {
            Some(profile) => machine.power_crash(*profile),
            None => machine.process_crash(),
        }
        drop(service);
        let service = open(&machine);
        assert_eq!(run(&service, &insert), r#"{"n":2,"retriedStmtIds":[0,1],"ok":1.0}"#);
        assert!(run(&service, &update).starts_with(told.trim_end_matches(r#","ok":1.0}"#)));
        assert_eq!(run(&service, &commit), r#"{"ok":1.0}"#);
        let found = run(&service, r#"{"find":"c","projection":{"_id":0},"sort":{"a":1,"n":1}}"#);
        assert_eq!(found.matches('{').count() - 2, 4, "{found}");
        assert!(run(&service, r#"{"find":"c","filter":{"n":1}}"#).contains(r#""n":1"#));
        assert!(service.database().collection("app.c").unwrap().unwrap().validate().unwrap().is_valid());
    }
}

#[test]
fn a_transaction_is_committed_or_not_at_all() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"a":1}]}"#);
    let step = |command: &str, fields: &str| run(&service, &command.replacen("SESSION", fields, 1));
    let insert = r#"{"insert":"c","documents":[{"_id":2}],SESSION}"#;
    assert_eq!(step(insert, &first(1, 1)), r#"{"n":1,"ok":1.0}"#);
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":1}]"#));
    let found = step(r#"{"find":"c","batchSize":1,SESSION}"#, &within(1, 1));
    assert!(found.contains(r#"[{"_id":1,"a":1}]"#), "{found}");
    let id = found.split(r#""id":"#).nth(1).unwrap().split(',').next().unwrap().to_owned();
    let get_more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c",SESSION}}"#);
    let told = step(&get_more, &within(1, 1));
    assert!(told.contains(r#""nextBatch":[{"_id":2}]"#), "{told}");
    assert_eq!(
        step(r#"{"update":"c","updates":[{"q":{"_id":2},"u":{"$set":{"b":1}}}],SESSION}"#, &within(1, 1)),
        r#"{"n":1,"nModified":1,"ok":1.0}"#
    );
    let commit = r#"{"commitTransaction":1,SESSION}"#;
    assert_eq!(step(commit, &within(1, 1)), r#"{"ok":1.0}"#);
    assert_eq!(step(commit, &within(1, 1)), r#"{"ok":1.0}"#);
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":1},{"_id":2,"b":1}]"#));
    assert!(step(insert, &within(1, 1)).contains(r#""code":256,"#));
    assert!(step(insert, &first(1, 1)).contains(r#""code":117,"#));
    assert!(step(insert, &within(1, 2)).contains(r#""code":251,"#));
    // Ended by the client, and by a failure.
    assert_eq!(step(r#"{"delete":"c","deletes":[{"q":{},"limit":0}],SESSION}"#, &first(1, 2)), r#"{"n":2,"ok":1.0}"#);
    assert_eq!(step(r#"{"abortTransaction":1,SESSION}"#, &within(1, 2)), r#"{"ok":1.0}"#);
    assert!(step(commit, &within(1, 2)).contains(r#""code":251,"#));
    assert_eq!(step(r#"{"insert":"c","documents":[{"_id":5}],SESSION}"#, &first(1, 3)), r#"{"n":1,"ok":1.0}"#);
    assert!(step(r#"{"insert":"c","documents":[{"_id":1}],SESSION}"#, &within(1, 3)).contains(r#""code":11000,"#));
    let told = step(insert, &within(1, 3));
    assert!(
        told.contains(r#""code":251,"#) && told.contains(r#""errorLabels":["TransientTransactionError"]"#),
        "{told}"
    );
    assert!(step(commit, &within(1, 1)).contains(r#""code":225,"#));
    assert!(step(r#"{"count":"c",SESSION}"#, &first(1, 4)).contains(r#""code":263,"#));
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":1},{"_id":2,"b":1}]"#));
}

#[test]
fn the_second_of_two_transactions_that_change_a_document_fails_at_once() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"a":1}]}"#);
    let update = |fields: &str| {
        run(&service, &format!(r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$inc":{{"a":1}}}}}}],{fields}}}"#))
    };
    assert!(update(&first(1, 1)).contains(r#""nModified":1"#));
    let told = update(&first(2, 1));
    assert!(told.contains(r#""code":112,"#) && told.contains("TransientTransactionError"), "{told}");
    assert_eq!(run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(1, 1))), r#"{"ok":1.0}"#);
    // One whose snapshot is older than the change.
    assert!(run(&service, &format!(r#"{{"find":"c",{}}}"#, first(3, 1))).contains(r#""a":2"#));
    assert!(update(&session(9)).contains(r#""nModified":1"#));
    assert!(run(&service, &format!(r#"{{"find":"c",{}}}"#, within(3, 1))).contains(r#""a":2"#));
    assert!(update(&within(3, 1)).contains(r#""code":112,"#));
    assert!(documents(&service).starts_with(r#"[{"_id":1,"a":3}]"#));
    // A transaction ends with its session.
    assert!(update(&first(4, 1)).contains(r#""nModified":1"#));
    let id = session(4).replace(r#""lsid":"#, "");
    assert_eq!(run(&service, &format!(r#"{{"endSessions":[{id}]}}"#)), r#"{"ok":1.0}"#);
    assert!(update(&first(5, 1)).contains(r#""nModified":1"#));
    assert_eq!(run(&service, r#"{"killAllSessions":[]}"#), r#"{"ok":1.0}"#);
    assert!(update(&within(5, 1)).contains(r#""code":251,"#));
    assert!(run(&service, r#"{"startSession":1}"#).contains(r#""timeoutMinutes":30"#));
}

#[test]
fn reads_at_one_time_see_one_state() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let find =
        |concern: &str| run(&service, &format!(r#"{{"find":"c","readConcern":{{"level":"snapshot"{concern}}}}}"#));
    let told = find("");
    let at = told.split(r#""atClusterTime":"#).nth(1).unwrap().split("}}").next().unwrap();
    run(&service, r#"{"insert":"c","documents":[{"_id":2}]}"#);
    assert_eq!(find("").matches("_id").count(), 2);
    assert_eq!(find(&format!(r#","atClusterTime":{at}}}}}"#)).matches("_id").count(), 1, "{at}");
    assert!(find(r#","atClusterTime":{"$timestamp":{"t":5,"i":1}}"#).contains(r#""code":239,"#));
}

/// `mongodump --oplog` and programs that follow the log of a replica set begin with this.
#[test]
fn a_replica_set_tells_that_its_log_is_not_a_collection() {
    let engine = open(&SimEnv::new(1)).database().clone();
    let options = ServiceOptions { replica_set: true, ..ServiceOptions::default() };
    let service = Service::with_options(engine.clone(), options);
    let body = DocumentBuf::from_json(r#"{"find":"oplog.rs","sort":{"$natural":-1},"limit":1}"#).unwrap();
    let find = |service: &Service| {
        let client = Client::default();
        let request = Request { database: "local", body: body.view(), sequences: &[], client: &client };
        service.run(&request).view().to_json()
    };
    assert!(find(&service).contains("change streams show what happened"), "{}", find(&service));
    assert!(find(&Service::new(engine)).contains(r#""firstBatch":[]"#));
}

#[test]
fn a_read_after_a_time_that_no_member_has_given_out_is_refused_and_moves_no_clock() {
    let engine = open(&SimEnv::new(1)).database().clone();
    let service = Service::with_options(engine, ServiceOptions { replica_set: true, ..ServiceOptions::default() });
    run(&service, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let clock = || service.database().catalog().recorder().clock().last();
    let now = clock();
    let time = |seconds: u32| format!(r#"{{"$timestamp":{{"t":{},"i":1}}}}"#, now.time + seconds);
    let find = |after: &str, more: &str| {
        run(&service, &format!(r#"{{"find":"c","readConcern":{{"afterClusterTime":{after}}}{more}}}"#))
    };
    assert!(find(&time(60), "").contains(r#""code":72,"#));
    // With the time of day it goes on.
    assert!(clock() <= now.max(service.database().catalog().recorder().clock().wall()));
    // A client that was told of the time by another member tells of it here.
    let known = format!(r#","$clusterTime":{{"clusterTime":{}}}"#, time(60));
    assert!(find(&time(60), &known).contains(r#""firstBatch":[{"_id":1}]"#));
    assert!(clock() > now);
    assert!(find(&time(61), &known).contains(r#""code":72,"#));
    let far = format!(r#","$clusterTime":{{"clusterTime":{}}}"#, time(2 * 24 * 3600));
    assert!(find(&time(60), &far).contains(r#""code":209,"#));
}

/// Drivers for Node and Java send the read concern of a snapshot session with `getMore` too.
#[test]
fn a_cursor_of_a_snapshot_session_goes_on() {
    let service = open(&SimEnv::new(1));
    run(&service, r#"{"insert":"c","documents":[{"_id":1},{"_id":2},{"_id":3}]}"#);
    let session = session(1);
    let find = format!(r#"{{"find":"c","batchSize":1,"readConcern":{{"level":"snapshot"}},{session}}}"#);
    let opened = run(&service, &find);
    let after = |name: &str| opened.split(&format!(r#""{name}":"#)).nth(1).unwrap().to_owned();
    let (at, id) = (after("atClusterTime"), after("id"));
    let (at, id) = (at.split("}}").next().unwrap(), id.split(',').next().unwrap());
    run(&service, r#"{"insert":"c","documents":[{"_id":4}]}"#);
    let concern = format!(r#""readConcern":{{"level":"snapshot","atClusterTime":{at}}}}}}}"#);
    let more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c",{concern},{session}}}"#);
    assert!(run(&service, &more).starts_with(r#"{"cursor":{"nextBatch":[{"_id":2},{"_id":3}],"#), "{more}");
}

/// Updates, deletes and bulk writes of many statements once waited for the device after each.
#[test]
fn the_statements_of_a_command_wait_for_the_device_once() {
    let list = |statement: &dyn Fn(usize) -> String| (0..50).map(statement).collect::<Vec<_>>().join(",");
    let updates = list(&|i| format!(r#"{{"q":{{"_id":{i}}},"u":{{"$set":{{"a":1}}}}}}"#));
    let deletes = list(&|i| format!(r#"{{"q":{{"_id":{i}}},"limit":1}}"#));
    let inserts = list(&|i| format!(r#"{{"_id":{i}}}"#));
    let mixed = list(&|i| match i % 2 {
        0 => format!(r#"{{"insert":0,"document":{{"_id":{}}}}}"#, 100 + i),
        _ => format!(r#"{{"update":0,"filter":{{"_id":{}}},"updateMods":{{"$set":{{"b":1}}}}}}"#, 99 + i),
    });
    let commands = [
        (format!(r#"{{"insert":"c","documents":[{inserts}]}}"#), 50),
        (format!(r#"{{"update":"c","updates":[{updates}]}}"#), 50),
        (format!(r#"{{"bulkWrite":1,"ops":[{mixed}],"nsInfo":[{{"ns":"app.c"}}]}}"#), 75),
        (r#"{"aggregate":"c","pipeline":[{"$set":{"a":2}},{"$merge":"c"}],"cursor":{}}"#.to_owned(), 75),
        (format!(r#"{{"delete":"c","deletes":[{deletes}]}}"#), 25),
    ];
    let machine = SimEnv::new(5);
    let mut service = open(&machine);
    let syncs = |service: &Service| service.database().engine().stats().log.syncs;
    run(&service, r#"{"create":"c"}"#);
    for (command, left) in commands {
        let before = syncs(&service);
        let reply = run(&service, &command);
        assert!(reply.ends_with(r#""ok":1.0}"#) && !reply.contains("writeErrors"), "{reply}");
        assert!(syncs(&service) <= before + 2, "{command}: {} syncs", syncs(&service) - before);
        machine.power_crash(CrashProfile::Strict);
        drop(service);
        service = open(&machine);
        assert!(run(&service, r#"{"count":"c"}"#).starts_with(&format!(r#"{{"n":{left},"#)), "{command}");
    }
    let found = run(&service, r#"{"find":"c","filter":{"a":2,"b":1}}"#);
    assert_eq!(found.matches("_id").count(), 25, "{found}");
}

/// The names of the collections of the database `app`.
fn listed(service: &Service) -> usize {
    run(service, r#"{"listCollections":1,"nameOnly":true}"#).matches("\"name\"").count()
}

#[test]
fn a_collection_that_was_created_in_a_transaction_goes_with_it() {
    let machine = SimEnv::new(7);
    let service = open(&machine);
    let tables = |service: &Service| service.database().engine().tables().unwrap().len();
    let before = tables(&service);
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1}}],{}}}"#, first(1, 1)));
    run(&service, &format!(r#"{{"create":"d",{}}}"#, within(1, 1)));
    let made = run(
        &service,
        &format!(r#"{{"createIndexes":"d","indexes":[{{"key":{{"a":1}},"name":"a"}}],{}}}"#, within(1, 1)),
    );
    assert!(made.contains(r#""ok":1.0"#), "{made}");
    run(&service, &format!(r#"{{"abortTransaction":1,{}}}"#, within(1, 1)));
    assert_eq!((listed(&service), tables(&service)), (0, before));
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1}}],{}}}"#, first(1, 2)));
    assert_eq!(listed(&service), 0, "before the commit");
    run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(1, 2)));
    assert_eq!(listed(&service), 1);
    // One that is open when the machine stops leaves nothing.
    run(&service, &format!(r#"{{"insert":"e","documents":[{{"_id":1}}],{}}}"#, first(1, 3)));
    machine.power_crash(CrashProfile::Strict);
    drop(service);
    let service = open(&machine);
    assert_eq!((listed(&service), tables(&service)), (1, before + 1));
    assert_eq!(documents(&service), r#"[{"_id":1}],"#);
}

#[test]
fn a_transaction_alone_sees_what_it_creates_until_it_commits() {
    let machine = SimEnv::new(8);
    let service = open(&machine);
    let inside = |command: &str| run(&service, &format!("{{{command},{}}}", within(1, 1)));
    let made = run(
        &service,
        &format!(
            r#"{{"createIndexes":"c","indexes":[{{"key":{{"a":1}},"name":"a","unique":true}},{{"key":{{"b":1}},"name":"b"}}],{}}}"#,
            first(1, 1)
        ),
    );
    assert!(
        made.contains(r#""numIndexesBefore":1,"numIndexesAfter":3,"createdCollectionAutomatically":true"#),
        "{made}"
    );
    let again = inside(r#""createIndexes":"c","indexes":[{"key":{"b":1},"name":"b"}]"#);
    assert!(again.contains(r#""note":"all indexes already exist""#), "{again}");
    assert!(inside(r#""insert":"c","documents":[{"_id":1,"a":1,"b":[1,2]},{"_id":2,"a":2}]"#).contains(r#""n":2"#));
    let found = inside(r#""find":"c","filter":{"b":2},"hint":"b""#);
    assert!(found.contains(r#""firstBatch":[{"_id":1,"#), "{found}");
    let joined = inside(
        r#""aggregate":"c","pipeline":[{"$lookup":{"from":"c","localField":"a","foreignField":"_id","as":"x"}},{"$match":{"x._id":2}}],"cursor":{}"#,
    );
    assert!(joined.contains(r#""x":[{"_id":2,"a":2}]"#), "{joined}");
    // Nobody else.
    assert_eq!(listed(&service), 0);
    assert_eq!(documents(&service), "[],");
    assert!(run(&service, r#"{"listIndexes":"c"}"#).contains(r#""code":26,"#));
    assert!(run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(1, 1))).contains(r#""ok":1.0"#));
    for service in [&service, &open_again(&machine, &service)] {
        let taken = run(service, r#"{"insert":"c","documents":[{"_id":3,"a":2}]}"#);
        assert!(taken.contains(r#""code":11000,"#), "{taken}");
        let found = run(service, r#"{"find":"c","filter":{"b":2},"hint":"b"}"#);
        assert!(found.contains(r#""firstBatch":[{"_id":1,"#), "{found}");
        assert!(run(service, r#"{"count":"c"}"#).contains(r#""n":2"#));
    }
}

/// The database as it is after a crash of a copy of the machine.
fn open_again(machine: &SimEnv, _of: &Service) -> Service {
    let fork = machine.fork();
    fork.power_crash(CrashProfile::Strict);
    open(&fork)
}

#[test]
fn what_cannot_be_created_in_a_transaction_is_refused() {
    let service = open(&SimEnv::new(9));
    run(&service, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    run(&service, r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]}"#);
    for (at, (command, reply)) in [
        (r#""createIndexes":"c","indexes":[{"key":{"b":1},"name":"b"}]"#, r#""code":263,"#),
        (r#""createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]"#, r#""note":"all indexes already exist""#),
        (r#""createIndexes":"c","indexes":[{"key":{"a":-1},"name":"a"}]"#, r#""code":86,"#),
        (r#""create":"v","viewOn":"c","pipeline":[]"#, r#""code":263,"#),
        (r#""create":"c","capped":true,"size":1000"#, r#""code":48,"#),
        (r#""create":"c""#, r#""code":48,"#),
        (r#""listCollections":1"#, r#""code":263,"#),
        (r#""listIndexes":"c""#, r#""code":263,"#),
    ]
    .into_iter()
    .enumerate()
    {
        let number = i64::try_from(at).unwrap() + 1;
        let told = run(&service, &format!("{{{command},{}}}", first(2, number)));
        assert!(told.contains(reply), "{command}: {told}");
        run(&service, &format!(r#"{{"abortTransaction":1,{}}}"#, within(2, number)));
    }
    run(&service, &format!(r#"{{"insert":"d","documents":[{{"_id":1}}],{}}}"#, first(1, 1)));
    let told = run(
        &service,
        &format!(r#"{{"createIndexes":"d","indexes":[{{"key":{{"a":1}},"name":"a"}}],{}}}"#, within(1, 1)),
    );
    assert!(told.contains(r#""code":263,"#) && told.contains("non-empty"), "{told}");
}

#[test]
fn of_two_that_create_a_collection_the_second_commit_fails() {
    let service = open(&SimEnv::new(10));
    let commit = |id| run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(id, 1)));
    for id in [1, 2] {
        let made = run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":{id}}}],{}}}"#, first(id, 1)));
        assert!(made.contains(r#""n":1"#), "{made}");
    }
    assert!(commit(2).contains(r#""ok":1.0"#));
    let told = commit(1);
    assert!(told.contains(r#""code":112,"#) && told.contains("TransientTransactionError"), "{told}");
    // Or one without a transaction comes first.
    run(&service, &format!(r#"{{"create":"d",{}}}"#, first(3, 1)));
    assert!(run(&service, r#"{"create":"d"}"#).contains(r#""ok":1.0"#));
    assert!(run(&service, r#"{"insert":"d","documents":[{"_id":1}]}"#).contains(r#""n":1"#));
    assert!(commit(3).contains(r#""code":112,"#));
    assert_eq!(documents(&service), r#"[{"_id":2}],"#);
    assert!(run(&service, r#"{"count":"d"}"#).contains(r#""n":1"#));
    assert_eq!(listed(&service), 2);
}

/// A transaction above its limit was answered with `OutOfDiskSpace`, and its documents were all held until then.
#[test]
fn a_transaction_that_is_too_large_says_so_and_a_large_one_is_done() {
    let machine = SimEnv::new(1);
    let options = Options::default().durability(Durability::Buffered).memory_bytes(16 << 20);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    let service = Service::new(Database::with_engine(engine).unwrap());
    let text = "x".repeat(50_000);
    // 10 MB of documents, of which a transaction may write 4 MiB.
    for id in 0..200 {
        run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":{id},"text":"{text}"}}]}}"#));
    }
    let update = r#""updates":[{"q":{},"u":{"$set":{"a":1}},"multi":true}]"#;
    let reply = run(&service, &format!(r#"{{"update":"c",{update},{}}}"#, first(1, 1)));
    assert!(reply.contains(r#""code":257"#) && reply.contains("--memory"), "{reply}");
    let reply = run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(1, 1)));
    assert!(reply.contains(r#""code":251"#), "{reply}");
    // Those beyond the first 4 MiB are read again when it is their turn.
    let update = r#""updates":[{"q":{},"u":{"$unset":{"text":1}},"multi":true}]"#;
    let reply = run(&service, &format!(r#"{{"update":"c",{update},{}}}"#, first(1, 2)));
    assert!(reply.starts_with(r#"{"n":200,"nModified":200"#), "{reply}");
    let delete = r#""deletes":[{"q":{"_id":{"$lt":150}},"limit":0}]"#;
    let reply = run(&service, &format!(r#"{{"delete":"c",{delete},{}}}"#, within(1, 2)));
    assert!(reply.starts_with(r#"{"n":150"#), "{reply}");
    let reply = run(&service, &format!(r#"{{"commitTransaction":1,{}}}"#, within(1, 2)));
    assert!(reply.contains(r#""ok":1.0"#), "{reply}");
    assert!(documents(&service).starts_with(r#"[{"_id":150},{"_id":151}"#), "{}", documents(&service));
}
