//! The simulated machines, the network between them, and what happens to both.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, Layout, Options, Prepared, TableId, TableOptions};
use spinney_testkit::rng::Rng;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use super::history::{Call, End, Operation, Outcome};
use crate::base::caller::{Caller, Opened, Reply};
use crate::base::config::Member;
use crate::base::error::Error;
use crate::base::pipe::Pipe;
use crate::base::settings::Settings;
use crate::base::status::Status;
use crate::entry::change::{Change, Commit, Commits};
use crate::node::core::Core;
use crate::node::pending::PendingCommits;
use crate::node::proposals::{Proposals, Proposed, Recorded};
use crate::node::start::start;
use crate::raft::runtime;
use crate::storage::applier::{Applier, Place, Target, Waiter};
use crate::storage::log::Log;
use crate::storage::rows::Rows;

const CLIENTS: u64 = 4;
const KEYS: u64 = 3;
const REGISTERS: &str = "registers";
const HISTORY: &str = "history";

/// How long things go wrong while clients work, by virtual time.
const WORK: Duration = Duration::from_secs(20);

/// How long clients work on afterwards.
const WORK_AFTER: Duration = Duration::from_secs(6);

/// How long members have in the end until all have the same.
const QUIET: Duration = Duration::from_secs(4);

/// How long it may take from the last fault until a member takes writes, and until each call has an answer.
const LIVES_WITHIN: Duration = Duration::from_secs(5);

/// The machines and the network.
pub(crate) struct World {
    machines: Vec<SimEnv>,
    /// Bytes of entries that members keep in memory.
    log_cache_bytes: usize,
    state: Mutex<State>,
}

struct State {
    random: Rng,
    members: Vec<Option<Running>>,
    /// The directions of links that are cut: from, to.
    cut: BTreeSet<(usize, usize)>,
    /// Of a thousand messages, how many are lost.
    lost: u64,
    /// Messages with more bytes are lost, with the connection that they are on: those that carry entries.
    bytes_max: usize,
}

#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) core: Arc<Core>,
    target: Arc<Registers>,
    proposals: Arc<Proposals<Prepared>>,
}

impl World {
    /// A number below `end`.
    fn below(&self, end: u64) -> u64 {
        self.state.lock().random.number() % end
    }

    fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    pub(crate) fn member(&self, at: usize) -> Option<Running> {
        self.state.lock().members[at].clone()
    }

    /// How many members the set has.
    fn count(&self) -> usize {
        self.machines.len()
    }

    /// One of the members.
    fn any(&self) -> usize {
        usize::try_from(self.below(self.count() as u64)).unwrap()
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        !self.state.lock().cut.contains(&(from, to))
    }

    /// Cuts all directions of links that are `wanted`.
    pub(crate) fn cut(&self, wanted: impl Fn(usize, usize) -> bool) {
        let all = (0..self.count()).flat_map(|from| (0..self.count()).map(move |to| (from, to)));
        self.state.lock().cut.extend(all.filter(|(from, to)| from != to && wanted(*from, *to)));
    }

    /// Cuts a member off.
    fn isolate(&self, at: usize) {
        self.cut(|from, to| from == at || to == at);
    }

    pub(crate) fn heal(&self) {
        self.state.lock().cut.clear();
    }

    /// The member that takes writes, if there is one.
    fn primary(&self) -> Option<(usize, Running)> {
        let all = (0..self.count()).filter_map(|at| Some((at, self.member(at)?)));
        all.into_iter().find(|(_, member)| member.core.watch().borrow().writable)
    }
}

