//! What a result file of the lab says.

use serde_json::Value;

use super::tables::{Column, Figure};

/// The form of result files that this reads.
const FORMAT: u64 = 1;

/// Where a remark of a disturbed run begins.
const DISTURBED: &str = "~ disturbed";

/// A result.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The command that repeats it.
    pub(super) command: String,
    /// Seconds since 1970 UTC at its begin.
    began: i64,
    pub(super) cpu: String,
    /// Other work took a part of the machine.
    pub(super) is_disturbed: bool,
    pub(super) engines: Vec<Engine>,
}

/// An engine's runs.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) name: String,
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
                None => engines.push(Engine { name, runs: vec![run.clone()] }),
            }
        }
        let remarks = value["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            command: repeatable(&text(&value["command"])?),
            began: value["began"].as_i64().ok_or("its begin is missing")?,
            cpu: text(&value["machine"]["cpu"])?,
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

impl Engine {
    /// A column's figure: the median of the repetitions, or `None` where the engine has none. A step that no run has is
    /// an error of the table.
    pub(super) fn value(&self, column: &Column) -> Result<Option<f64>, String> {
        let mut values = Vec::new();
        for run in &self.runs {
            let steps = run["steps"].as_array().into_iter().flatten();
            let step = steps.into_iter().find(|step| step["name"] == column.step);
            let step = step.ok_or(format!("{} has no step `{}`", self.name, column.step))?;
            values.extend(match column.figure {
                Figure::Cost(name) => step["cost"][name].as_f64(),
                Figure::Own(name) => {
                    let figures = step["figures"].as_array().into_iter().flatten();
                    figures
                        .into_iter()
                        .find(|figure| figure["name"] == name)
                        .and_then(|figure| figure["value"].as_f64())
                }
            });
        }
        values.sort_by(f64::total_cmp);
        Ok(values.get(values.len() / 2).copied())
    }
}

/// A result file without what no table shows: seconds, curves, shapes.
pub(super) fn reduced(text: &str) -> Result<String, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let runs = value["runs"].as_array_mut().ok_or("it has no runs")?;
    for step in runs.iter_mut().filter_map(|run| run["steps"].as_array_mut()).flatten() {
        step["seconds"] = Value::Array(Vec::new());
        for operation in step["operations"].as_array_mut().into_iter().flatten() {
            operation["curve"] = Value::Array(Vec::new());
        }
        for state in ["before", "after"] {
            step[state]["shape"] = Value::Array(Vec::new());
        }
    }
    serde_json::to_string_pretty(&value).map(|text| text + "\n").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"format": 1, "command": "/x/peers kv --json /tmp/a --num 7", "began": 1795670974,
        "machine": {"cpu": "Z80"}, "remarks": ["~ disturbed: by much"], "runs": [
        {"engine": {"name": "a"}, "steps": [{"name": "s", "cost": {"rate": 3}, "figures": [{"name": "f", "value": 9}]}]},
        {"engine": {"name": "a"}, "steps": [{"name": "s", "cost": {"rate": 1}, "figures": []}]},
        {"engine": {"name": "a"}, "steps": [{"name": "s", "cost": {"rate": 2}, "figures": []}]}]}"#;

    #[test]
    fn a_result_is_read() {
        let outcome = Outcome::parse(RESULT).unwrap();
        assert_eq!((outcome.command.as_str(), outcome.date().as_str()), ("peers kv --num 7", "26 November 2026"));
        assert!(outcome.is_disturbed && outcome.cpu == "Z80");
        let [engine] = outcome.engines.as_slice() else { panic!("one engine") };
        let column = |step, figure| Column { title: "", step, figure };
        assert_eq!(engine.value(&column("s", Figure::Cost("rate"))), Ok(Some(2.0)));
        assert_eq!(engine.value(&column("s", Figure::Own("f"))), Ok(Some(9.0)));
        assert_eq!(engine.value(&column("s", Figure::Own("g"))), Ok(None));
        assert!(engine.value(&column("t", Figure::Cost("rate"))).is_err());
        assert!(Outcome::parse(r#"{"format": 2}"#).is_err());
    }
}
