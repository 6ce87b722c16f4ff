//! The clients of a step: threads that call, and what they found.

use super::plan::{Did, End, Plan, Role, Work};
use super::timeline::Timeline;
use crate::clock::Clock;
use crate::driver::{Client, Null, Store};
use crate::measure::{Latency, thread_cpu};
use crate::stop::Stop;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What the clients of one role found.
#[derive(Debug)]
pub(super) struct RoleResult {
    /// One for each kind.
    pub(super) kinds: Vec<KindResult>,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) foreground_cpu: Duration,
    pub(super) timeline: Timeline,
    pub(super) client_rate: Option<f64>,
    /// The longest that a call should take.
    limit: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct KindResult {
    pub(super) operations: u64,
    pub(super) latency: Latency,
    pub(super) corrected: Latency,
    /// Calls that took longer than the limit, if there is one: from the moment at which they were due.
    pub(super) over_limit: u64,
}

/// What all clients of a step see.
struct Shared<'a> {
    store: &'a dyn Store,
    clock: &'a Clock,
    began: Duration,
    stop: &'a Stop,
    limit: Option<Duration>,
    /// A client failed: the others end too.
    failed: AtomicBool,
    /// Clients of the first role that still run. Publishes what they did.
    first_left: AtomicU64,
    /// Calls of the first role so far, for progress only.
    done: AtomicU64,
}

/// Calls between two reports of progress, unless they take long.
const STRIDE: u64 = 64;

/// How long a client pauses that must wait for another one.
const PAUSE: Duration = Duration::from_micros(50);

/// How often `watch` is called.
const PERIOD: Duration = Duration::from_millis(100);

