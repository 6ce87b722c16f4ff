//! Every operation beside every other: one of them in the middle of the other, at each call that the other makes to the
//! file system.
//!
//! A *case* has two users of a database. The first begins an operation; before one of its calls it waits, and the
//! second does its own. Either that ends meanwhile, or it needs a latch that the first holds: then the first goes on
//! and both end beside each other. A third user opened a snapshot and a scan before.
//!
//! # Invariants
//! 1. What both gave, and what is there afterwards, is that of the one after the other, in one order or the other.
//! 2. A crash while the first waits, and one when both are done, leaves what some of both leave, and all that was
//!    acknowledged as durable.
//! 3. The third user reads what was there before.

mod draw;
mod meeting;

pub use draw::Kind;

use crate::config::Config;
use crate::engine::Engine;
use crate::model::Model;
use crate::ops::{Op, Span, View};
use crate::outcome::{Outcome, Pair};
use crate::rng::Rng;
use crate::subject::Subject;
use draw::{Act, Draw, KEYS, TABLES, key};
use meeting::Meeting;
use spinney::Durability;
use spinney::env::sim::{CrashProfile, SimEnv};
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

const PATH: &str = "/db";
/// The slots of the users.
const FIRST: usize = 0;
const SECOND: usize = 1;
const THIRD: usize = 2;

/// So many scans of a small table pay for a view of its trees.
const READS: usize = 2000;

/// At how many calls of the first operation the second one comes, and at which part of many.
const PLACES: usize = 5;
const PLACES_PART: usize = 8;

/// What a case came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Times the second operation ended in the middle of the first.
    pub inside: u64,
    /// Times it waited for the first.
    pub waited: u64,
    /// Crashes that were looked at.
    pub crashes: u64,
}

impl Tally {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            inside: self.inside + other.inside,
            waited: self.waited + other.waited,
            crashes: self.crashes + other.crashes,
        }
    }
}

/// Two operations on the machine of a seed.
#[derive(Debug)]
pub struct Case {
    sim: SimEnv,
    config: Config,
    base: Model,
    first: Act,
    second: Act,
    rng: Rng,
}

impl Case {
    /// The case of two kinds and a seed.
    ///
    /// # Errors
    /// What was wrong with what came before.
    pub fn new(first: Kind, second: Kind, seed: u64) -> Result<Self, String> {
        let mut rng = Rng::new(seed.wrapping_mul(1009) + first as u64 * 101 + second as u64);
        let config = Config::random(&mut rng);
        let mut draw = Draw::new(rng.fork(), config.merges);
        let sim = SimEnv::new(rng.number());
        let mut base = Model::new(TABLES);
        let engine = Engine::open(Path::new(PATH), sim.env(), &config, TABLES);
        let mut engine = engine.map_err(|error| format!("creating the database: {error}"))?;
        for op in draw.base() {
            same(&op, &base.apply(&op), &engine.apply(&op))?;
        }
        let (first, second) = (draw.act(first, FIRST), draw.act(second, SECOND));
        Ok(Self { sim: sim.fork(), config, base, first, second, rng })
    }

