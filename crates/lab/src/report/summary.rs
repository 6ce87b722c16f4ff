//! A report by engine and step: medians over the repetitions, and ratios taken run by run.

use super::model::{EngineInfo, Report, Run, Step};

/// An engine's name in tables: with a mark when operations travel to a server.
#[must_use]
pub fn engine_label(engine: &EngineInfo) -> String {
    format!("{}{}", engine.name, if engine.client_server { "*" } else { "" })
}

/// The runs of a report in the order in which tables show them.
#[derive(Debug)]
pub struct Summary<'r> {
    /// The engines that ran; the first is what the others are compared with.
    pub engines: Vec<&'r EngineInfo>,
    /// The steps of all engines in the order in which they ran.
    pub steps: Vec<StepName<'r>>,
    /// How often everything ran.
    pub repetitions: u32,
    /// The mean time of a write to the raw device where it was shortest, if it was measured.
    best_device_us: Option<f64>,
    /// For each step and engine: the repetitions in which it was there.
    cells: Vec<Vec<Vec<(u32, &'r Step)>>>,
}

/// A step, whichever engine does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepName<'r> {
    /// Its name.
    pub name: &'r str,
    /// How many steps of that name a run has before it.
    pub earlier: usize,
    /// What its operations are.
    pub unit: &'r str,
}

/// A value over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value; between the two in the middle if their number is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub count: usize,
}

impl<'r> Summary<'r> {
    /// The summary of a report.
    ///
    /// # Panics
    /// Never: what is looked up was added just before.
    #[must_use]
    pub fn new(report: &'r Report) -> Self {
        let slices = report.runs.iter().flat_map(|run| &run.steps).flat_map(|step| &step.device_us).copied();
        let best_device_us = slices.filter(|&us| us > 0.0).min_by(f64::total_cmp);
        let mut summary =
            Self { engines: Vec::new(), steps: Vec::new(), repetitions: 0, best_device_us, cells: Vec::new() };
        for run in &report.runs {
            if !summary.engines.iter().any(|engine| engine.name == run.engine.name) {
                summary.engines.push(&run.engine);
            }
            summary.repetitions = summary.repetitions.max(run.repetition + 1);
            summary.add_steps(run);
        }
        let empty = vec![Vec::new(); summary.engines.len()];
        summary.cells = vec![empty; summary.steps.len()];
        for run in &report.runs {
            let engine = summary.engine(&run.engine.name).expect("all engines were added above");
            for (at, step) in run.steps.iter().enumerate() {
                let row = summary.row(&name_of(run, at)).expect("all steps were added above");
                summary.cells[row][engine].push((run.repetition, step));
            }
        }
        summary
    }

    /// Adds the steps of a run that no earlier run had, each behind the one that it came after.
    fn add_steps(&mut self, run: &'r Run) {
        let mut next = 0;
        for at in 0..run.steps.len() {
            let name = name_of(run, at);
            if let Some(row) = self.row(&name) {
                next = row + 1;
            } else {
                self.steps.insert(next, name);
                next += 1;
            }
        }
    }

    fn row(&self, name: &StepName<'_>) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name.name && step.earlier == name.earlier)
    }

    /// The place of the step with the name of a step of another report.
    #[must_use]
    pub fn step_like(&self, name: &StepName<'_>) -> Option<usize> {
        self.row(name)
    }

    /// The place of an engine.
    #[must_use]
    pub fn engine(&self, name: &str) -> Option<usize> {
        self.engines.iter().position(|engine| engine.name == name)
    }

    /// Whether there is anything to show of a step: an engine did it, or could not, or it has figures of its own.
    #[must_use]
    pub fn is_shown(&self, step: usize) -> bool {
        let mut all = self.cells[step].iter().flatten();
        all.any(|(_, step)| step.done().is_some() || step.skipped.is_some() || !step.figures.is_empty())
    }

    /// Whether it is known of any engine's step what the whole machine did meanwhile.
    #[must_use]
    pub fn has_system(&self, step: usize) -> bool {
        self.cells[step].iter().flatten().any(|(_, step)| step.system.is_some())
    }

    /// Whether others used the machine while an engine did a step, in any repetition, so that its figures mean little.
    #[must_use]
    pub fn is_disturbed(&self, step: usize, engine: usize) -> bool {
        self.all(step, engine).any(|step| step.others_busy().is_some() || self.device_slowed(step).is_some())
    }