/// The network as a member sees it.
struct Link {
    world: Weak<World>,
    from: usize,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Caller for Link {
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> Reply {
        let (world, from, bytes) = (self.world.clone(), self.from, request.len());
        let to = usize::try_from(member.id).unwrap_or(usize::MAX);
        Box::pin(async move {
            let begun = Instant::now();
            let late = || io::Error::from(io::ErrorKind::TimedOut);
            let pass = async |world: &Arc<World>, from: usize, to: usize| {
                let slow = world.below(50) == 0;
                sleep(world.millis(if slow { 400 } else { 8 })).await;
                let lost = world.below(1000) < world.state.lock().lost || bytes > world.state.lock().bytes_max;
                if lost || !world.reaches(from, to) || begun.elapsed() > timeout {
                    sleep(timeout.saturating_sub(begun.elapsed())).await;
                    return Err(late());
                }
                Ok(())
            };
            let world = world.upgrade().ok_or_else(late)?;
            pass(&world, from, to).await?;
            let member = world.member(to).ok_or(io::ErrorKind::ConnectionRefused)?;
            let reply = member.core.handle(&request).await.map_err(|error| io::Error::other(error.to_string()))?;
            pass(&world, to, from).await?;
            Ok(reply)
        })
    }

    fn open(&self, member: &Member, timeout: Duration) -> Opened {
        let (world, from) = (self.world.clone(), self.from);
        let to = usize::try_from(member.id).unwrap_or(usize::MAX);
        Box::pin(async move {
            let known = world.upgrade().ok_or(io::ErrorKind::TimedOut)?;
            sleep(known.millis(8)).await;
            if !known.reaches(from, to) || !known.reaches(to, from) {
                sleep(timeout).await;
                return Err(io::ErrorKind::TimedOut.into());
            }
            let member = known.member(to).ok_or(io::ErrorKind::ConnectionRefused)?;
            let (requests, sent) = unbounded_channel();
            let (received, taken) = unbounded_channel();
            tokio::spawn(carry(world.clone(), (from, to), sent, received));
            let (replies, sent) = unbounded_channel();
            let (received, answers) = unbounded_channel();
            tokio::spawn(carry(world, (to, from), sent, received));
            let side = Box::new(Side { to: replies, from: taken });
            tokio::spawn(async move { drop(member.core.serve(side).await) });
            Ok(Box::new(Side { to: requests, from: answers }) as Box<dyn Pipe>)
        })
    }
}

/// A connection as one side sees it.
#[derive(Debug)]
struct Side {
    to: UnboundedSender<Vec<u8>>,
    from: UnboundedReceiver<Vec<u8>>,
}

impl Pipe for Side {
    fn send(&mut self, encode: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<()> {
        let mut message = Vec::new();
        encode(&mut message);
        self.to.send(message).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn waiting_bytes(&self) -> usize {
        0
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        self.from.poll_recv(context).map(|message| message.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Carries the messages of one direction of a connection in their order, until the connection breaks.
async fn carry(
    world: Weak<World>,
    (from, to): (usize, usize),
    mut sent: UnboundedReceiver<Vec<u8>>,
    received: UnboundedSender<Vec<u8>>,
) {
    while let Some(message) = sent.recv().await {
        let Some(world) = world.upgrade() else { return };
        let slow = world.below(50) == 0;
        sleep(world.millis(if slow { 400 } else { 8 })).await;
        if world.below(1000) < world.state.lock().lost {
            if world.below(2) == 0 {
                return;
            }
            // It is sent again.
            sleep(Duration::from_millis(200)).await;
        }
        if message.len() > world.state.lock().bytes_max {
            sleep(world.millis(2000)).await;
            return;
        }
        // It is sent again until it arrives, or one side gives up.
        let patience = world.millis(4000);
        let begun = Instant::now();
        while !world.reaches(from, to) {
            if begun.elapsed() > patience {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        if received.send(message).is_err() {
            return;
        }
    }
}

impl Recorded for Prepared {
    fn record(&self) -> &[u8] {
        self.record()
    }

    fn stamp(&mut self) {}

    fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        self.tables()
    }
}

/// Registers, and the writes to them in their order, in tables of the engine.
#[derive(Debug)]
struct Registers {
    database: Database,
    identity: u64,
    pending: Arc<PendingCommits<Prepared>>,
    next: Mutex<u64>,
}

impl Target for Registers {
    fn commit(
        &self,
        entry: &Commits<'_>,
        commit: &Commit<'_>,
        place: Place<'_>,
        add: &dyn Fn(&mut Batch),
    ) -> spinney::Result<Option<Waiter>> {
        let mut batch = Batch::new();
        let table = |id: TableId| {
            let name = entry.tables.iter().find(|(known, _)| *known == id.0).map(|(_, name)| *name);
            Ok(self.database.table(name.unwrap())?.unwrap())
        };
        batch.append_record(commit.record, table)?;
        let (changes, _) = spinney::decode_record(commit.record)?;
        let mut line = changes[0].key.to_vec();
        line.extend_from_slice(changes[0].value);
        batch.put(&self.database.table(HISTORY)?.unwrap(), place.position.to_be_bytes(), line);
        add(&mut batch);
        if let Some((note, at)) = place.stored {
            batch.repeat(note, at..at + commit.record.len());
        }
        self.database.write_with(&batch, Durability::Buffered)?;
        if entry.identity == self.identity {
            return Ok(self.pending.take(commit.number).map(|(_, waiter)| waiter));
        }
        Ok(None)
    }

    fn position(&self) -> spinney::Result<Option<u64>> {
        let last = self.database.table(HISTORY)?.unwrap().range(..).next_back().transpose()?;
        Ok(last.map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())))
    }

    fn create_table(&self, name: &str, layout: Layout) -> spinney::Result<()> {
        self.database.open_or_create_table(name, TableOptions::default().layout(layout)).map(drop)
    }

    fn drop_tables(&self, names: &[&str]) -> spinney::Result<()> {
        self.database.sync()?;
        self.database.drop_tables(names.iter().copied())
    }

    fn settled(&self, term: u64) {
        self.pending.settle(term);
    }
}

fn host(at: usize) -> String {
    format!("m{at}")
}

/// Opens a member on its machine.
async fn open(world: &Arc<World>, at: usize) {
    let env = world.machines[at].env();
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10).log_bytes_max(8 << 20);
    let database = Database::builder("/db").options(options.log_keep_bytes(4 << 20)).env(env.clone()).open().unwrap();
    for table in [REGISTERS, HISTORY] {
        database.open_or_create_table(table, TableOptions::default()).unwrap();
    }
    let rows = Rows::open(&database).unwrap();
    let identity = rows.identity(|| 100 + u64::try_from(at).unwrap()).unwrap();
    let log = Log::open(rows.clone(), world.log_cache_bytes, &*env.threads).unwrap();
    let applier = Applier::new(rows, log.stored(), &*env.threads).unwrap();
    let link = Link { world: Arc::downgrade(world), from: at };
    let core = Arc::new(Core::new(Settings::new("rs", host(at)), identity, log, applier, Arc::new(link)));
    let next = Mutex::new(world.below(u64::MAX));
    let pending = Arc::default();
    let target = Arc::new(Registers { database, identity, pending: Arc::clone(&pending), next });
    start(&core, Arc::clone(&target) as _).await.unwrap();
    let proposals = Arc::new(Proposals::new(pending));
    world.state.lock().members[at] = Some(Running { core, target, proposals });
}

/// Takes the power from a member's machine.
async fn crash(world: &Arc<World>, at: usize) {
    let Some(running) = world.state.lock().members[at].take() else { return };
    let profile = if world.below(2) == 0 { CrashProfile::Strict } else { CrashProfile::Random };
    world.machines[at].power_crash(profile);
    if let Ok(consensus) = running.core.consensus() {
        consensus.end().await;
    }
    running.target.pending.clear();
}

/// What happens to members and network.
async fn misfortune(world: Arc<World>) {
    loop {
        sleep(Duration::from_millis(200) + world.millis(2500)).await;
        let (at, other) = (world.any(), world.any());
        let is_half = {
            let half = world.below(1 << world.count());
            move |at: usize| half >> at & 1 == 1
        };
        match world.below(11) {
            0 => world.isolate(at),
            1 => world.primary().iter().for_each(|(primary, _)| world.isolate(*primary)),
            2 => world.cut(|from, _| from == at),
            3 => world.cut(|_, to| to == at),
            4 => world.cut(|from, to| [from, to] == [at, other] || [to, from] == [at, other]),
            5 => world.cut(|from, to| [from, to] == [at, other]),
            6 => world.cut(|from, to| is_half(from) != is_half(to)),
            7 | 8 => world.heal(),
            9 => {
                let lost = world.below(4) * 20;
                world.state.lock().lost = lost;
            }
            _ => {
                crash(&world, at).await;
                sleep(world.millis(1500)).await;
                open(&world, at).await;
            }
        }
    }
}

/// Writes and reads until it is ended.
async fn client(
    world: Arc<World>,
    number: u64,
    began: Instant,
    operations: Arc<Mutex<Vec<Operation>>>,
    ended: Arc<AtomicBool>,
) {
    let mut value = number << 32;
    while !ended.load(Ordering::Relaxed) {
        sleep(world.millis(60)).await;
        let at = world.any();
        let Some(member) = world.member(at) else { continue };
        let standing = member.core.watch().borrow().clone();
        let key = u8::try_from(world.below(KEYS)).unwrap();
        let begun = began.elapsed();
        let (call, end) = if world.below(3) == 0 {
            if member.core.consensus().unwrap().linearizable().await.is_err() {
                continue;
            }
            let Ok(Some(table)) = member.target.database.table(REGISTERS) else { continue };
            let Ok(seen) = table.get([key]) else { continue };
            (Call::Read(seen.map(|bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()))), End::Done)
        } else {
            let Some(term) = standing.leading.filter(|_| standing.writable) else { continue };
            value += 1;
            (Call::Write(value), write(&member, term, key, value).await)
        };
        let operation = Operation { key, call, begun, ended: began.elapsed(), end };
        operations.lock().push(operation);
    }
}

/// Writes to a register.
pub(crate) async fn write(member: &Running, term: u64, key: u8, value: u64) -> End {
    let Running { core, target, proposals } = member;
    let Ok(Some(table)) = target.database.table(REGISTERS) else { return End::Refused };
    let mut txn = target.database.begin();
    txn.set_lock_wait(Duration::ZERO);
    if txn.put(&table, [key], value.to_be_bytes()).is_err() {
        return End::Refused;
    }
    let Ok(prepared) = txn.prepare() else { return End::Refused };
    let number = {
        let mut next = target.next.lock();
        *next = next.wrapping_add(1);
        *next
    };
    let proposed = Proposed { term, number, commit: prepared };
    let (mut told, applied) = proposals.add(core, &Handle::current(), proposed);
    let told = tokio::select! {
        biased;
        applied = applied => applied.or_else(|_| told.try_recv().unwrap_or(Err(Error::Interrupted))),
        told = &mut told => told.unwrap_or(Err(Error::Interrupted)),
    };
    match told {
        Ok(()) => End::Done,
        Err(Error::NotPrimary(_)) => End::Refused,
        Err(_) => End::Unknown,
    }
}

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Outcome {
    within(seed, None, async |world| live(world).await)
}

/// Has a primary of a set propose a change that no other member gets, lose its majority, and lead again when it reaches
/// that by messages too small for the change. Checks that it takes no writes before the change is applied.
pub(crate) fn regain(seed: u64) {
    within(seed, Some(3), async |world| regain_majority(world).await);
}

async fn regain_majority(world: &Arc<World>) {
    const NAME: &str = "a name that makes the message with the change larger than those of elections and heartbeats, \
                        which the network lets through; of about two hundred bytes, as no other message is so large here";
    let (at, Running { core, target, .. }) = loop {
        sleep(Duration::from_millis(50)).await;
        if let Some(primary) = world.primary() {
            break primary;
        }
    };
    let others = (0..world.count()).filter(|other| *other != at);
    // Nobody else asks for an election: it leads again.
    others.clone().for_each(|other| world.member(other).unwrap().core.freeze(Duration::from_secs(600)));
    sleep(Duration::from_secs(1)).await;
    let term = core.watch().borrow().leading.unwrap();
    others.clone().for_each(|other| world.isolate(other));
    let proposed = core.propose(term, Change::CreateTable(NAME, Layout::BTree).encode()).await;
    assert!(matches!(proposed, Err(Error::Interrupted)), "{proposed:?}");
    let mut standing = core.watch();
    {
        let mut state = world.state.lock();
        state.cut.clear();
        state.bytes_max = NAME.len();
    }
    standing.wait_for(|standing| standing.leading.is_some()).await.unwrap();
    let is_there = || target.database.table(NAME).unwrap().is_some();
    for _ in 0..300 {
        sleep(Duration::from_millis(10)).await;
        assert!(!is_there());
        assert!(!standing.borrow().writable, "it takes writes before what it had proposed is applied");
    }
    world.state.lock().bytes_max = usize::MAX;
    standing.wait_for(|standing| standing.writable).await.unwrap();
    assert!(standing.borrow().leading.is_some() && is_there());
}

/// A set of a seed, of three to five members unless it is said how many, for as long as something goes on with it.
pub(crate) fn within<T>(seed: u64, members: Option<usize>, play: impl AsyncFnOnce(&Arc<World>) -> T) -> T {
    runtime::seed(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let count = members.unwrap_or(3 + usize::try_from(seed % 3).unwrap());
    let machines: Vec<_> =
        (0..count).map(|at| SimEnv::new(seed.wrapping_mul(31) + u64::try_from(at).unwrap())).collect();
    let members = (0..count).map(|_| None).collect();
    let state = State { random: Rng::new(seed), members, cut: BTreeSet::new(), lost: 0, bytes_max: usize::MAX };
    // From a few entries to all of them.
    let log_cache_bytes = 1 << (10 + seed % 8);
    let world = Arc::new(World { machines, log_cache_bytes, state: Mutex::new(state) });
    let outcome = runtime.block_on(async {
        begin(&world).await;
        play(&world).await
    });
    world.state.lock().members.clear();
    outcome
}

/// Opens the members and makes them a set.
async fn begin(world: &Arc<World>) {
    for at in 0..world.count() {
        open(world, at).await;
    }
    let all = (0..world.count()).map(|at| Member::new(u64::try_from(at).unwrap(), host(at))).collect();
    world.member(0).unwrap().core.initiate(all, None).await.unwrap();
}

/// Members that fail and clients that go on.
async fn live(world: &Arc<World>) -> Outcome {
    let (began, operations, ended) = (Instant::now(), Arc::default(), Arc::new(AtomicBool::new(false)));
    let misfortune = tokio::spawn(misfortune(Arc::clone(world)));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| {
            let (world, operations, ended) = (Arc::clone(world), Arc::clone(&operations), Arc::clone(&ended));
            tokio::spawn(client(world, number, began, operations, ended))
        })
        .collect();
    sleep(WORK).await;
    // A member that is down is opened below.
    misfortune.abort();
    world.state.lock().lost = 0;
    for at in 0..world.count() {
        if world.member(at).is_none() {
            open(world, at).await;
        }
    }
    world.heal();
    let mut faults = Vec::new();
    let lives = timeout(LIVES_WITHIN, async {
        while world.primary().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    if lives.await.is_err() {
        faults.push(format!("no member takes writes {LIVES_WITHIN:?} after the last fault: {:#?}", statuses(world)));
    }
    sleep(WORK_AFTER).await;
    ended.store(true, Ordering::Relaxed);
    let answered = timeout(LIVES_WITHIN, async {
        for client in clients {
            client.await.unwrap();
        }
    });
    if answered.await.is_err() {
        faults.push(format!("a call has no answer {LIVES_WITHIN:?} after the others: {:#?}", statuses(world)));
    }
    sleep(QUIET).await;
    faults.extend(held(world).await);
    let operations = operations.lock().clone();
    let mut outcome = Outcome { operations, applied: Vec::new(), registers: Vec::new(), faults };
    for at in 0..world.count() {
        let database = world.member(at).unwrap().target.database.clone();
        let snapshot = database.snapshot();
        let table = |name: &str| database.table(name).unwrap().unwrap();
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
        let lines = snapshot.range(&table(HISTORY), ..).map(|entry| entry.unwrap().1);
        outcome.applied.push(lines.map(|line| (line[0], number(&line[1..]))).collect());
        let rows = snapshot.range(&table(REGISTERS), ..).map(Result::unwrap);
        outcome.registers.push(rows.map(|(key, value)| (key[0], number(&value))).collect());
    }
    outcome
}

fn statuses(world: &World) -> Vec<Status> {
    (0..world.count()).filter_map(|at| Some(world.member(at)?.core.status())).collect()
}

/// What members hold although nothing is under way: locks of commits, and commits that wait.
async fn held(world: &Arc<World>) -> Vec<String> {
    let mut held = Vec::new();
    for at in 0..world.count() {
        let Running { target, proposals, .. } = world.member(at).unwrap();
        let (pending, waiting) = (target.pending.len(), proposals.waiting());
        if (pending, waiting) != (0, 0) {
            held.push(format!("member {at} holds the locks of {pending} commits, and {waiting} wait"));
        }
    }
    held
}
