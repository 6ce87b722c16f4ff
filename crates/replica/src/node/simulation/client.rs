//! Clients of the simulated set, as programs use one: retryable writes, transactions, reads at a time at any member,
//! changes of collections and indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spinney_document::bson::{DocumentBuf, Timestamp, Value};
use tokio::time::Instant;

use super::history::{Call, End, Operation, Outcome};
use super::member::{Answer, GONE, Running};
use super::turns;
use super::world::World;

/// Registers: documents with a value each.
const KEYS: u64 = 3;

/// Accounts, between which transactions move something.
const ACCOUNTS: u64 = 4;

/// What all accounts have together.
const TOTAL: i64 = 400;

/// The limit of time of most commands, and how much later they may end.
const LIMIT_MS: u64 = 2000;
const LATE: Duration = Duration::from_millis(200);

/// The same for what clears up behind itself: that ends when its member learns that it leads no more.
const LATE_TO_CLEAR_UP: Duration = Duration::from_secs(3);

/// The length of the long texts: a few of them are more than a commit of a member with little memory may have.
const TEXT_BYTES: usize = 60 << 10;

/// How often a retryable write is tried.
const TRIES: usize = 3;

/// Codes that say that nothing was done: not primary, a conflict, a duplicate, a lock that was not got in time.
const REFUSED: [i32; 5] = [10107, 112, 11000, 24, 251];

/// Codes that do not say what became of a command: interrupted by a change of the primary, by the limit of time, by the
/// end of the member, or nobody answers.
const UNKNOWN: [i32; 5] = [11602, 50, 91, 11600, GONE];

/// What changes of collections may be told besides: no such collection, it exists, no such index, the same index with
/// other options, an index that is being built, a new name that is the old one.
const OF_CATALOG: [i32; 7] = [26, 48, 27, 85, 86, 276, 20];

/// What the end of a transaction may be told besides: it is not there any more.
const OF_TRANSACTION: [i32; 1] = [251];

/// What a read at a time may be told besides: the time is too old, its member does not have it yet.
const OF_TIME: [i32; 2] = [239, 246];

/// What clients did and saw.
pub(super) struct Seen {
    began: Instant,
    operations: Mutex<Vec<Operation>>,
    /// Moves between accounts, and what became of them.
    moves: Mutex<Vec<(u64, End)>>,
    /// What was read at times.
    states: Mutex<BTreeMap<(u32, u32), String>>,
    /// The command of each client that has no answer, and since when.
    waiting: Mutex<BTreeMap<u64, (Duration, String)>>,
    faults: Mutex<Vec<String>>,
}

impl Seen {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            operations: Mutex::default(),
            moves: Mutex::default(),
            states: Mutex::default(),
            waiting: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    fn fault(&self, what: String) {
        self.faults.lock().push(format!("at {:?}: {what}", self.began.elapsed()));
    }

    /// The commands that have no answer.
    pub(super) fn waiting(&self) -> String {
        format!("{:?}", self.waiting.lock())
    }

    /// What a run left, when nothing goes wrong any more. Called in a task.
    pub(super) fn end(&self, world: &Arc<World>, mut faults: Vec<String>) -> Outcome {
        faults.append(&mut self.faults.lock());
        let members: Vec<Running> = (0..world.count()).map(|at| world.member(at).unwrap()).collect();
        let dumps: Vec<Vec<String>> = members.iter().map(Running::dump).collect();
        for (at, dump) in dumps.iter().enumerate() {
            faults.extend(dump.iter().filter(|line| line.contains("is not valid")).map(|line| format!("{at}: {line}")));
            let differs = (0..dump.len().max(dumps[0].len())).find(|line| dump.get(*line) != dumps[0].get(*line));
            if let Some(line) = differs {
                let (first, other) = (dumps[0].get(line), dump.get(line));
                faults.push(format!("member 0 has {first:?} where member {at} has {other:?}"));
            }
        }
        if let Some((_, primary)) = world.primary() {
            faults.extend(locked(&primary));
            faults.extend(self.wrong_moves(&primary));
        }
        let registers = |member: &Running| {
            let (mut applied, mut newest) = (Vec::<(u8, u64)>::new(), Vec::<(u8, u64)>::new());
            for (key, document) in find(member, "registers", "") {
                let key = u8::try_from(key).unwrap();
                let log = numbers(&document, "log");
                applied.extend(log.iter().map(|value| (key, *value)));
                newest.push((key, number(&document, "v").unwrap()));
            }
            (applied, newest)
        };
        let (applied, registers) = members.iter().map(registers).unzip();
        Outcome { operations: self.operations.lock().clone(), applied, registers, faults }
    }

