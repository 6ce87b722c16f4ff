//! What happens to a simulated set: it is made, members and links fail while clients work, and it must live on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::Layout;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney_document::base::{Environment, Interrupt};
use spinney_testkit::rng::Rng;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, Seen};
use super::history::Outcome;
use super::member::{Machine, Running, Virtual};
use super::network::Link;
use super::turns::{self, in_turns};
use super::workers::work;
use super::world::{State, World};
use crate::base::blocking::IN_TURNS;
use crate::base::config::Member;
use crate::base::error::Error;
use crate::base::status::Status;
use crate::entry::change::Change;
use crate::raft::runtime;

const CLIENTS: u64 = 4;

/// How long things go wrong while clients work, by virtual time.
const WORK: Duration = Duration::from_secs(12);

/// How long clients work on afterwards.
const WORK_AFTER: Duration = Duration::from_secs(4);

/// How long members have in the end until all have the same.
const QUIET: Duration = Duration::from_secs(3);

/// How long it may take from the last fault until a member takes writes, and until each call has an answer.
const LIVES_WITHIN: Duration = Duration::from_secs(5);

fn host(at: usize) -> String {
    format!("m{at}")
}

/// Opens a member on its machine.
async fn open(world: &Arc<World>, at: usize) {
    let running = Arc::new(Mutex::new(None));
    let machine = Machine {
        env: world.machines[at].env(),
        clock: Arc::clone(&world.clocks[at]),
        host: host(at),
        number: u64::try_from(at).unwrap(),
        memory_bytes: world.memory_bytes,
        log_cache_bytes: world.log_cache_bytes,
        random: world.below(u64::MAX),
    };
    let (link, opened) = (Arc::new(Link { world: Arc::downgrade(world), from: at }), Arc::clone(&running));
    in_turns(move || *opened.lock() = Some(Running::open(machine, link))).await;
    let running = running.lock().take().unwrap();
    running.take_part().await;
    world.state.lock().members[at] = Some(running);
}