    /// The second operation at some calls of the first.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(mut self) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let calls = self.at(u64::MAX, &mut tally)?;
        let mut places: Vec<u64> = (0..calls).collect();
        let most = PLACES.max(places.len() / PLACES_PART);
        while places.len() > most {
            places.remove(self.rng.in_range(0..places.len()));
        }
        for place in places {
            self.at(place, &mut tally).map_err(|message| format!("at call {place} of {calls}: {message}"))?;
        }
        Ok(tally)
    }

    /// The second operation at one call of the first, or after it; how many calls the first made.
    fn at(&mut self, place: u64, tally: &mut Tally) -> Result<u64, String> {
        let sim = self.sim.fork();
        sim.reseed(self.rng.number());
        let first = Engine::open(Path::new(PATH), sim.env(), &self.config, TABLES);
        let mut first = first.map_err(|error| format!("opening the database: {error}"))?;
        if self.rng.chance(25) {
            // It may get a view then.
            (0..TABLES).try_for_each(|table| first.read_often(table, READS)).map_err(|error| error.to_string())?;
        }
        sim.set_lazy_workers(self.rng.chance(50));
        let another = || first.beside().map_err(|error| format!("looking tables up: {error}"));
        let (mut second, mut third) = (another()?, another()?);
        let mut model = self.base.clone();
        let watch = self.watch();
        let users = [(&mut third, &watch[..]), (&mut first, &self.first.before), (&mut second, &self.second.before)];
        for (user, ops) in users {
            ops.iter().try_for_each(|op| same(op, &model.apply(op), &user.apply(op)))?;
        }
        let meeting = Arc::new(Mutex::new(Meeting::new(place, second, self.second.op.clone())));
        let gave = Meeting::hold(&meeting, &mut first, &self.first.op, &sim);
        let mut meeting = meeting.lock().expect("no thread panics here");
        // Kept open, so that a crash finds what no close has made durable.
        let (_second, other) = meeting.end(&sim)?;
        let (calls, ended) = (meeting.calls, meeting.ended.take());
        tally.inside += u64::from(ended.is_some());
        tally.waited += u64::from(ended.is_none() && place < calls);
        let ends = self.possible(&model, ended.is_none() && place >= calls);
        let first_kept = is_durable(&self.first.op, &gave, &self.config);
        let second_kept = is_durable(&self.second.op, &other, &self.config);
        let looked = self.look(&ends, (&gave, &other), &first, &mut third, &mut model);
        let worlds = [ended.map(|world| (world, false)), Some((sim, first_kept))];
        let crashed = worlds.into_iter().flatten().try_for_each(|(world, first_kept)| {
            tally.crashes += 1;
            self.crash(&world, &ends, (first_kept, second_kept))
        });
        let told = || format!("{}\n{}\n  gave {gave}\n{}\n  gave {other}", self.config.name, self.first, self.second);
        looked.and(crashed).map_err(|message| format!("{}\n{message}", told()))?;
        Ok(calls)
    }

    /// Both are done: it is as after the one and then the other, and the third user still sees what it saw.
    fn look(
        &self,
        ends: &[End],
        gave: (&Outcome, &Outcome),
        engine: &Engine,
        third: &mut Engine,
        model: &mut Model,
    ) -> Result<(), String> {
        let now = engine.beside().and_then(|engine| engine.state()).map_err(|error| format!("reading: {error}"))?;
        if !ends.iter().any(|end| end.is_of(gave) && end.state == now) {
            let orders = ends.iter().filter(|end| end.first.is_some() && end.second.is_some());
            return Err(format!(
                "is that of no order of both; these are\n{}found\n  {}",
                lines(orders),
                Outcome::Tables(now)
            ));
        }
        for (op, table) in self.watched() {
            if [&self.first, &self.second].iter().all(|act| act.op != Op::Recreate(table)) {
                same(&op, &model.apply(&op), &third.apply(&op))?;
            }
        }
        same(&Op::Verify, &Outcome::Done, &third.apply(&Op::Verify))
    }

    /// What a power failure leaves: all that was acknowledged as durable, and some of the rest.
    fn crash(&mut self, world: &SimEnv, ends: &[End], kept: (bool, bool)) -> Result<(), String> {
        let world = world.fork();
        world.reseed(self.rng.number());
        let profile = *self.rng.pick(&CrashProfile::EVERY);
        world.power_crash(profile);
        let left = Engine::open(Path::new(PATH), world.env(), &self.config, TABLES).and_then(|engine| engine.state());
        let left = left.map_err(|error| format!("after a crash, {profile:?}: {error}"))?;
        let keeps = |end: &&End| (end.first.is_some() || !kept.0) && (end.second.is_some() || !kept.1);
        if ends.iter().filter(keeps).any(|end| end.state == left) {
            return Ok(());
        }
        let left = Outcome::Tables(left);
        Err(format!("a crash, {profile:?}, leaves\n  {left}\nof\n{}", lines(ends.iter().filter(keeps))))
    }

    /// A snapshot and a scan that is open while others do their work.
    fn watch(&self) -> [Op; 3] {
        let span = Span {
            table: 0,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: self.second.op.durability().is_some(),
        };
        [Op::Snapshot(THIRD), Op::Scan(THIRD, View::Snapshot(THIRD), span), Op::Next(THIRD, 2)]
    }

    /// What they still show, by tables.
    fn watched(&self) -> Vec<(Op, usize)> {
        let all = |table, reverse| Span { table, from: Bound::Unbounded, to: Bound::Unbounded, reverse };
        let mut ops = vec![(Op::Next(THIRD, usize::MAX), 0)];
        for table in 0..TABLES {
            let view = View::Snapshot(THIRD);
            ops.push((Op::Range(view, all(table, false), usize::MAX), table));
            ops.push((Op::Range(view, all(table, true), usize::MAX), table));
            ops.push((Op::MultiGet(view, table, (0..KEYS).map(key).collect()), table));
        }
        ops
    }

    /// What can be there: after none of both, one, and both in each order, or only in that order.
    fn possible(&self, model: &Model, in_order: bool) -> Vec<End> {
        let nothing = |model| End { first: None, second: None, state: state(model) };
        // What came before may not be durable.
        let mut ends = vec![nothing(model), nothing(&self.base)];
        let (one, first) = self.after(model, &self.first, &self.second, false);
        ends.push(End { first: Some(first.clone()), second: None, state: state(&one) });
        let (both, second) = self.after(&one, &self.second, &self.first, true);
        ends.push(End { first: Some(first), second: Some(second), state: state(&both) });
        if !in_order {
            let (one, second) = self.after(model, &self.second, &self.first, false);
            ends.push(End { first: None, second: Some(second.clone()), state: state(&one) });
            let (both, first) = self.after(&one, &self.first, &self.second, true);
            ends.push(End { first: Some(first), second: Some(second), state: state(&both) });
        }
        ends
    }

    /// What an operation gives and leaves, where another is behind it or, `is_last`, was before it.
    fn after(&self, model: &Model, act: &Act, other: &Act, is_last: bool) -> (Model, Given) {
        let mut model = model.clone();
        if let Op::Recreate(table) = other.op
            && is_last
            && act.op != Op::Checkpoint
            && act.table.is_none_or(|own| own == table)
        {
            // A handle of a dropped table is refused, and a table can be dropped once.
            return (model, Given::Dropped);
        }
        let gave = match &act.op {
            // The slots of the others are not its own.
            Op::Recreate(table) => {
                model.recreate(*table);
                Outcome::Done
            }
            op => model.apply(op),
        };
        match (&act.op, &other.op) {
            (Op::Checkpoint, Op::Recreate(_)) => (model, Given::Copied(gave)),
            _ => (model, Given::Exactly(gave)),
        }
    }
}

