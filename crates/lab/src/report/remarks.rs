//! What tables cannot say: what was skipped, what failed, and where the figures come from.

use super::model::{Report, Step};
use super::summary::Summary;

/// Remarks on a report, the most serious first, each a sentence or less.
#[must_use]
pub fn remarks(report: &Report) -> Vec<String> {
    let summary = Summary::new(report);
    let mut remarks = Vec::new();
    if report.partial {
        remarks.push("PARTIAL: the benchmark was interrupted; steps are missing or short".to_owned());
    }
    for run in &report.runs {
        let repetition = if summary.repetitions > 1 { format!(" (run {})", run.repetition + 1) } else { String::new() };
        if let Some(error) = &run.error {
            remarks.push(format!("FAILED: {}{repetition}: {error}", run.engine.name));
        }
        for step in run.steps.iter().filter(|step| step.partial) {
            remarks.push(format!("interrupted in {} of {}{repetition}", step.name, run.engine.name));
        }
    }
    remarks.extend(operations_seen(report));
    remarks.extend(disturbed(report, &summary));
    remarks.extend(missed_rates(report));
    remarks.extend(skipped(report));
    if summary.engines.iter().any(|engine| engine.client_server) {
        remarks.push(
            "* client/server: each operation travels to a server process, whose CPU and I/O are added to the client's; rss is the server's"
                .to_owned(),
        );
    }
    remarks
        .extend(grouped(report.runs.iter().flat_map(|run| run.notes.iter().map(|note| (&*run.engine.name, &**note)))));
    remarks
}

/// With verification: whether all runs were asked for the same operations.
fn operations_seen(report: &Report) -> Option<String> {
    let mut hashes: Vec<&String> = report.runs.iter().filter_map(|run| run.operations_hash.as_ref()).collect();
    hashes.dedup();
    match hashes.as_slice() {
        [] => None,
        [hash] => Some(format!("verified: all runs were asked for the same operations ({hash})")),
        _ => Some("NOT THE SAME: the runs were asked for different operations".to_owned()),
    }
}

/// Steps during which others used the machine: their figures, and ratios to or of them, say little.
fn disturbed(report: &Report, summary: &Summary<'_>) -> Vec<String> {
    let each = |of: &dyn Fn(&Step) -> Option<String>| {
        let mut engines: Vec<(&str, Vec<String>)> = Vec::new();
        for run in &report.runs {
            for (step, how) in run.steps.iter().filter_map(|step| Some((step, of(step)?))) {
                let text = format!("{} {how}", step.name);
                match engines.iter_mut().find(|(name, _)| *name == run.engine.name) {
                    Some((_, texts)) => texts.push(text),
                    None => engines.push((&run.engine.name, vec![text])),
                }
            }
        }
        let texts: Vec<String> = engines.iter().map(|(name, texts)| format!("{name}: {}", texts.join(", "))).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    };
    let busy = each(&|step| Some(format!("{:.0} %", 100.0 * step.others_busy()?)));
    let slowed = each(&|step| Some(format!("{} times", crate::text::digits(summary.device_slowed(step)?))));
    let why = "~ disturbed, so that figures and ratios say little";
    [
        busy.map(|steps| format!("{why}: other processes used more than a tenth of the processors: {steps}")),
        slowed.map(|steps| format!("{why}: the raw device was less than half as fast as at its best: {steps} slower")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Rates that were wanted and not kept.
fn missed_rates(report: &Report) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    let steps = report.runs.iter().flat_map(|run| run.steps.iter().map(move |step| (run, step)));
    for (run, step) in steps {
        for operation in step.operations.iter().filter(|operation| operation.missed_rate()) {
            let number = |rate: Option<f64>| crate::text::digits(rate.unwrap_or(f64::NAN));
            let what = format!("! missed the rate: {} {} {}: ", run.engine.name, step.name, operation.name);
            if !remarks.iter().any(|remark| remark.starts_with(&what)) {
                let (achieved, wanted) = (number(operation.achieved_rate), number(operation.wanted_rate));
                remarks.push(format!("{what}{achieved} of {wanted} calls/s"));
            }
        }
    }
    remarks
}

/// Steps that were skipped, with all steps of an engine and a reason together.
fn skipped(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for run in &report.runs {
        for step in run.steps.iter().filter(|step| step.skipped.is_some()) {
            let (engine, why) = (&*run.engine.name, step.skipped.as_deref().unwrap_or_default());
            match reasons.iter_mut().find(|(other, reason, _)| (*other, *reason) == (engine, why)) {
                Some((_, _, steps)) if steps.contains(&&*step.name) => {}
                Some((_, _, steps)) => steps.push(&step.name),
                None => reasons.push((engine, why, vec![&step.name])),
            }
        }
    }
    let line =
        |(engine, why, steps): &(&str, &str, Vec<&str>)| format!("skipped: {engine} {}: {why}", steps.join(", "));
    reasons.iter().map(line).collect()
}

/// Notes with the engines that have them.
fn grouped<'r>(notes: impl Iterator<Item = (&'r str, &'r str)>) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (engine, note) in notes {
        match groups.iter_mut().find(|(other, _)| *other == note) {
            Some((_, engines)) if engines.contains(&engine) => {}
            Some((_, engines)) => engines.push(engine),
            None => groups.push((note, vec![engine])),
        }
    }
    groups.iter().map(|(note, engines)| format!("{}: {note}", engines.join(", "))).collect()
}