    /// Moves that were not done as a whole, or not as was acknowledged.
    fn wrong_moves(&self, primary: &Running) -> Vec<String> {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, account) in find(primary, "accounts", "") {
            numbers(&account, "moves").into_iter().for_each(|of| *times.entry(of).or_default() += 1);
        }
        let moves = self.moves.lock();
        let is_right = |of: &u64, end: End| {
            let times = times.get(of).copied().unwrap_or_default();
            matches!((end, times), (End::Done | End::Unknown, 2) | (End::Refused | End::Unknown, 0))
        };
        let wrong = moves.iter().filter(|(of, end)| !is_right(of, *end));
        wrong.map(|(of, end)| format!("move {of} is in {:?} accounts, and was told {end:?}", times.get(of))).collect()
    }
}

/// What a write to any document, or a change of any collection, still waits for.
fn locked(primary: &Running) -> Vec<String> {
    let mut locked = Vec::new();
    let mut check = |command: String| match primary.run("app", &command) {
        Answer::Done(_) | Answer::Failed(26, _) => {}
        Answer::Failed(_, what) => locked.push(format!("{command}: {what}")),
    };
    for collection in ["registers", "accounts"] {
        check(format!(
            r#"{{"update": "{collection}", "updates": [{{"q": {{}}, "u": {{"$set": {{"end": 1}}}}, "multi": true}}],
                "maxTimeMS": 500}}"#
        ));
    }
    for collection in ["registers", "accounts", "c0", "c1", "c2"] {
        check(format!(r#"{{"collMod": "{collection}", "validationAction": "error", "maxTimeMS": 500}}"#));
    }
    locked
}

fn number(document: &DocumentBuf, name: &str) -> Option<u64> {
    match document.view().get(name)? {
        Value::Int32(value) => u64::try_from(value).ok(),
        Value::Int64(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

fn numbers(document: &DocumentBuf, name: &str) -> Vec<u64> {
    let Some(Value::Array(values)) = document.view().get(name) else { return Vec::new() };
    let number = |value| match value {
        Value::Int32(value) => u64::try_from(value).unwrap(),
        Value::Int64(value) => u64::try_from(value).unwrap(),
        other => panic!("{other:?}"),
    };
    values.values().map(number).collect()
}

/// The documents of a collection by their keys; none when that fails.
fn find(member: &Running, collection: &str, more: &str) -> Vec<(u64, DocumentBuf)> {
    let command = format!(r#"{{"find": "{collection}", "sort": {{"_id": 1}}, "batchSize": 1000{more}}}"#);
    match member.run("app", &command) {
        Answer::Done(reply) => documents(&reply),
        Answer::Failed(..) => Vec::new(),
    }
}

fn documents(reply: &DocumentBuf) -> Vec<(u64, DocumentBuf)> {
    let Some(Value::Document(cursor)) = reply.view().get("cursor") else { return Vec::new() };
    let Some(Value::Array(batch)) = cursor.get("firstBatch") else { return Vec::new() };
    let of = batch.values().filter_map(|one| match one {
        Value::Document(one) => Some(DocumentBuf::from(one)),
        _ => None,
    });
    of.map(|one| (number(&one, "_id").unwrap(), one)).collect()
}

/// A client.
pub(super) struct Client {
    world: Arc<World>,
    seen: Arc<Seen>,
    number: u64,
    /// The number of the last transaction or retryable write of its session.
    transaction: u64,
    value: u64,
}

impl Client {
    pub(super) fn new(world: Arc<World>, seen: Arc<Seen>, number: u64) -> Self {
        Self { world, seen, number, transaction: 0, value: number << 32 }
    }

    fn below(&self, end: u64) -> u64 {
        self.world.below(end)
    }

    /// The fields of a command in the client's session.
    fn session(&self) -> String {
        let (number, transaction) = (self.number, self.transaction);
        format!(
            r#""lsid": {{"id": {{"$uuid": "00000000-0000-4000-8000-{number:012}"}}}}, "txnNumber": {{"$numberLong": "{transaction}"}}"#
        )
    }

    /// Waits for a moment, and does something.
    pub(super) fn act(&mut self) {
        turns::rest(self.world.millis(60));
        // Who asks for the primary may be told of one that was.
        let primary = self.world.primary().filter(|_| self.below(2) == 0).map(|(_, primary)| primary);
        let Some(member) = primary.or_else(|| self.world.member(self.world.any())) else { return };
        match self.below(12) {
            0..=2 if member.is_writable() => self.write(&member),
            3..=5 => self.read(&member),
            6 | 7 if member.is_writable() => self.transfer(&member),
            8 | 9 => self.read_at(&member),
            10 | 11 if member.is_writable() => self.change(&member),
            _ => {}
        }
    }

    /// Runs a command, most times with a limit of time, and looks whether that was kept.
    fn run(&self, member: &Running, database: &str, body: &str, also: &[i32]) -> Answer {
        let began = Instant::now();
        let limited = self.below(4) > 0;
        let limit = if limited { format!(r#", "maxTimeMS": {LIMIT_MS}"#) } else { String::new() };
        let command = format!("{{{body}{limit}}}");
        let waiting = (self.seen.began.elapsed(), format!("{} of {}: {command}", database, member.core.settings.host));
        self.seen.waiting.lock().insert(self.number, waiting);
        let answer = member.run(database, &command);
        self.seen.waiting.lock().remove(&self.number);
        let late = if also == OF_CATALOG { LATE_TO_CLEAR_UP } else { LATE };
        if limited && began.elapsed() > Duration::from_millis(LIMIT_MS) + late {
            self.seen.fault(format!("a command with a limit of {LIMIT_MS} ms took {:?}: {body}", began.elapsed()));
        }
        if let Answer::Failed(code, what) = &answer
            && ![&REFUSED[..], &UNKNOWN, also].concat().contains(code)
        {
            self.seen.fault(format!("{body} was told {what}"));
        }
        answer
    }

    /// Runs a command on the member, and again on whoever is primary when that may help; what it comes to.
    fn retry(&self, member: &Running, database: &str, body: &str, also: &[i32]) -> End {
        let (mut member, mut end) = (member.clone(), End::Refused);
        for _ in 0..TRIES {
            match self.run(&member, database, body, also) {
                Answer::Done(_) => return End::Done,
                Answer::Failed(code, _) if REFUSED.contains(&code) && code != 10107 => return end,
                Answer::Failed(code, _) if UNKNOWN.contains(&code) => end = End::Unknown,
                Answer::Failed(..) => {}
            }
            turns::rest(self.world.millis(800));
            let Some((_, primary)) = self.world.primary() else { return end };
            member = primary;
        }
        end
    }

    /// Writes to a register.
    fn write(&mut self, member: &Running) {
        let key = u8::try_from(self.below(KEYS)).unwrap();
        let begun = self.seen.began.elapsed();
        let (value, end) = self.write_to(member, key);
        let ended = self.seen.began.elapsed();
        self.seen.operations.lock().push(Operation { key, call: Call::Write(value), begun, ended, end });
    }

    /// Writes a value that no other write has.
    fn write_to(&mut self, member: &Running, key: u8) -> (u64, End) {
        self.value += 1;
        self.transaction += 1;
        let (value, session) = (self.value, self.session());
        let value_of = format!(r#"{{"$numberLong": "{value}"}}"#);
        let body = format!(
            r#""update": "registers", "updates": [{{"q": {{"_id": {key}}},
                "u": {{"$set": {{"v": {value_of}}}, "$push": {{"log": {value_of}}}}}, "upsert": true}}], {session}"#
        );
        (value, self.retry(member, "app", &body, &[]))
    }

    /// Reads a register from a primary that knows that it is.
    fn read(&self, member: &Running) {
        let key = u8::try_from(self.below(KEYS)).unwrap();
        let begun = self.seen.began.elapsed();
        if turns::wait(member.core.consensus().unwrap().linearizable()).is_err() {
            return;
        }
        let body = format!(r#""find": "registers", "filter": {{"_id": {key}}}"#);
        let Answer::Done(reply) = self.run(member, "app", &body, &[]) else { return };
        let seen = documents(&reply).first().map(|(_, document)| number(document, "v").unwrap());
        let operation =
            Operation { key, call: Call::Read(seen), begun, ended: self.seen.began.elapsed(), end: End::Done };
        self.seen.operations.lock().push(operation);
    }

    /// Moves something from one account to another in a transaction.
    fn transfer(&mut self, member: &Running) {
        let (from, to) = (self.below(ACCOUNTS), self.below(ACCOUNTS));
        if from == to {
            return self.open_accounts(member);
        }
        self.value += 1;
        self.transaction += 1;
        let (of, session) = (self.value, self.session());
        let update = |account: u64, by: i64, first: bool| {
            let start = if first { r#", "startTransaction": true"# } else { "" };
            format!(
                r#""update": "accounts", "updates": [{{"q": {{"_id": {account}}},
                    "u": {{"$inc": {{"n": {by}}}, "$push": {{"moves": {{"$numberLong": "{of}"}}}}}}}}],
                    {session}, "autocommit": false{start}"#
            )
        };
        let amount = i64::try_from(self.below(20)).unwrap();
        for (account, by, first) in [(from, -amount, true), (to, amount, false)] {
            let moved = match self.run(member, "app", &update(account, by, first), &[]) {
                Answer::Done(reply) => number(&reply, "n") == Some(1),
                Answer::Failed(..) => false,
            };
            if !moved {
                let abort = format!(r#""abortTransaction": 1, {session}, "autocommit": false"#);
                self.run(member, "admin", &abort, &OF_TRANSACTION);
                return;
            }
            if self.below(4) == 0 {
                turns::rest(self.world.millis(300));
            }
        }
        let commit = format!(r#""commitTransaction": 1, {session}, "autocommit": false"#);
        let end = self.retry(member, "admin", &commit, &OF_TRANSACTION);
        self.seen.moves.lock().push((of, end));
    }

    /// Makes the accounts, all at once.
    fn open_accounts(&mut self, member: &Running) {
        self.transaction += 1;
        let each = TOTAL / i64::try_from(ACCOUNTS).unwrap();
        let all: Vec<String> = (0..ACCOUNTS).map(|account| format!(r#"{{"_id": {account}, "n": {each}}}"#)).collect();
        let session = self.session();
        let insert = format!(
            r#""insert": "accounts", "documents": [{}], {session}, "autocommit": false, "startTransaction": true"#,
            all.join(", ")
        );
        let (end, also) = match self.run(member, "app", &insert, &[]) {
            Answer::Done(_) => ("commitTransaction", &OF_TRANSACTION),
            Answer::Failed(..) => ("abortTransaction", &OF_TRANSACTION),
        };
        self.run(member, "admin", &format!(r#""{end}": 1, {session}, "autocommit": false"#), also);
    }

    /// Reads at a time that some member shows, at another one and again at a third.
    fn read_at(&self, member: &Running) {
        let Some(shows) = self.world.member(self.world.any()) else { return };
        let time = shows.shows();
        for member in [Some(member.clone()), self.world.member(self.world.any())].into_iter().flatten() {
            for collection in ["accounts", "registers"] {
                self.read_state(&member, collection, time);
            }
        }
    }

    fn read_state(&self, member: &Running, collection: &str, time: Timestamp) {
        let Timestamp { time: seconds, increment } = time;
        let body = format!(
            r#""find": "{collection}", "sort": {{"_id": 1}}, "readConcern": {{"level": "snapshot",
                "atClusterTime": {{"$timestamp": {{"t": {seconds}, "i": {increment}}}}}}}"#
        );
        let Answer::Done(reply) = self.run(member, "app", &body, &OF_TIME) else { return };
        let all = documents(&reply);
        let sum: i64 = all.iter().map(|(_, document)| signed(document)).sum();
        if collection == "accounts" && !all.is_empty() && sum != TOTAL {
            self.seen.fault(format!("at {time:?} all accounts have {sum}"));
        }
        let lines: Vec<String> = all.iter().map(|(_, document)| document.view().to_json()).collect();
        let text = format!("{collection}: {}", lines.join("\n"));
        let mut states = self.seen.states.lock();
        let key = (seconds, increment * 2 + u32::from(collection == "accounts"));
        let known = states.entry(key).or_insert_with(|| text.clone());
        if *known != text {
            self.seen.fault(format!("at {time:?} one member had\n{known}\nand another one\n{text}"));
        }
    }

    /// Changes a collection or its indexes, or writes to it.
    fn change(&mut self, member: &Running) {
        let name = format!("c{}", self.below(3));
        let (a, b) = (self.below(50), self.below(50));
        let unique = self.below(2) == 0;
        let body = match self.below(10) {
            0 if self.below(2) == 0 => format!(r#""create": "{name}""#),
            0 => format!(r#""create": "{name}", "capped": true, "size": 4096"#),
            1 => format!(r#""drop": "{name}""#),
            2 => format!(
                r#""createIndexes": "{name}", "indexes": [{{"key": {{"a": 1}}, "name": "a", "unique": {unique}}}]"#
            ),
            3 => format!(r#""dropIndexes": "{name}", "index": "a""#),
            4 => {
                let rename = format!(r#""renameCollection": "app.{name}", "to": "app.c{}""#, self.below(3));
                self.run(member, "admin", &rename, &OF_CATALOG);
                return;
            }
            5 => format!(r#""delete": "{name}", "deletes": [{{"q": {{"a": {{"$gte": {a}}}}}, "limit": 1}}]"#),
            _ => {
                self.transaction += 1;
                let session = self.session();
                let text = "x".repeat(if self.below(8) == 0 { TEXT_BYTES } else { 0 });
                let documents = format!(r#"{{"a": {a}, "t": "{text}"}}, {{"a": {b}, "t": "{text}"}}"#);
                let insert = format!(r#""insert": "{name}", "documents": [{documents}], {session}"#);
                self.retry(member, "app", &insert, &OF_CATALOG);
                return;
            }
        };
        self.run(member, "app", &body, &OF_CATALOG);
    }
}

fn signed(document: &DocumentBuf) -> i64 {
    match document.view().get("n") {
        Some(Value::Int32(value)) => i64::from(value),
        Some(Value::Int64(value)) => value,
        _ => 0,
    }
}
