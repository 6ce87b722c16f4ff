//! What a result file of the lab says.

use serde_json::Value;

use super::tables::{Column, Figure};

/// The form of result files that this reads.
const FORMAT: u64 = 1;

/// Where a remark of a disturbed run begins.
const DISTURBED: &str = "~ disturbed";

/// What pages say of the figures of such a run.
pub(super) const DISTURBED_RUN: &str = "The machine did other work meanwhile: these figures say little.";

/// A result.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The command that repeats it.
    pub(super) command: String,
    /// Seconds since 1970 UTC at its begin.
    began: i64,
    pub(super) cpu: String,
    /// The commit of the sources, with `-dirty` if they differ from it.
    pub(super) commit: String,
    /// Other work took a part of the machine.
    pub(super) is_disturbed: bool,
    pub(super) engines: Vec<Engine>,
}

/// An engine's runs.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) name: String,
    /// Its operations go to a server process.
    pub(super) is_server: bool,
    runs: Vec<Value>,
}

impl Outcome {
    /// Reads a result file.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if value["format"].as_u64() != Some(FORMAT) {
            return Err(format!("it is no result of the lab of format {FORMAT}"));
        }
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned).ok_or("a text is missing");
        let mut engines: Vec<Engine> = Vec::new();
        for run in value["runs"].as_array().into_iter().flatten() {
            let name = text(&run["engine"]["name"])?;
            match engines.iter_mut().find(|engine| engine.name == name) {
                Some(engine) => engine.runs.push(run.clone()),
                None => {
                    let is_server = run["engine"]["client_server"] == true;
                    engines.push(Engine { name, is_server, runs: vec![run.clone()] });
                }
            }
        }
        let remarks = value["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            command: repeatable(&text(&value["command"])?),
            began: value["began"].as_i64().ok_or("its begin is missing")?,
            cpu: text(&value["machine"]["cpu"])?,
            commit: text(&value["build"]["commit"])?,
            is_disturbed: remarks.into_iter().any(|remark| remark.starts_with(DISTURBED)),
            engines,
        })
    }

    /// The day on which it began, as `26 November 2026`.
    pub(super) fn date(&self) -> String {
        const MONTHS: [(&str, i64); 12] = [
            ("January", 31),
            ("February", 28),
            ("March", 31),
            ("April", 30),
            ("May", 31),
            ("June", 30),
            ("July", 31),
            ("August", 31),
            ("September", 30),
            ("October", 31),
            ("November", 30),
            ("December", 31),
        ];
        let (mut year, mut days) = (1970, self.began / 86_400);
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        while days >= 365 + i64::from(is_leap(year)) {
            days -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        for (name, length) in MONTHS {
            let length = length + i64::from(length == 28 && is_leap(year));
            if days < length {
                return format!("{} {name} {year}", days + 1);
            }
            days -= length;
        }
        unreachable!("the days of a year are those of its months")
    }
}

/// The command without what differs where it is repeated: the path of the program, and where the result goes.
fn repeatable(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut kept = vec![if program.ends_with("spinney") { "spinney" } else { "peers" }];
    while let Some(word) = words.next() {
        if word == "--json" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// What the repetitions of a run say of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// The spread of values; `None` of none.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { median: values[values.len() / 2], least, most })
    }
}

impl Engine {
    /// One of Spinney's own.
    pub(super) fn is_own(&self) -> bool {
        self.name.starts_with("spinney")
    }

    /// A column's figure in all repetitions, or `None` where the engine has none. A step that no repetition has is an
    /// error of the table, unless the engine's runs failed.
    pub(super) fn value(&self, column: &Column) -> Result<Option<Spread>, String> {
        let mut values = Vec::new();
        let mut is_known = false;
        for run in &self.runs {
            match step(run, column.step) {
                Some(step) => {
                    is_known = true;
                    values.extend(figure(run, step, column.figure));
                }
                None => is_known |= !run["error"].is_null() || run["partial"] == true,
            }
        }
        if is_known { Ok(Spread::of(values)) } else { Err(format!("{} has no step `{}`", self.name, column.step)) }
    }
}

/// A step of a run.
fn step<'r>(run: &'r Value, name: &str) -> Option<&'r Value> {
    run["steps"].as_array()?.iter().find(|step| step["name"] == name)
}