/// What an operation gives in some order.
#[derive(Clone, Debug)]
enum Given {
    Exactly(Outcome),
    /// The same, or the copy lacks a table that was dropped and not yet created again.
    Copied(Outcome),
    /// An error that tells of the table that was dropped, or anything that was read of it.
    Dropped,
}

impl Given {
    fn is(&self, outcome: &Outcome) -> bool {
        match self {
            Self::Exactly(expected) => expected == outcome,
            Self::Copied(expected) => {
                expected == outcome || matches!(outcome, Outcome::Failed(message) if message.contains("no table"))
            }
            Self::Dropped => {
                !matches!(outcome, Outcome::Failed(message) if !message.contains("dropped") && !message.contains("no table") && !message.contains("already"))
            }
        }
    }
}

/// What may be there at the end, and what was done for it.
struct End {
    first: Option<Given>,
    second: Option<Given>,
    state: Vec<Vec<Pair>>,
}

impl End {
    /// Whether both gave what they give here.
    fn is_of(&self, gave: (&Outcome, &Outcome)) -> bool {
        let is = |given: &Option<Given>, gave| given.as_ref().is_some_and(|given| given.is(gave));
        is(&self.first, gave.0) && is(&self.second, gave.1)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, given) in [("first", &self.first), ("second", &self.second)] {
            match given {
                Some(Given::Exactly(outcome) | Given::Copied(outcome)) => write!(f, "  {name} gives {outcome}; ")?,
                Some(Given::Dropped) => write!(f, "  {name} finds its table dropped; ")?,
                None => write!(f, "  not the {name}; ")?,
            }
        }
        write!(f, "{}", Outcome::Tables(self.state.clone()))
    }
}

fn state(model: &Model) -> Vec<Vec<Pair>> {
    model.state_at(model.version())
}

fn same(op: &Op, expected: &Outcome, found: &Outcome) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{op}\n  expected {expected}\n  found    {found}")) }
}

/// Whether an operation that gave this has promised that it survives a power failure.
fn is_durable(op: &Op, gave: &Outcome, config: &Config) -> bool {
    let is_commit = op.durability().is_some_and(|own| own.unwrap_or(config.options.durability) == Durability::Sync);
    *gave == Outcome::Done && (is_commit || matches!(op, Op::Load(..) | Op::Recreate(_)))
}

fn lines<'a>(ends: impl Iterator<Item = &'a End>) -> String {
    ends.map(|end| format!("{end}\n")).collect()
}