    /// How many times slower the raw device was beside a step than at its best, if that is much.
    #[must_use]
    pub fn device_slowed(&self, step: &Step) -> Option<f64> {
        step.device_slowed(self.best_device_us?)
    }

    /// An engine's name beside its figures in a step, with a mark when it is a server's, and one when the step was
    /// disturbed.
    #[must_use]
    pub fn label(&self, step: usize, engine: usize) -> String {
        let mark = if self.is_disturbed(step, engine) { "~" } else { "" };
        format!("{}{mark}", engine_label(self.engines[engine]))
    }

    /// The same beside ratios, which are disturbed with the first engine's step as well.
    #[must_use]
    pub fn ratio_label(&self, step: usize, engine: usize) -> String {
        let mark = if self.is_disturbed(step, engine) || self.is_disturbed(step, 0) { "~" } else { "" };
        format!("{}{mark}", engine_label(self.engines[engine]))
    }

    /// What each repetition in which an engine came to this step says of it, skipped or not.
    pub fn all(&self, step: usize, engine: usize) -> impl Iterator<Item = &'r Step> {
        self.cells[step][engine].iter().map(|&(_, step)| step)
    }

    /// The measured repetition whose rate is nearest to the median: for what has no median, as a curve.
    #[must_use]
    pub fn typical(&self, step: usize, engine: usize) -> Option<&'r Step> {
        let rate = |step: &Step| Some(step.done()?.rate);
        let median = self.spread(step, engine, &rate)?.median;
        let distance = |step: &Step| rate(step).map_or(f64::INFINITY, |rate| (rate - median).abs());
        self.all(step, engine).filter(|step| step.done().is_some()).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// A value over the repetitions; `None` when none has it.
    pub fn spread(&self, step: usize, engine: usize, of: &dyn Fn(&Step) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.all(step, engine).filter(|step| step.skipped.is_none()).filter_map(of))
    }

    /// The median of the ratios of an engine's value to the value that the first engine has in the same repetition;
    /// `None` where there is nothing to divide, or by less than `floor`.
    pub fn ratio(&self, step_at: usize, engine: usize, floor: f64, of: &dyn Fn(&Step) -> Option<f64>) -> Option<f64> {
        let of_run = |&(repetition, step): &(u32, &Step)| {
            let &(_, base) = self.cells[step_at][0].iter().find(|(other, _)| *other == repetition)?;
            let value = |step: &Step| of(step).filter(|_| step.skipped.is_none());
            ratio(value(step)?, value(base)?, floor)
        };
        Some(Spread::of(self.cells[step_at][engine].iter().filter_map(of_run))?.median)
    }
}

impl Spread {
    /// The spread of some values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
        Some(Self { median, min, max, count: values.len() })
    }
}

/// What `value` is relative to `base`; `None` when that says nothing, as when the base is below `floor`.
#[must_use]
pub fn ratio(value: f64, base: f64, floor: f64) -> Option<f64> {
    let ratio = value / base;
    (ratio.is_finite() && base.abs() >= floor).then_some(ratio)
}

fn name_of(run: &Run, at: usize) -> StepName<'_> {
    let step = &run.steps[at];
    let earlier = run.steps[..at].iter().filter(|other| other.name == step.name).count();
    StepName { name: &step.name, earlier, unit: &step.unit }
}

