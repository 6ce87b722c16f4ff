//! What a step is to do.

use crate::driver::Client;
use anyhow::Result;

/// A step: roles whose clients run at the same time.
pub struct Plan<'a> {
    /// The step's name: `l.i0`.
    pub name: String,
    /// What its operations are, in the singular: `row`.
    pub unit: &'static str,
    /// What the clients do. The step's operations are those of the first role; the others' are beside it.
    pub roles: Vec<Role<'a>>,
    /// Bytes of keys and values that are live after the step, if known.
    pub live_bytes: Option<u64>,
}

/// Clients that do the same.
pub struct Role<'a> {
    /// Kinds of calls, for latencies: what [`Did::kind`] counts.
    pub kinds: &'static [&'static str],
    /// How many clients, each with a thread and a connection of its own.
    pub clients: usize,
    /// When they end.
    pub end: End,
    /// They end after so many seconds even if it is not their end yet.
    pub seconds_max: Option<f64>,
    /// Calls per second of all of them together; as fast as they can without.
    pub rate: Option<f64>,
    /// Called after each call that did something.
    pub then: Option<Box<Then<'a>>>,
    /// Makes the work of the client with this number, from 0, on the client's thread.
    pub make: Box<dyn Fn(usize) -> Box<dyn Work + 'a> + Sync + 'a>,
}

/// Is told what each call did, with the number of the client that made it.
pub type Then<'a> = dyn Fn(usize, &Did) + Sync + 'a;

/// When the clients of a role end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// After so many calls of all of them together, divided evenly, so that each client's share does not depend on the
    /// engine.
    Calls(u64),
    /// After so many seconds.
    Seconds(f64),
    /// When the clients of the first role have ended.
    WithFirst,
}

/// What one client does.
pub trait Work {
    /// Does the call with number `at`: of the numbers of the role's calls, those that leave the client's number as
    /// remainder when divided by the number of clients, in order.
    ///
    /// A call changes nothing but the client's database and the work itself: what other clients are to know goes
    /// through [`Role::then`]. For the same calls are made of an engine that does nothing, to see what the lab itself
    /// costs.
    ///
    /// # Errors
    /// What the engine says; or that what was read is wrong.
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did>;
}

impl<F: FnMut(&mut dyn Client, u64) -> Result<Did>> Work for F {
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did> {
        self(client, at)
    }
}

/// What a call did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// Its kind: a place in [`Role::kinds`].
    pub kind: usize,
    /// Operations done in it.
    pub operations: u64,
    /// Bytes of keys and values that it read.
    pub read_bytes: u64,
    /// Bytes of keys and values that it wrote.
    pub written_bytes: u64,
    /// The call did nothing, because another client must go on first. It is not counted, and called again a little
    /// later.
    pub idle: bool,
}

impl Did {
    /// One operation of the first kind that read so many bytes of keys and values.
    #[must_use]
    pub fn read(bytes: u64) -> Self {
        Self { operations: 1, read_bytes: bytes, ..Self::default() }
    }

    /// Nothing, because another client must go on first.
    #[must_use]
    pub fn idle() -> Self {
        Self { idle: true, ..Self::default() }
    }

    /// One operation of the first kind that wrote so many bytes of keys and values.
    #[must_use]
    pub fn wrote(bytes: u64) -> Self {
        Self { operations: 1, written_bytes: bytes, ..Self::default() }
    }

    /// The same as so many operations.
    #[must_use]
    pub fn operations(self, operations: u64) -> Self {
        Self { operations, ..self }
    }

    /// The same of another kind.
    #[must_use]
    pub fn kind(self, kind: usize) -> Self {
        Self { kind, ..self }
    }
}

impl<'a> Role<'a> {
    /// A role of one kind of call, as fast as it can.
    pub fn new<W: Work + 'a>(
        kind: &'static [&'static str],
        clients: usize,
        end: End,
        make: impl Fn(usize) -> W + Sync + 'a,
    ) -> Self {
        Self {
            kinds: kind,
            clients,
            end,
            seconds_max: None,
            rate: None,
            then: None,
            make: Box::new(move |client| Box::new(make(client))),
        }
    }

    /// The same, telling `then` what each call did, with the number of the client that made it.
    #[must_use]
    pub fn then(self, then: impl Fn(usize, &Did) + Sync + 'a) -> Self {
        Self { then: Some(Box::new(then)), ..self }
    }

    /// The same for at most so many seconds.
    #[must_use]
    pub fn at_most(self, seconds: f64) -> Self {
        Self { seconds_max: Some(seconds), ..self }
    }

    /// The same at so many calls per second, all clients together.
    #[must_use]
    pub fn at_rate(self, rate: Option<f64>) -> Self {
        Self { rate, ..self }
    }
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Role<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kinds, clients, end, rate, .. } = self;
        f.debug_struct("Role")
            .field("kinds", kinds)
            .field("clients", clients)
            .field("end", end)
            .field("rate", rate)
            .finish_non_exhaustive()
    }
}