/// Takes the power from a member's machine: now, or within one of its next calls to the disk.
async fn crash(world: &Arc<World>, at: usize) {
    let machine = &world.machines[at];
    if world.below(2) == 0 {
        machine.crash_at(machine.op_count() + world.below(60));
        let _is_down = timeout(world.millis(500), async {
            while !machine.is_down() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    let Some(running) = world.state.lock().members[at].take() else { return };
    let profile = if world.below(2) == 0 { CrashProfile::Strict } else { CrashProfile::Random };
    machine.power_crash(profile);
    machine.clear_faults();
    machine.crash_at(u64::MAX);
    end(running).await;
}

/// What a process does ends, and what it holds is gone.
async fn end(running: Running) {
    if let Ok(consensus) = running.core.consensus() {
        consensus.end().await;
    }
    running.gone.store(true, Ordering::Relaxed);
    running.service.state().operations.shut_down();
    in_turns(move || {
        running.agreement.end();
        drop(running);
    })
    .await;
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
        match world.below(12) {
            0 => world.isolate(at),
            1 => world.primary().iter().for_each(|(primary, _)| world.isolate(*primary)),
            2 => world.cut(|from, _| from == at),
            3 => world.cut(|_, to| to == at),
            4 => world.cut(|from, to| [from, to] == [at, other] || [to, from] == [at, other]),
            5 => world.cut(|from, to| [from, to] == [at, other]),
            6 => world.cut(|from, to| is_half(from) != is_half(to)),
            7 | 8 => world.heal(),
            // For a moment: it may lead on in the same term.
            9 => {
                let Some((primary, _)) = world.primary() else { continue };
                world.isolate(primary);
                sleep(Duration::from_millis(1500) + world.millis(1600)).await;
                world.heal();
            }
            10 => {
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

/// Runs a seed.
pub(super) fn run(seed: u64) -> Outcome {
    within(seed, None, async |world| live(world).await)
}

/// Has a primary of a set propose a change that no other member gets, lose its majority, and lead again when it reaches
/// that by messages too small for the change. Checks that it takes no writes before the change is applied.
pub(super) fn regain(seed: u64) {
    within(seed, Some(3), async |world| regain_majority(world).await);
}

async fn regain_majority(world: &Arc<World>) {
    const NAME: &str = "a name that makes the message with the change larger than those of elections and heartbeats, \
                        which the network lets through; of about two hundred bytes, as no other message is so large here";
    let (at, member) = loop {
        sleep(Duration::from_millis(50)).await;
        if let Some(primary) = world.primary() {
            break primary;
        }
    };
    let core = &member.core;
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
    let is_there = || member.database().engine().table(NAME).unwrap().is_some();
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
pub(super) fn within<T>(seed: u64, members: Option<usize>, play: impl AsyncFnOnce(&Arc<World>) -> T) -> T {
    runtime::seed(seed);
    IN_TURNS.set(Some(turns::boxed));
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let count = members.unwrap_or(3 + usize::try_from(seed % 3).unwrap());
    let outcome = runtime.block_on(async {
        let began = Instant::now();
        let numbers = || (0..count).map(|at| seed.wrapping_mul(31) + u64::try_from(at).unwrap());
        let mut random = Rng::new(seed);
        let ahead_ms = |random: &mut Rng| i64::try_from(random.number() % 2000).unwrap() - 1000;
        let clocks = numbers().map(|number| Arc::new(Virtual::new(began, ahead_ms(&mut random), number))).collect();
        let members = (0..count).map(|_| None).collect();
        let world = Arc::new(World {
            machines: numbers().map(SimEnv::new).collect(),
            clocks,
            // From a few entries to all of them.
            log_cache_bytes: 1 << (10 + seed % 8),
            memory_bytes: [1, 4, 16][usize::try_from(seed / 3 % 3).unwrap()] << 20,
            state: Mutex::new(State { random, members, cut: BTreeSet::new(), lost: 0, bytes_max: usize::MAX }),
        });
        // Where the runtime's own thread waits for another one, it is told so.
        let environment = Arc::clone(&world.clocks[0]) as Arc<dyn Environment>;
        let _working = Arc::new(Interrupt::after(environment, 0)).begin();
        begin(&world).await;
        let outcome = play(&world).await;
        let members = std::mem::take(&mut world.state.lock().members);
        for running in members.into_iter().flatten() {
            end(running).await;
        }
        outcome
    });
    IN_TURNS.set(None);
    outcome
}

/// Opens the members and makes them a set.
async fn begin(world: &Arc<World>) {
    for at in 0..world.count() {
        work(world, at);
        open(world, at).await;
    }
    let all = (0..world.count()).map(|at| Member::new(u64::try_from(at).unwrap(), host(at))).collect();
    world.member(0).unwrap().core.initiate(all, None).await.unwrap();
}

/// Members that fail and clients that go on.
async fn live(world: &Arc<World>) -> Outcome {
    let (seen, ended) = (Arc::new(Seen::new(Instant::now())), Arc::new(AtomicBool::new(false)));
    let misfortune = tokio::spawn(misfortune(Arc::clone(world)));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| {
            let mut client = Client::new(Arc::clone(world), Arc::clone(&seen), number);
            let ended = Arc::clone(&ended);
            tokio::spawn(in_turns(move || {
                while !ended.load(Ordering::Relaxed) {
                    client.act();
                }
            }))
        })
        .collect();
    sleep(WORK).await;
    // A member that is down is opened below.
    misfortune.abort();
    world.state.lock().lost = 0;
    for at in 0..world.count() {
        world.machines[at].clear_faults();
        world.machines[at].crash_at(u64::MAX);
        if world.machines[at].is_down() {
            crash(world, at).await;
        }
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
        faults.push(format!("no member takes writes {LIVES_WITHIN:?} after the last fault\n{}", statuses(world)));
    }
    sleep(WORK_AFTER).await;
    ended.store(true, Ordering::Relaxed);
    let answered = timeout(LIVES_WITHIN, async {
        for client in clients {
            client.await.unwrap();
        }
    });
    if answered.await.is_err() {
        let waiting = seen.waiting();
        faults.push(format!("no answer {LIVES_WITHIN:?} after the others: {waiting}\n{}", statuses(world)));
    }
    sleep(QUIET).await;
    faults.extend(held(world));
    let statuses = statuses(world);
    let outcome = Arc::new(Mutex::new(None));
    let (found, of, seen) = (Arc::clone(&outcome), Arc::clone(world), Arc::clone(&seen));
    in_turns(move || *found.lock() = Some(seen.end(&of, faults))).await;
    let outcome = outcome.lock().take();
    let mut outcome = outcome.unwrap();
    outcome.faults.iter_mut().for_each(|fault| fault.push_str(&format!("\n{statuses}")));
    outcome
}

/// What the members know, a line each.
fn statuses(world: &World) -> String {
    let line = |at: usize| {
        let Status { role, writable, term, primary, last, committed, applied, stalled, problem, failure, .. } =
            world.member(at)?.core.status();
        let shows = world.member(at)?.shows();
        Some(format!(
            "member {at}: {role:?} writable {writable} term {term} primary {primary:?} last {last} committed {committed} \
             applied {applied} stalled {stalled:?} problem {problem:?} failure {failure:?} shows {shows:?}\n"
        ))
    };
    (0..world.count()).filter_map(line).collect()
}

/// What members hold although nothing is under way: locks of commits, and commits that wait.
fn held(world: &Arc<World>) -> Vec<String> {
    let mut held = Vec::new();
    for at in 0..world.count() {
        let agreement = world.member(at).unwrap().agreement;
        let (pending, waiting) = (agreement.pending.len(), agreement.proposals.waiting());
        if (pending, waiting) != (0, 0) {
            held.push(format!("member {at} holds the locks of {pending} commits, and {waiting} wait"));
        }
    }
    held
}