/// Runs all clients of a step to their end. Meanwhile `watch` is called with the calls of the first role so far.
pub(super) fn run(
    plan: &Plan<'_>,
    store: &dyn Store,
    clock: &Clock,
    (stop, limit): (&Stop, Option<Duration>),
    mut watch: impl FnMut(u64),
) -> Result<Vec<RoleResult>> {
    let first_left = AtomicU64::new(plan.roles.first().map_or(0, |role| role.clients as u64));
    let (failed, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let shared = Shared { store, clock, began: clock.now(), stop, limit, failed, first_left, done };
    let mut results: Vec<RoleResult> = plan.roles.iter().map(|role| RoleResult::of(role, limit)).collect();
    std::thread::scope(|scope| {
        let (alive, all_ended) = channel::<()>();
        let mut threads = Vec::new();
        for (at, role) in plan.roles.iter().enumerate() {
            for number in 0..role.clients {
                let (shared, alive) = (&shared, alive.clone());
                let thread = scope.spawn(move || {
                    let result = run_client(role, number, at == 0, shared);
                    if result.is_err() {
                        shared.failed.store(true, Ordering::Relaxed);
                    }
                    if at == 0 {
                        shared.first_left.fetch_sub(1, Ordering::Release);
                    }
                    drop(alive);
                    result
                });
                threads.push((at, thread));
            }
        }
        drop(alive);
        while matches!(all_ended.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout)) {
            watch(shared.done.load(Ordering::Relaxed));
        }
        threads.into_iter().try_for_each(|(at, thread)| match thread.join() {
            Ok(result) => result.map(|result| results[at].add(&result)),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(results)
}

fn run_client(role: &Role<'_>, number: usize, first: bool, shared: &Shared<'_>) -> Result<RoleResult> {
    let mut client = shared.store.client()?;
    let mut work = (role.make)(number);
    let cpu_before = thread_cpu()?;
    let mut result = RoleResult::of(role, shared.limit);
    // Calls of one client per second.
    let client_rate = role.rate.map(|rate| rate / role.clients as f64);
    let mut before = shared.clock.now();
    let mut calls = 0_u64;
    // The calls that were told of, and when: some at a time, so that clients seldom meet, but none later than is seen.
    let mut told = (0_u64, before);
    loop {
        let at = number as u64 + calls * role.clients as u64;
        if shared.ended(role, at, before) {
            break;
        }
        let mut wanted = before;
        if let Some(rate) = client_rate {
            wanted = shared.began + Duration::from_secs_f64(calls as f64 / rate);
            shared.sleep_until(wanted, role);
            before = shared.clock.now();
        }
        // Asked before the call, so that the call sees all that the others did.
        let first_ended = shared.first_left.load(Ordering::Acquire) == 0;
        let did = work.call(&mut *client, at)?;
        let now = shared.clock.now();
        if did.idle {
            // Nobody is left to wait for.
            if !first && first_ended {
                break;
            }
            shared.clock.sleep(PAUSE);
            before = shared.clock.now();
            continue;
        }
        if let Some(then) = &role.then {
            then(number, &did);
        }
        let took = now - before;
        result.record(did, took, now.saturating_sub(wanted));
        result.timeline.record(now.saturating_sub(shared.began), took, if first { did.operations } else { 0 });
        before = now;
        calls += 1;
        if first && (calls - told.0 == STRIDE || now.saturating_sub(told.1) > PERIOD) {
            shared.done.fetch_add(calls - told.0, Ordering::Relaxed);
            told = (calls, now);
        }
    }
    result.foreground_cpu = thread_cpu()?.saturating_sub(cpu_before);
    Ok(result)
}

impl Shared<'_> {
    fn ended(&self, role: &Role<'_>, at: u64, now: Duration) -> bool {
        let over = |seconds: f64| now.saturating_sub(self.began).as_secs_f64() >= seconds;
        let own_end = match role.end {
            End::Calls(calls) => at >= calls || role.seconds_max.is_some_and(over),
            End::Seconds(seconds) => over(seconds),
            End::WithFirst => self.first_left.load(Ordering::Relaxed) == 0,
        };
        own_end || self.stop.asked() || self.failed.load(Ordering::Relaxed)
    }

    /// Waits in pieces, so that an end is seen soon.
    fn sleep_until(&self, moment: Duration, role: &Role<'_>) {
        loop {
            let now = self.clock.now();
            if now >= moment || self.ended(role, 0, now) {
                return;
            }
            self.clock.sleep((moment - now).min(PERIOD));
        }
    }
}

impl RoleResult {
    fn of(role: &Role<'_>, limit: Option<Duration>) -> Self {
        Self {
            kinds: vec![KindResult::default(); role.kinds.len()],
            read_bytes: 0,
            written_bytes: 0,
            foreground_cpu: Duration::ZERO,
            timeline: Timeline::default(),
            client_rate: role.rate,
            limit,
        }
    }

    fn record(&mut self, did: Did, took: Duration, corrected: Duration) {
        let kind = &mut self.kinds[did.kind];
        kind.operations += did.operations;
        kind.latency.record(took);
        if self.client_rate.is_some() {
            kind.corrected.record(corrected);
        }
        let felt = if self.client_rate.is_some() { corrected } else { took };
        kind.over_limit += u64::from(self.limit.is_some_and(|limit| felt > limit));
        self.read_bytes += did.read_bytes;
        self.written_bytes += did.written_bytes;
    }

    fn add(&mut self, other: &Self) {
        for (own, other) in self.kinds.iter_mut().zip(&other.kinds) {
            own.operations += other.operations;
            own.latency.add(&other.latency);
            own.corrected.add(&other.corrected);
            own.over_limit += other.over_limit;
        }
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.foreground_cpu += other.foreground_cpu;
        self.timeline.add(&other.timeline);
    }

    /// The limit that calls were measured by, if there is one.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Operations of all kinds.
    pub(super) fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.operations).sum()
    }
}

/// Microseconds of CPU that the lab itself takes for an operation of a role: the same calls, asked of an engine that
/// does nothing. `None` when the work cannot run on nothing, as when it checks what it reads.
pub(super) fn overhead_us(role: &Role<'_>, clock: &Clock) -> Option<f64> {
    const CALLS_MAX: u64 = 20_000;
    let most = Duration::from_millis(20);
    let calls_max = if let End::Calls(calls) = role.end { calls.min(CALLS_MAX) } else { CALLS_MAX };
    let mut work = (role.make)(0);
    let mut result = RoleResult::of(role, None);
    let (began, cpu_before) = (clock.now(), thread_cpu().ok()?);
    let mut before = began;
    for at in 0..calls_max {
        let did = call_nothing(&mut *work, at)?;
        let now = clock.now();
        if did.idle {
            return None;
        }
        result.record(did, now - before, Duration::ZERO);
        result.timeline.record(now - began, now - before, did.operations);
        before = now;
        if now - began > most {
            break;
        }
    }
    let cpu = thread_cpu().ok()?.saturating_sub(cpu_before);
    let operations = result.operations();
    (operations > 0).then(|| cpu.as_secs_f64() * 1e6 / operations as f64)
}

fn call_nothing(work: &mut dyn Work, at: u64) -> Option<Did> {
    let nothing: &mut dyn Client = &mut Null;
    work.call(nothing, at).ok()
}
