//! Which links must be there for a set to go on: all graphs of links among three, four and five members, and all of
//! links of one direction among three. Wherever a majority is connected with each other, writes go on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::life::within;
use super::member::{Answer, Running};
use super::turns::{self, in_turns};
use super::world::World;

/// How long a cut lasts.
const CUT: Duration = Duration::from_secs(20);

/// How long writes may pause where a majority is connected with each other.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a client rests between two writes.
const BETWEEN: Duration = Duration::from_millis(50);

/// Links among members: which directions there are.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    members: usize,
    links: Vec<(usize, usize)>,
}

impl Graph {
    /// All graphs among some members, whose links have both directions, or not.
    pub(super) fn all(members: usize, both: bool) -> Vec<Self> {
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let pairs: Vec<_> = pairs.filter(|(from, to)| if both { from < to } else { from != to }).collect();
        let graph = |bits: u32| {
            let there = pairs.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, pair)| *pair);
            let links =
                there.flat_map(|(from, to)| [(from, to), (to, from)].into_iter().take(if both { 2 } else { 1 }));
            Self { members, links: links.collect() }
        };
        (0..1 << pairs.len()).map(graph).collect()
    }

    fn has(&self, from: usize, to: usize) -> bool {
        self.links.contains(&(from, to))
    }

    /// Whether a majority is connected with each other.
    pub(super) fn has_majority(&self) -> bool {
        let is_connected = |some: u32| {
            let of_it: Vec<usize> = (0..self.members).filter(|at| some >> at & 1 == 1).collect();
            of_it.len() > self.members / 2 && of_it.iter().all(|a| of_it.iter().all(|b| a == b || self.has(*a, *b)))
        };
        (0..1 << self.members).any(is_connected)
    }

    /// Whether no majority is connected with each other, but a member with a majority, itself among it.
    pub(super) fn has_only_hubs(&self) -> bool {
        let both = |a: usize, b: usize| a == b || self.has(a, b) && self.has(b, a);
        let is_hub = |hub: usize| (0..self.members).filter(|at| both(hub, *at)).count() > self.members / 2;
        !self.has_majority() && (0..self.members).any(is_hub)
    }
}

/// The longest pause of writes from the moment that a set has no other links than those of a graph, and how long it
/// takes when it has all again.
pub(super) fn pauses(seed: u64, graph: &Graph) -> (Duration, Duration) {
    within(seed, Some(graph.members), async |world| {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let clients: Vec<_> = (0..graph.members)
            .map(|at| tokio::spawn(write_on(Arc::clone(world), at, Arc::clone(&acknowledged))))
            .collect();
        let first = async {
            while acknowledged.lock().len() < 10 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PAUSE_MAX, first).await.expect("a whole set takes writes");
        let cut = Instant::now();
        world.cut(|from, to| !graph.has(from, to));
        sleep(CUT).await;
        let healed = Instant::now();
        world.heal();
        sleep(PAUSE_MAX * 2).await;
        clients.iter().for_each(tokio::task::JoinHandle::abort);
        let acknowledged = acknowledged.lock();
        let pause = |from: Instant, to: Instant| {
            let within = acknowledged.iter().copied().filter(|at| from < *at && *at < to);
            let ends: Vec<Instant> = [from].into_iter().chain(within).chain([to]).collect();
            ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
        };
        (pause(cut, healed), pause(healed, healed + PAUSE_MAX * 2))
    })
}

/// Writes on a member whenever it takes writes, and notes when one was acknowledged.
async fn write_on(world: Arc<World>, at: usize, acknowledged: Arc<Mutex<Vec<Instant>>>) {
    let write = move || {
        for value in 0.. {
            turns::rest(BETWEEN);
            let Some(member) = world.member(at).filter(Running::is_writable) else { continue };
            let insert = format!(r#"{{"insert": "written", "documents": [{{"_id": {}}}]}}"#, value * 10 + at);
            if let Answer::Done(_) = member.run("app", &insert) {
                acknowledged.lock().push(Instant::now());
            }
        }
    };
    in_turns(write).await;
}

/// Whether writes go on when a set has no other links than those of a graph.
///
/// # Errors
/// When they do not although a majority is connected with each other; or not soon when all links are there again.
pub(super) fn check(seed: u64, graph: &Graph) -> Result<bool, String> {
    let (cut, healed) = pauses(seed, graph);
    let goes_on = cut <= PAUSE_MAX;
    if graph.has_majority() && !goes_on {
        return Err(format!("a majority is connected with each other, and writes paused for {cut:?}: {graph:?}"));
    }
    if healed > PAUSE_MAX {
        return Err(format!("all links are there again, and writes paused for {healed:?}: {graph:?}"));
    }
    Ok(goes_on)
}
