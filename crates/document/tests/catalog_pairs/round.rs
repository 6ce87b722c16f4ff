//! One round: two users, an end, and the next start.

use std::sync::Arc;

use spinney::env::sim::{CrashProfile, Fault, SimEnv};
use spinney_document::command::Service;
use spinney_testkit::Rng;

use crate::act::{Act, INDEXES, Kind, NAMES, VIEW, document};
use crate::check;
use crate::claims::{Clock, Found};
use crate::json;
use crate::meeting::{Meeting, meet};
use crate::member::{Agreement, Member};

/// At how many moments of the first user the second one comes.
const PLACES: usize = 24;

/// In which of the next changes of the disk the power fails, or a call fails.
const CHANGES: usize = 60;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Orderly,
    Killed,
    /// The power fails behind the operations, or in the middle of them.
    Power(Option<u64>),
    /// A call to the file system fails in the middle of the operations.
    Fault(u64, Fault),
}

impl End {
    fn draw(rng: &mut Rng) -> Self {
        let at = u64::try_from(rng.in_range(0..CHANGES)).unwrap();
        match rng.weighted(&[4, 1, 2, 3, 2]) {
            0 => Self::Orderly,
            1 => Self::Killed,
            2 => Self::Power(None),
            3 => Self::Power(Some(at)),
            _ => {
                let other = Fault::Error(std::io::ErrorKind::Other);
                let faults = [other, Fault::ShortWrite, Fault::SyncLost, Fault::NoSpace, Fault::TooManyFiles];
                Self::Fault(at, *rng.pick(&faults))
            }
        }
    }

    /// Whether nothing fails before the operations have ended.
    const fn is_behind(self) -> bool {
        matches!(self, Self::Orderly | Self::Killed | Self::Power(None))
    }
}

/// Databases and users of a round.
struct Round {
    rng: Rng,
    seed: u64,
    machine: SimEnv,
    agreement: Option<Arc<Agreement>>,
    /// The machine of the database that applies the same entries.
    other: SimEnv,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations that were acknowledged, and all of them.
    pub(crate) acknowledged: u64,
    pub(crate) operations: u64,
    /// Whether the second user ended in the middle of an operation of the first.
    pub(crate) inside: bool,
}

/// Puts an operation of one kind beside one of another.
pub(crate) fn run(seed: u64, first: Kind, second: Kind) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let agreement = rng.chance(60).then(Arc::<Agreement>::default);
    let (machine, other) = (SimEnv::new(rng.number()), SimEnv::new(rng.number()));
    let mut round = Round { rng, seed, machine, agreement, other };
    round.run(first, second)
}

impl Round {
    fn open(&self, machine: &SimEnv) -> Result<Member, String> {
        Member::open(machine, self.agreement.as_ref(), self.seed).map_err(|error| format!("does not open: {error}"))
    }

    fn run(&mut self, first: Kind, second: Kind) -> Result<Tally, String> {
        let member = self.open(&self.machine)?;
        member.lead()?;
        let service = Service::new(member.db.clone());
        self.prepare(&service);
        if self.agreement.is_some() && self.rng.chance(50) {
            let other = self.open(&self.other)?;
            other.follow()?;
        }
        let all: Vec<&str> = NAMES.into_iter().chain([VIEW]).collect();
        let clock = Clock::new(&check::found(&member.db)?, &all);
        let (acts, end) = (self.acts(first, second), End::draw(&mut self.rng));
        let meeting = match self.rng.chance(70) {
            true => Meeting::At(u64::try_from(self.rng.in_range(0..PLACES)).unwrap()),
            false => Meeting::Beside(self.rng.number()),
        };
        self.plan(end);
        let told =
            format!("{acts:#?}\n{meeting:?}, {end:?}, {}", if self.agreement.is_some() { "set" } else { "alone" });
        let mut done = [Vec::new(), Vec::new()];
        let [one, two] = &mut done;
        let act = |acts: &[Act], done: &mut Vec<_>| {
            done.extend(acts.iter().map(|act| act.run(&service, &clock).map_err(|error| error.to_string())));
        };
        let (_, inside) = meet(&self.machine, meeting, || act(&acts[0], one), || act(&acts[1], two));
        let told = format!("{told}\n{done:#?}");
        let tell = |what: String| format!("{what}\n{told}");
        let live = check::found(&member.db);
        if let Some(why) = member.ended().filter(|_| end.is_behind()) {
            return Err(tell(format!("the primary applies nothing more: {why}")));
        }
        drop(service);
        self.end(end, member);
        let live = live.ok().filter(|_| end.is_behind());
        self.check(&clock, live.as_ref()).map_err(tell)?;
        let done = done.iter().flatten();
        let acknowledged = u64::try_from(done.clone().filter(|done| done.is_ok()).count()).unwrap();
        Ok(Tally { acknowledged, operations: u64::try_from(done.count()).unwrap(), inside })
    }