/// Where the figures come from, each a sentence or less.
#[must_use]
pub fn sources(report: &Report) -> Vec<String> {
    let costs = || report.runs.iter().flat_map(|run| &run.steps).filter_map(Step::done);
    let requests = match costs().map(|cost| cost.device_read_kib.is_some()).collect::<Vec<_>>() {
        all if all.iter().all(|&device| device) => "/sys/dev/block/*/stat, requests of the whole device",
        all if all.iter().all(|&device| !device) => "/proc/self/io, read calls",
        _ => "/sys/dev/block/*/stat, or /proc/self/io (read calls) where the device is not counted",
    };
    vec![
        "ops: the lab's clock".to_owned(),
        format!("r/o: {requests}"),
        "rKB/o wKB/o: /proc/self/io (a write through the page cache counts when it is made)".to_owned(),
        "cs/o cpu/o: rusage".to_owned(),
        "rss: /proc/self/status".to_owned(),
        "db.gb: allocated/apparent sizes of the files".to_owned(),
        "stall.s, get.*, seek.* and shapes: the engine".to_owned(),
    ]
}

/// The day and the minute of a number of seconds since 1970: `2026-11-21 16:02 UTC`.
#[must_use]
pub fn date(seconds: u64) -> String {
    // Howard Hinnant, chrono-compatible low-level date algorithms: years begin in March, so that leap days come last.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds % 86_400 / 3_600, seconds % 3_600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{large, report, run, step};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_276_953, "2026-11-21 16:02 UTC"),
        ];
        for (seconds, wanted) in dates {
            assert_eq!(date(seconds), wanted);
        }
    }

    #[test]
    fn what_went_wrong_is_said_first_and_once() {
        let mut large = large();
        large.partial = true;
        large.runs[1].error = Some("no space left".to_owned());
        let remarks = remarks(&large);
        assert!(remarks[0].starts_with("PARTIAL"), "{remarks:?}");
        assert_eq!(remarks[1], "FAILED: spinney-lsm (run 1): no space left");
        assert!(
            remarks.contains(&"! missed the rate: lmdb qr100 insert: 62.0 of 100 calls/s".to_owned()),
            "{remarks:?}"
        );
        assert!(remarks.contains(&"skipped: lmdb l.x: the engine has no secondary indexes to make later".to_owned()));
        assert_eq!(remarks.iter().filter(|remark| remark.contains("page cache")).count(), 1);
    }

    #[test]
    fn a_quiet_report_has_no_remarks() {
        assert!(remarks(&report(vec![run("a", 0, vec![step("load", 1.0)])])).is_empty());
    }
}