/// A figure of a step of a run.
fn figure(run: &Value, of: &Value, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Cost(name) => of["cost"][name].as_f64(),
        Figure::Own(name) => of["figures"].as_array()?.iter().find(|figure| figure["name"] == name)?["value"].as_f64(),
        Figure::Disk(rows) => {
            let size = &of["after"]["size"];
            let bytes = size["allocated_bytes"].as_f64()? - size["log_bytes"].as_f64().unwrap_or(0.0);
            Some(bytes / step(run, rows)?["cost"]["operations"].as_f64()?)
        }
        Figure::Written(further) => {
            let mut kib = written(of)?;
            for name in further {
                kib += written(step(run, name)?)?;
            }
            Some(kib * 1024.0 / of["cost"]["operations"].as_f64()?)
        }
    }
}

/// KiB that a step sent to storage; none where the engine skipped it.
fn written(step: &Value) -> Option<f64> {
    if !step["skipped"].is_null() {
        return Some(0.0);
    }
    Some(step["cost"]["written_kib"].as_f64()? * step["cost"]["operations"].as_f64()?)
}

/// A result file with what tables can show: without seconds, latencies, counters, shapes and what is absent.
pub(super) fn reduced(text: &str) -> Result<String, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value["partial"] == true {
        return Err("the run was interrupted".to_owned());
    }
    let runs = value["runs"].as_array_mut().ok_or("it has no runs")?;
    for step in runs.iter_mut().filter_map(|run| run["steps"].as_array_mut()).flatten().filter_map(Value::as_object_mut)
    {
        step.retain(|name, value| {
            matches!(name.as_str(), "name" | "unit" | "cost" | "figures" | "after")
                || name == "skipped" && !value.is_null()
        });
        if let Some(after) = step.get_mut("after").and_then(Value::as_object_mut) {
            after.retain(|name, _| name == "size");
        }
        if let Some(cost) = step.get_mut("cost").and_then(Value::as_object_mut) {
            cost.retain(|_, value| !value.is_null());
        }
    }
    serde_json::to_string_pretty(&value).map(|text| text + "\n").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"format": 1, "command": "/x/peers kv --json /tmp/a --num 7", "began": 1795670974,
        "machine": {"cpu": "Z80"}, "build": {"commit": "abc"}, "remarks": ["~ disturbed: by much"], "runs": [
        {"engine": {"name": "a"}, "steps": [
            {"name": "s", "cost": {"rate": 3, "operations": 10, "written_kib": 2}, "figures": [{"name": "f", "value": 9}]},
            {"name": "c", "cost": {"operations": 1, "written_kib": 20}, "after": {"size": {"allocated_bytes": 90, "log_bytes": 20}}}]},
        {"engine": {"name": "a"}, "steps": [{"name": "s", "cost": {"rate": 1}, "figures": []}]},
        {"engine": {"name": "a"}, "steps": [{"name": "s", "cost": {"rate": 2}, "figures": []}]},
        {"engine": {"name": "b"}, "error": "killed", "steps": []}]}"#;

    fn column(step: &'static str, figure: Figure) -> Column {
        Column { title: "", step, figure, more: true }
    }

    #[test]
    fn a_result_is_read() {
        let outcome = Outcome::parse(RESULT).unwrap();
        assert_eq!((outcome.command.as_str(), outcome.date().as_str()), ("peers kv --num 7", "26 November 2026"));
        assert!(outcome.is_disturbed && outcome.cpu == "Z80" && outcome.commit == "abc");
        let [engine, failed] = outcome.engines.as_slice() else { panic!("two engines") };
        let one = |value| Ok(Some(Spread { median: value, least: value, most: value }));
        let rates = Spread { median: 2.0, least: 1.0, most: 3.0 };
        assert_eq!(engine.value(&column("s", Figure::Cost("rate"))), Ok(Some(rates)));
        assert_eq!(engine.value(&column("s", Figure::Own("f"))), one(9.0));
        assert_eq!(engine.value(&column("s", Figure::Own("g"))), Ok(None));
        assert_eq!(engine.value(&column("c", Figure::Disk("s"))), one(7.0));
        assert_eq!(engine.value(&column("s", Figure::Written(&["c"]))), one(4096.0));
        assert!(engine.value(&column("t", Figure::Cost("rate"))).is_err());
        assert_eq!(failed.value(&column("s", Figure::Cost("rate"))), Ok(None));
        assert!(Outcome::parse(r#"{"format": 2}"#).is_err());
    }

    #[test]
    fn a_reduced_result_says_the_same() {
        let kept = Outcome::parse(&reduced(RESULT).unwrap()).unwrap();
        assert!(reduced(r#"{"partial": true, "runs": []}"#).is_err());
        for figure in [Figure::Cost("rate"), Figure::Own("f"), Figure::Written(&["c"])] {
            let whole = Outcome::parse(RESULT).unwrap().engines[0].value(&column("s", figure));
            assert_eq!(kept.engines[0].value(&column("s", figure)), whole);
        }
    }
}
