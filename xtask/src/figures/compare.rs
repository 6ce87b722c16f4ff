//! Blocks that look across tables: where a peer is ahead of Spinney, and the summary.

use super::number::shown;
use super::result::{DISTURBED_RUN, Engine, Outcome, Spread};
use super::tables::{Column, SUMMARY, TABLES, Table};

/// A figure of an engine.
type Place<'e> = (&'e Engine, Spread);

/// The engines that have a column's figure, the best first.
fn ranked<'e>(outcome: &'e Outcome, column: &Column) -> Result<Vec<Place<'e>>, String> {
    let mut places = Vec::new();
    for engine in &outcome.engines {
        places.extend(engine.value(column)?.map(|spread| (engine, spread)));
    }
    places.sort_by(|(_, one), (_, other)| {
        let order = one.median.total_cmp(&other.median);
        if column.more { order.reverse() } else { order }
    });
    Ok(places)
}

/// The names of the engines with the best median of a column.
pub(super) fn best<'e>(outcome: &'e Outcome, column: &Column) -> Result<Option<&'e str>, String> {
    Ok(ranked(outcome, column)?.first().map(|(engine, _)| engine.name.as_str()))
}

/// The figures of all tables in which a peer's median is better than that of Spinney's better layout, the largest
/// difference first.
pub(super) fn losses(result_of: impl Fn(&Table) -> Result<Outcome, String>) -> Result<String, String> {
    let mut rows = Vec::new();
    for table in TABLES {
        let outcome = result_of(table)?;
        for column in table.columns {
            let places = ranked(&outcome, column)?;
            let own = places.iter().find(|(engine, _)| engine.is_own());
            let (Some((own, figure)), Some((peer, ahead))) = (own, places.first()) else { continue };
            if peer.is_own() {
                continue;
            }
            let factor = if column.more { ahead.median / figure.median } else { figure.median / ahead.median };
            let overlaps = figure.least <= ahead.most && ahead.least <= figure.most;
            rows.push((
                factor,
                format!(
                    "| {}: {} | {} {} | {} {} | {}{} |\n",
                    table.name,
                    column.title,
                    shown(figure.median),
                    own.name,
                    shown(ahead.median),
                    peer.name,
                    shown(factor),
                    if overlaps { ", ranges overlap" } else { "" }
                ),
            ));
        }
    }
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    if rows.is_empty() {
        return Ok("\nNowhere in these tables.\n\n".to_owned());
    }
    let rows: String = rows.into_iter().map(|(_, row)| row).collect();
    Ok(format!("\n| table: figure | Spinney | best peer | factor |\n|---|---|---|---|\n{rows}\n"))
}

/// The figures of [`SUMMARY`], Spinney's layouts and the others.
pub(super) fn summary(result_of: impl Fn(&Table) -> Result<Outcome, String>) -> Result<String, String> {
    let mut text = "\n| | Spinney | others |\n|---|---|---|\n".to_owned();
    let mut is_disturbed = false;
    for line in SUMMARY {
        let table = TABLES.iter().find(|table| table.name == line.table);
        let table = table.ok_or(format!("the summary names {}", line.table))?;
        let column = table.columns.iter().find(|column| column.title == line.column);
        let column = column.ok_or(format!("the summary names {} of {}", line.column, line.table))?;
        let outcome = result_of(table)?;
        is_disturbed |= outcome.is_disturbed;
        let (own, others): (Vec<_>, Vec<_>) =
            ranked(&outcome, column)?.into_iter().partition(|(engine, _)| engine.is_own());
        let cell = |places: &[Place<'_>]| {
            let names = places.iter().map(|(engine, spread)| format!("{} {}", engine.name, shown(spread.median)));
            names.collect::<Vec<_>>().join(", ")
        };
        text += &format!("| {} | {} | {} |\n", line.about, cell(&own), cell(&others));
    }
    if is_disturbed {
        text += &format!("\n{DISTURBED_RUN}\n");
    }
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result in which the first engine has `own` of every cost, and the second `peer`.
    fn outcome(table: &Table, own: f64, peer: f64) -> Result<Outcome, String> {
        let engine = |name: &str, value: f64| {
            let steps: Vec<_> = table
                .columns
                .iter()
                .map(|column| serde_json::json!({"name": column.step, "cost": {"rate": value, "operations": 1}, "figures": []}))
                .collect();
            serde_json::json!({"engine": {"name": name}, "steps": steps})
        };
        let runs = [engine("spinney-lsm", own), engine("peer", peer)];
        let machine = serde_json::json!({"cpu": ""});
        let file = serde_json::json!({"format": 1, "command": "peers", "began": 0, "machine": machine,
            "build": {"commit": ""}, "remarks": [], "runs": runs});
        Outcome::parse(&file.to_string())
    }

    #[test]
    fn a_loss_is_told_and_a_win_is_not() {
        let text = losses(|table| outcome(table, 2.0, 3.0)).unwrap();
        assert!(text.contains("| kv: readrandom | 2.00 spinney-lsm | 3.00 peer | 1.50 |"), "{text}");
        assert!(losses(|table| outcome(table, 3.0, 2.0)).unwrap().contains("Nowhere"));
        assert_eq!(best(&outcome(&TABLES[0], 2.0, 3.0).unwrap(), &TABLES[0].columns[0]), Ok(Some("peer")));
    }

    #[test]
    fn the_summary_has_the_layouts_and_the_others() {
        let text = summary(|table| outcome(table, 2.0, 3.0)).unwrap();
        assert!(text.contains("| random puts/s | spinney-lsm 2.00 | peer 3.00 |"), "{text}");
    }
}
