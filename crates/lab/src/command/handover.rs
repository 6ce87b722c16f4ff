//! What a worker hands over to its parent while it runs, so that what had ended before it was killed is not lost.
//!
//! # Format
//! Lines of JSON, each a [`Said`]. A line without its end is what a worker was killed in, and counts as not said.

use crate::report::{Run, Step};
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    /// The run without its steps, instead of what was said of it before.
    Run(Box<Run>),
    /// The step at this place, instead of what was said of it before: an experiment gives steps their figures later.
    Step(usize, Box<Step>),
    /// A step with this name begins.
    Begins(String),
    /// The run is over, and all that was said of it is its result.
    Over,
}

/// The worker's side: says what changed since it last said something.
pub(super) struct Sayer<W> {
    out: W,
    run: Option<Run>,
}

/// The parent's side: a run as far as its worker came.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What is known of it; `None` when the worker said nothing.
    run: Option<Run>,
    /// The step that began and did not end.
    during: Option<String>,
    /// The worker came to its end.
    over: bool,
    /// What it said that cannot be understood.
    wrong: Option<String>,
}

impl<W: Write> Sayer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, run: None }
    }

    /// Says how far `run` is, and which step begins, if one does.
    pub(super) fn say(&mut self, run: &Run, begins: Option<&str>) -> Result<()> {
        let head = Run { steps: Vec::new(), ..run.clone() };
        let said = self.run.take();
        let said_steps = said.as_ref().map_or(&[][..], |said| &said.steps);
        if said.as_ref().is_none_or(|said| Run { steps: Vec::new(), ..said.clone() } != head) {
            self.line(&Said::Run(Box::new(head)))?;
        }
        for (at, step) in run.steps.iter().enumerate() {
            if said_steps.get(at) != Some(step) {
                self.line(&Said::Step(at, Box::new(step.clone())))?;
            }
        }
        if let Some(name) = begins {
            self.line(&Said::Begins(name.to_owned()))?;
        }
        self.run = Some(run.clone());
        self.out.flush().context("cannot tell the parent")
    }

    /// Says that `run` is all.
    pub(super) fn over(mut self, run: &Run) -> Result<()> {
        self.say(run, None)?;
        self.line(&Said::Over)?;
        self.out.flush().context("cannot tell the parent")
    }

    fn line(&mut self, said: &Said) -> Result<()> {
        let mut text = serde_json::to_vec(said)?;
        text.push(b'\n');
        self.out.write_all(&text).context("cannot tell the parent")
    }
}

impl Heard {
    /// What a worker said, up to the first line that is none of ours.
    pub(super) fn new(text: &str) -> Self {
        let mut heard = Self::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let understood = serde_json::from_str(line).map_err(Into::into).and_then(|said| heard.hear(said));
            if let Err(error) = understood {
                heard.wrong = Some(format!("it said what is no part of a result ({error:#})"));
                heard.over = false;
                break;
            }
        }
        heard
    }

    fn hear(&mut self, said: Said) -> Result<()> {
        // Behind the end of a run that was interrupted there is what it came to when it went on.
        self.over = matches!(said, Said::Over);
        match said {
            Said::Run(head) => {
                let steps = self.run.take().map_or_else(Vec::new, |run| run.steps);
                self.run = Some(Run { steps, ..*head });
            }
            Said::Step(at, step) => {
                let run = self.run.as_mut().context("a step before the run")?;
                ensure!(at <= run.steps.len(), "a step before an earlier one");
                if at < run.steps.len() {
                    run.steps[at] = *step;
                } else {
                    run.steps.push(*step);
                    self.during = None;
                }
            }
            Said::Begins(name) => self.during = Some(name),
            Said::Over => {}
        }
        Ok(())
    }

    /// The run of a worker that came to its end; of one that did not, what it came to, marked as partial and with an
    /// error that says in which step it ended and `how`. `None` when the worker said nothing.
    pub(super) fn into_run(self, how: &str) -> Option<Run> {
        let mut run = self.run?;
        if !self.over {
            let how = self.wrong.as_deref().unwrap_or(how);
            run.partial = true;
            run.error = Some(match (self.during, run.steps.last()) {
                (Some(name), _) => format!("the worker ended during {name}: {how}"),
                (None, Some(step)) => format!("the worker ended after {}: {how}", step.name),
                (None, None) => format!("the worker ended before its first step: {how}"),
            });
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{report, run, step};
    use crate::report::{Figure, remarks};

    fn said(runs: &[(&Run, Option<&str>)]) -> String {
        let mut text = Vec::new();
        let mut sayer = Sayer::new(&mut text);
        runs.iter().for_each(|(run, begins)| sayer.say(run, *begins).unwrap());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_had_ended_before_a_worker_was_killed_is_there() {
        let (none, mut one) = (run("lsm", 0, vec![]), run("lsm", 0, vec![step("load", 10.0)]));
        let before = one.clone();
        // The experiment gives the step its figures when the worker has said it already.
        one.steps[0].figures.push(Figure::less("bpd", "bytes", 1.0));
        let text = said(&[(&none, Some("load")), (&before, None), (&one, Some("read"))]);
        let heard = Heard::new(&text).into_run("signal: 9 (SIGKILL)").unwrap();
        assert_eq!(heard.error.as_deref(), Some("the worker ended during read: signal: 9 (SIGKILL)"));
        assert!(heard.partial && heard.steps == one.steps, "{heard:?}");
        let remarks = remarks(&report(vec![heard]));
        assert_eq!(remarks[0], "FAILED: lsm: the worker ended during read: signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_worker_that_comes_to_its_end_hands_over_its_run() {
        let mut done = run("lsm", 0, vec![step("load", 10.0), step("read", 20.0)]);
        let mut text = Vec::new();
        let mut sayer = Sayer::new(&mut text);
        sayer.say(&run("lsm", 0, vec![]), Some("load")).unwrap();
        sayer.say(&Run { steps: done.steps[..1].to_vec(), ..done.clone() }, Some("read")).unwrap();
        // As the floor of the device, which is put before what it is the floor of.
        done.steps.insert(0, step("device", 5.0));
        done.notes.push("a remark".to_owned());
        sayer.over(&done).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(Heard::new(&text).into_run("exit status: 0"), Some(done));
    }

    #[test]
    fn a_line_that_was_cut_short_is_not_said() {
        let one = run("lsm", 0, vec![step("load", 10.0)]);
        let text = said(&[(&run("lsm", 0, vec![]), Some("load")), (&one, None)]);
        for end in 0..=text.len() {
            let heard = Heard::new(&text[..end]).into_run("killed");
            assert_eq!(heard.is_some(), end > text.find('\n').unwrap());
            let Some(heard) = heard else { continue };
            assert_eq!(heard.steps.len(), usize::from(end == text.len()));
            let during = text[..end].contains("begins\":\"load\"}\n") && end < text.len();
            let error = heard.error.unwrap();
            assert_eq!(error.starts_with("the worker ended during load"), during, "{end}: {error}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_result_is_an_error_and_what_was_said_before_is_there() {
        let one = run("lsm", 0, vec![step("load", 10.0)]);
        let text = said(&[(&one, None)]) + "hello\n{\"over\":null}\n";
        let heard = Heard::new(&text).into_run("exit status: 0").unwrap();
        assert_eq!(heard.steps, one.steps);
        let error = heard.error.unwrap();
        assert!(error.starts_with("the worker ended after load: it said what is no part of a result"), "{error}");
        assert!(Heard::new("hello\n").into_run("exit status: 0").is_none());
    }
}
