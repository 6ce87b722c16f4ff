//! Steps that an earlier process of the same run did, before it was interrupted: they are taken over, not done again.

use crate::report::{Run, Step};
use anyhow::{Result, ensure};
use std::collections::VecDeque;

/// The steps that are left to take over.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    steps: VecDeque<Step>,
    /// There was an earlier process.
    is_resumed: bool,
    /// The first step that is done anew was told of.
    is_told: bool,
}

impl Earlier {
    /// What a run left that came so far: its steps up to the first that did not come to its end.
    pub(super) fn of(run: Run) -> Self {
        let steps = run.steps.into_iter().take_while(|step| !step.partial).collect();
        Self { steps, is_resumed: true, is_told: false }
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether no step was done anew yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_resumed && !self.is_told
    }

    /// The step with this name, if it is the next and was done.
    ///
    /// # Errors
    /// When another step came next then.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<Step>> {
        if let Some(next) = self.steps.front() {
            ensure!(
                next.name == name,
                "the run that was interrupted went on with {}, and this one does with {name}",
                next.name
            );
        }
        Ok(self.steps.pop_front())
    }

    /// Whether a step is the first that is done anew: asked once.
    pub(super) fn is_first_anew(&mut self) -> bool {
        self.is_resumed && !std::mem::replace(&mut self.is_told, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{run, step};

    #[test]
    fn steps_are_taken_over_up_to_the_one_that_was_interrupted() {
        let half = Step { partial: true, ..step("read", 1.0) };
        let mut earlier = Earlier::of(run("lsm", 0, vec![step("load", 3.0), half]));
        assert!(earlier.take("read").is_err());
        assert_eq!(earlier.take("load").unwrap(), Some(step("load", 3.0)));
        assert_eq!(earlier.take("read").unwrap(), None);
        assert!(earlier.is_ahead());
        assert_eq!([earlier.is_first_anew(), earlier.is_first_anew(), earlier.is_ahead()], [true, false, false]);
        assert!(!Earlier::default().is_first_anew() && !Earlier::default().is_resumed());
    }
}
