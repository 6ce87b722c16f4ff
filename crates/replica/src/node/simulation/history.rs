//! What clients did and saw, and whether one register for each key explains it.

use std::time::Duration;

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A write of a value that no other write has.
    Write(u64),
    /// A read, with what it saw.
    Read(Option<u64>),
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was acknowledged.
    Done,
    /// It was refused.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) key: u8,
    pub(crate) call: Call,
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
    pub(crate) end: End,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) operations: Vec<Operation>,
    /// Of each member the writes that it applied, in their order: key and value.
    pub(crate) applied: Vec<Vec<(u8, u64)>>,
    /// Of each member what the keys have at the end.
    pub(crate) registers: Vec<Vec<(u8, u64)>>,
    /// What did not go on after the last fault.
    pub(crate) faults: Vec<String>,
}

/// Checks a run: the set went on after the last fault, and the order in which entries were applied is the order that
/// explains what clients saw.
///
/// # Errors
/// What is wrong.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    if let Some(fault) = outcome.faults.first() {
        return Err(fault.clone());
    }
    let order = &outcome.applied[0];
    if let Some(at) = outcome.applied.iter().position(|other| other != order) {
        return Err(format!("member {at} applied other writes than member 0"));
    }
    if let Some(at) = outcome.registers.iter().position(|other| *other != outcome.registers[0]) {
        return Err(format!("member {at} has other registers than member 0"));
    }
    let place = |value: u64| order.iter().position(|(_, known)| *known == value);
    for operation in &outcome.operations {
        let Call::Write(value) = operation.call else { continue };
        let times = order.iter().filter(|(_, known)| *known == value).count();
        match (operation.end, times) {
            (End::Done, 1) | (End::Refused, 0) | (End::Unknown, 0 | 1) => {}
            _ => return Err(format!("a write was applied {times} times: {operation:?}")),
        }
    }
    for key in 0..=u8::MAX {
        let of_key: Vec<&Operation> = outcome.operations.iter().filter(|operation| operation.key == key).collect();
        let known: Vec<(&Operation, Option<usize>)> = of_key
            .iter()
            .filter(|operation| operation.end == End::Done)
            .map(|operation| {
                let value = match operation.call {
                    Call::Write(value) => Some(value),
                    Call::Read(seen) => seen,
                };
                (*operation, value.map(|value| place(value).unwrap_or(usize::MAX)))
            })
            .collect();
        if let Some((read, _)) = known.iter().find(|(_, place)| *place == Some(usize::MAX)) {
            return Err(format!("what was read is not there: {read:?}"));
        }
        for (earlier, at) in &known {
            let later = known.iter().filter(|(later, _)| earlier.ended < later.begun);
            if let Some((later, _)) = later.clone().find(|(later, then)| then < at || then == at && is_write(later)) {
                return Err(format!("{later:?} does not follow on {earlier:?}"));
            }
        }
        let unbegun = known.iter().filter(|(read, _)| !is_write(read)).find(|(read, _)| {
            let Call::Read(Some(seen)) = read.call else { return false };
            of_key.iter().any(|write| write.call == Call::Write(seen) && write.begun > read.ended)
        });
        if let Some((read, _)) = unbegun {
            return Err(format!("a read saw a later write: {read:?}"));
        }
    }
    Ok(())
}

fn is_write(operation: &Operation) -> bool {
    matches!(operation.call, Call::Write(_))
}