    /// Some collections, with documents and indexes.
    fn prepare(&mut self, service: &Service) {
        let rng = &mut self.rng;
        for (name, percent) in NAMES.into_iter().zip([85, 50, 30]) {
            if !rng.chance(percent) {
                continue;
            }
            let (database, collection) = name.split_once('.').unwrap();
            let run = |command: String| service.run_command(database, json(&command).view()).unwrap();
            let documents: Vec<_> = (0..rng.in_range(0..30)).map(|id| document(id, rng.chance(20))).collect();
            match documents.is_empty() {
                true => run(format!(r#"{{"create":"{collection}"}}"#)),
                false => run(format!(r#"{{"insert":"{collection}","documents":[{}]}}"#, documents.join(","))),
            };
            for (key, spec) in INDEXES {
                if rng.chance(30) {
                    run(format!(r#"{{"createIndexes":"{collection}","indexes":[{{"name":"{key}",{spec}}}]}}"#));
                }
            }
        }
        if rng.chance(30) {
            service.run_command("d", json(r#"{"create":"v","viewOn":"a","pipeline":[]}"#).view()).unwrap();
        }
    }

    /// What the users do: an operation of a kind, and others behind it.
    fn acts(&mut self, first: Kind, second: Kind) -> [Vec<Act>; 2] {
        let rng = &mut self.rng;
        let mut number = 100;
        [first, second].map(|kind| {
            let more = rng.in_range(0..3);
            let kinds = [kind].into_iter().chain((0..more).map(|_| *rng.pick(&Kind::ALL)));
            let kinds: Vec<_> = kinds.collect();
            kinds
                .into_iter()
                .map(|kind| {
                    number += 1;
                    Act::draw(rng, kind, number)
                })
                .collect()
        })
    }

    fn plan(&self, end: End) {
        match end {
            End::Power(Some(at)) => self.machine.crash_at(self.machine.write_and_sync_count() + at),
            End::Fault(at, fault) => self.machine.fail_at(self.machine.op_count() + at, fault),
            End::Orderly | End::Killed | End::Power(None) => {}
        }
    }

    /// Ends the process, and leaves the machine as the next one finds it.
    fn end(&mut self, end: End, member: Member) {
        let profile = *self.rng.pick(&CrashProfile::EVERY);
        match end {
            End::Killed => self.machine.process_crash(),
            End::Power(_) => self.machine.power_crash(profile),
            End::Orderly | End::Fault(..) => {}
        }
        drop(member);
        self.machine.clear_faults();
        if matches!(end, End::Fault(..)) && self.rng.chance(50) {
            self.machine.power_crash(profile);
        }
        self.machine = self.machine.fork();
    }

    /// The next start of both databases.
    fn check(&mut self, clock: &Clock, live: Option<&Found>) -> Result<(), String> {
        let other = self.follow().map_err(|what| format!("the database that applies {what}"))?;
        let member = self.open(&self.machine).map_err(|what| format!("the database {what}"))?;
        member.lead()?;
        let found = check::found(&member.db)?;
        if let Some(live) = live.filter(|live| **live != found) {
            return Err(format!("before the end there was {live:#?}\nand after the next start {found:#?}"));
        }
        check::sound(&member.db)?;
        if let Some(wrong) = clock.wrong(&found) {
            return Err(wrong);
        }
        if let Some(other) = other {
            other.follow().map_err(|what| format!("the database that applies {what}"))?;
            check::sound(&other.db).map_err(|what| format!("the database that applies: {what}"))?;
            check::same(&member.db, &other.db)?;
        }
        Ok(())
    }

    /// The second database, which has applied all that was agreed on, through a crash perhaps.
    fn follow(&mut self) -> Result<Option<Member>, String> {
        let Some(agreement) = self.agreement.clone() else { return Ok(None) };
        let mut other = self.open(&self.other)?;
        if self.rng.chance(50) {
            other.follow_to(self.rng.in_range(0..agreement.len() + 1))?;
            self.other.power_crash(*self.rng.pick(&CrashProfile::EVERY));
            self.other = self.other.fork();
            other = self.open(&self.other)?;
        }
        other.follow()?;
        Ok(Some(other))
    }
}
