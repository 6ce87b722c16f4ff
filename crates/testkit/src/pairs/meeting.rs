//! Where two operations meet: the first waits before a call, and the second begins.

use crate::engine::Engine;
use crate::ops::Op;
use crate::outcome::Outcome;
use crate::subject::Subject;
use spinney::env::sim::SimEnv;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The second user has met a latch when it has not ended after this time.
const PATIENCE: Duration = Duration::from_millis(4);

/// No operation needs so long.
const STUCK: Duration = Duration::from_secs(20);

/// Where the two operations meet.
pub(super) struct Meeting {
    /// Calls that the first has made.
    pub(super) calls: u64,
    place: u64,
    second: Option<(Engine, Op)>,
    /// The second works, and has not ended.
    waits: Option<Receiver<(Engine, Outcome)>>,
    /// The second ended in the middle: the machine of that moment.
    pub(super) ended: Option<SimEnv>,
}

impl Meeting {
    /// The second comes before the call of the first that has this number.
    pub(super) fn new(place: u64, second: Engine, op: Op) -> Self {
        Self { calls: 0, place, second: Some((second, op)), waits: None, ended: None }
    }

    /// Does the operation of the first on this machine; what it gave.
    pub(super) fn hold(meeting: &Arc<Mutex<Self>>, first: &mut Engine, op: &Op, sim: &SimEnv) -> Outcome {
        let (met, machine) = (Arc::clone(meeting), sim.clone());
        sim.interrupt(Some(Box::new(move |_, _| met.lock().expect("no thread panics here").call(&machine))));
        let gave = first.apply(op);
        sim.interrupt(None);
        gave
    }

    /// The first is about to make a call.
    #[expect(clippy::disallowed_methods, reason = "the second user has a thread that may outlive this call")]
    fn call(&mut self, sim: &SimEnv) {
        let place = self.calls;
        self.calls += 1;
        if place != self.place {
            return;
        }
        let Some((mut engine, op)) = self.second.take() else { return };
        let (send, receive) = channel();
        thread::spawn(move || {
            let gave = engine.apply(&op);
            let _nobody_waits = send.send((engine, gave));
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(ended) => {
                let (send, receive) = channel();
                let _kept = send.send(ended);
                self.waits = Some(receive);
                self.ended = Some(sim.fork());
            }
            Err(_) => self.waits = Some(receive),
        }
    }

    /// Waits for the second, or lets it begin; what it gave.
    pub(super) fn end(&mut self, sim: &SimEnv) -> Result<(Engine, Outcome), String> {
        if let Some((mut engine, op)) = self.second.take() {
            let gave = engine.apply(&op);
            return Ok((engine, gave));
        }
        let waits = self.waits.take().ok_or("the second never began")?;
        let step = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        loop {
            match waits.recv_timeout(step) {
                Ok(ended) => return Ok(ended),
                Err(RecvTimeoutError::Timeout) if waited < STUCK => {
                    waited += step;
                    // It may wait for a worker.
                    let _worked = sim.work(0);
                }
                Err(error) => return Err(format!("the second operation never ends: {error}")),
            }
        }
    }
}