impl StepName<'_> {
    /// The name, with a number from the second step of that name on: `readrandom 2`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.earlier == 0 { self.name.to_owned() } else { format!("{} {}", self.name, self.earlier + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::SystemUse;
    use crate::report::fixture::{report, run, step};
    use crate::report::{Cost, RATIO_FLOOR};

    fn rate(step: &Step) -> Option<f64> {
        step.cost.map(|cost| cost.rate)
    }

    fn near(value: Option<f64>, wanted: f64) -> bool {
        value.is_some_and(|value| (value - wanted).abs() < 1e-9)
    }

    #[test]
    fn ratios_are_taken_run_by_run_before_the_median() {
        // The machine is half as fast in the second repetition: the ratios stay, those of the medians would not.
        let rates = [("a", 100.0), ("b", 200.0), ("a", 50.0), ("b", 100.0), ("a", 80.0), ("b", 120.0)];
        let runs = rates.iter().enumerate().map(|(at, &(engine, rate))| {
            let repetition = u32::try_from(at).unwrap() / 2;
            run(engine, repetition, vec![step("load", rate)])
        });
        let report = report(runs.collect());
        let summary = Summary::new(&report);
        assert_eq!((summary.engines.len(), summary.repetitions), (2, 3));
        assert!(near(summary.ratio(0, 1, 0.0, &rate), 2.0));
        let spread = summary.spread(0, 1, &rate).unwrap();
        assert_eq!((spread.median, spread.min, spread.max, spread.count), (120.0, 100.0, 200.0, 3));
        assert!(near(summary.typical(0, 1).and_then(rate), 120.0));
    }

    #[test]
    fn steps_that_only_a_later_engine_has_stand_where_they_ran() {
        let report = report(vec![
            run("a", 0, vec![step("load", 1.0), step("read", 1.0)]),
            run("b", 0, vec![step("load", 1.0), step("compact", 1.0), step("read", 1.0), step("read", 2.0)]),
        ]);
        let summary = Summary::new(&report);
        let labels: Vec<String> = summary.steps.iter().map(StepName::label).collect();
        assert_eq!(labels, ["load", "compact", "read", "read 2"]);
        assert!(summary.spread(1, 0, &rate).is_none());
        assert!(near(summary.spread(3, 1, &rate).map(|spread| spread.median), 2.0));
    }

    #[test]
    fn what_was_skipped_or_not_measured_has_no_value_and_no_ratio() {
        let mut unknown = step("load", 1.0);
        unknown.cost = Some(Cost { reads: None, ..unknown.cost.unwrap() });
        let skipped = Step::skipped("load", "row", "no log".to_owned());
        let report =
            report(vec![run("a", 0, vec![step("load", 1.0)]), run("b", 0, vec![unknown]), run("c", 0, vec![skipped])]);
        let summary = Summary::new(&report);
        let reads = |step: &Step| step.cost?.reads;
        assert!(summary.spread(0, 0, &reads).is_some() && summary.spread(0, 1, &reads).is_none());
        assert!(summary.ratio(0, 1, 0.0, &reads).is_none() && summary.ratio(0, 2, 0.0, &rate).is_none());
        assert!(summary.typical(0, 2).is_none());
        assert_eq!((ratio(1.0, 0.0, 0.0), ratio(0.0, 0.0, 0.0)), (None, None));
    }

    #[test]
    fn a_ratio_to_next_to_nothing_is_none() {
        let with = |reads: f64| {
            let mut step = step("load", 1.0);
            step.cost = Some(Cost { reads: Some(reads), ..step.cost.unwrap() });
            step
        };
        let report = report(vec![run("a", 0, vec![with(2e-5)]), run("b", 0, vec![with(8e-3)])]);
        let summary = Summary::new(&report);
        let reads = |step: &Step| step.cost?.reads;
        assert_eq!(summary.ratio(0, 1, RATIO_FLOOR, &reads), None);
        assert!(near(summary.ratio(0, 1, 0.0, &reads), 400.0));
        assert_eq!(ratio(2e-5, 0.5, RATIO_FLOOR), Some(4e-5));
    }

    #[test]
    fn a_step_is_disturbed_by_others_on_the_processors_or_on_the_device() {
        let busy = |others: f64, device_us: f64| {
            let system = Some(SystemUse { others: Some(others), ..SystemUse::default() });
            Step { system, device_us: vec![device_us, 100.0], ..step("sync", 1.0) }
        };
        let runs = [busy(0.05, 150.0), busy(0.2, 90.0), busy(0.0, 190.0)];
        let runs = ["a", "b", "c"].iter().zip(runs).map(|(engine, step)| run(engine, 0, vec![step])).collect();
        let report = report(runs);
        let summary = Summary::new(&report);
        assert_eq!([0, 1, 2].map(|engine| summary.is_disturbed(0, engine)), [false, true, true]);
        assert_eq!([0, 1, 2].map(|engine| summary.label(0, engine)), ["a", "b~", "c~"]);
        assert_eq!(summary.ratio_label(0, 1), "b~");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0].into_iter()).unwrap();
        assert!((spread.median - 2.5).abs() < 1e-9);
        assert_eq!(Spread::of([f64::NAN].into_iter()), None);
    }
}
