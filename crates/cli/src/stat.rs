//! `stat`: all counters, in groups.

use crate::args::StatArgs;
use crate::escape::one_line;
use crate::output::Output;
use crate::prometheus;
use crate::store::look;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use spinney::{Database, Histogram, LevelStats, LiveStats, Stats};
use spinney_lab::text::{bytes, count};
use std::io::Write as _;

/// The group that has a group for each table.
const TABLE_READS: &str = "table_reads";

/// Prints the counters: those of the process that has the database open, or else what an open finds.
pub(crate) fn run(args: &StatArgs, out: &mut Output) -> Result<()> {
    match Database::live_stats(&args.db.path)? {
        Some(live) => print_live(&live, args, out),
        None => print(&look(&args.db, |db| Ok(db.stats()))?, args.json, args.prometheus, out),
    }
}

/// Prints the counters of another process, and says so.
fn print_live(live: &LiveStats, args: &StatArgs, out: &mut Output) -> Result<()> {
    if args.json {
        let mut json = serde_json::to_value(&live.stats)?;
        json.as_object_mut().map(|json| json.insert("process".to_owned(), live.process.as_str().into()));
        return out.json(&json);
    }
    let comment = if args.prometheus { "# " } else { "" };
    writeln!(out, "{comment}counters of {}, which has the database open", live.process)?;
    print(&live.stats, false, args.prometheus, out)
}

/// Prints counters, as JSON or in the text format of Prometheus if asked to.
pub(crate) fn print(stats: &Stats, json: bool, prometheus: bool, out: &mut Output) -> Result<()> {
    if json {
        return out.json(stats);
    }
    if prometheus {
        return Ok(out.write_all(prometheus::text(stats).as_bytes())?);
    }
    // The engine's counters are printed through their names, so that a new one is never forgotten here.
    if let Json::Object(stats) = serde_json::to_value(stats)? {
        let (groups, single): (Vec<_>, Vec<_>) = stats.into_iter().partition(|(_, value)| value.is_object());
        print_group("database", &single.into_iter().collect(), out)?;
        for (name, group) in groups {
            let Json::Object(group) = group else { continue };
            if name != TABLE_READS {
                print_group(&name, &group, out)?;
                continue;
            }
            for (table, reads) in group {
                if let Json::Object(reads) = reads {
                    print_group(&format!("reads of {}", one_line(&table)), &reads, out)?;
                }
            }
        }
    }
    print_levels(&stats.levels, out)?;
    writeln!(out, "log, how often which size")?;
    for (name, histogram) in
        [("appends per group", &stats.log.group_appends), ("microseconds per sync", &stats.log.sync_us)]
    {
        writeln!(out, "{}", histogram_line(name, histogram))?;
    }
    Ok(())
}

/// What was done for each level that has anything, and what is there now.
fn print_levels(levels: &[LevelStats], out: &mut Output) -> Result<()> {
    writeln!(out, "levels    size     debt    jobs       in  rewritten  written  w-amp    seconds")?;
    for level in levels.iter().filter(|level| level.jobs > 0 || level.bytes > 0) {
        let [size, debt, came, rewritten, written] =
            [level.bytes, level.debt_bytes, level.in_bytes, level.rewritten_bytes, level.written_bytes].map(bytes);
        let (place, jobs, seconds) = (&level.place, count(level.jobs), level.time_us as f64 / 1e6);
        let amplification = level.write_amplification();
        let sizes = format!("{size:>9}{debt:>9}{jobs:>8}{came:>9}{rewritten:>11}{written:>9}");
        writeln!(out, "  {place:<6}{sizes}{amplification:>7.2}{seconds:>11.2}")?;
    }
    Ok(())
}

/// A histogram: the mean, and what half and nearly all of the values do not exceed.
fn histogram_line(name: &str, histogram: &Histogram) -> String {
    let most = |permille| match histogram.quantile(permille) {
        Some(bound) => format!("<= {}", count(bound)),
        None => "huge".to_owned(),
    };
    let mean = histogram.sum / histogram.count().max(1);
    format!("  {name:<22} mean {}, half {}, 99 % {}, all {}", count(mean), most(500), most(990), most(1000))
}

fn print_group(name: &str, group: &Map<String, Json>, out: &mut Output) -> Result<()> {
    writeln!(out, "{name}")?;
    // Histograms have lines of their own, and what did not happen has none.
    for (name, value) in group.iter().filter(|(_, value)| !value.is_object() && !value.is_array() && !value.is_null()) {
        writeln!(out, "{}", line(name, value))?;
    }
    Ok(())
}

/// A counter: its name in words, its value, and what that is in handier units. A message is printed as it is.
fn line(name: &str, value: &Json) -> String {
    let words = name.replace('_', " ");
    if let Some(message) = value.as_str() {
        return format!("  {words}: {message}");
    }
    match value.as_u64() {
        Some(number) if name.ends_with("_bytes") && number >= 1024 => {
            format!("  {words:<26} {:>20}  {}", count(number), bytes(number))
        }
        Some(number) => format!("  {words:<26} {:>20}", count(number)),
        None => format!("  {words:<26} {value:>20}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_also_told_in_units() {
        assert_eq!(
            line("written_bytes", &Json::from(1 << 20)),
            format!("  {:<26} {:>20}  1.00 MiB", "written bytes", "1,048,576")
        );
        assert_eq!(line("syncs", &Json::from(12)), format!("  {:<26} {:>20}", "syncs", "12"));
        assert_eq!(line("last_failure", &Json::from("a: damaged")), "  last failure: a: damaged");
    }
}
