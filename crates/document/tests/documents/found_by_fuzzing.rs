//! What fuzzing found, each with its story. Findings of one file have their tests there.

use spinney::env::sim::SimEnv;
use spinney_document::command::Service;

use crate::collections::{json, open};

/// The reply of a command, or the code of its error.
fn run(service: &Service, command: &str) -> Result<String, i32> {
    let reply = service.run_command("app", json(command).view());
    reply.map(|reply| reply.view().to_json()).map_err(|error| error.code().number())
}

/// The multiplication of a number of weeks, days or milliseconds overflowed, and the command panicked.
#[test]
fn a_date_is_truncated_or_the_bin_begins_before_all_dates() {
    let service = Service::new(open(&SimEnv::new(1)));
    let truncated = |millis: i64, unit: &str, size: i64| {
        let date = format!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#);
        let truncated = format!(r#"{{"$dateTrunc":{{"date":{date},"unit":"{unit}","binSize":{size}}}}}"#);
        let stages = format!(r#"[{{"$documents":[{{}}]}},{{"$project":{{"v":{truncated}}}}}]"#);
        run(&service, &format!(r#"{{"aggregate":1,"pipeline":{stages},"cursor":{{}}}}"#))
    };
    for unit in ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"] {
        for millis in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            for size in [1, 3, 100_000] {
                let answer = truncated(millis, unit, size);
                assert!(answer.is_ok() || answer == Err(5_439_005), "{millis} {unit} {size}: {answer:?}");
            }
        }
    }
    assert_eq!(truncated(i64::MIN, "week", 1), Err(5_439_005));
}

/// A number in a path is a position of an array and a field of the array's documents: where these lack the field, null
/// matches, while the index has only the value at the position. The index was asked for null and left them out.
#[test]
fn an_index_on_a_position_of_an_array_changes_no_answer() {
    let service = Service::new(open(&SimEnv::new(1)));
    run(&service, r#"{"createIndexes":"c","indexes":[{"key":{"a.0":1},"name":"i"}]}"#).unwrap();
    let insert = r#"{"insert":"c","documents":[{"_id":1,"a":[1,{"b":2}]},{"_id":2,"a":[5]},{"_id":3}]}"#;
    run(&service, insert).unwrap();
    for filter in [r#"{"a.0":null}"#, r#"{"a.0":{"$in":[null,9]}}"#, r#"{"a.0":{"$lte":null}}"#, r#"{"a.0":1}"#] {
        let find = |hint: &str| {
            let find = format!(r#"{{"find":"c","filter":{filter},"projection":{{"_id":1}},"sort":{{"_id":1}}{hint}}}"#);
            run(&service, &find).unwrap()
        };
        let scanned = find(r#","hint":{"$natural":1}"#);
        assert!(scanned.contains(r#"{"_id":1}"#), "{scanned}");
        assert_eq!(scanned, find(""), "{filter}");
        assert_eq!(scanned, find(r#","hint":"i""#), "{filter}");
    }
    // The key of the value at a position does not make the document: the first of an array is no field.
    let shown = |hint: &str| {
        let find = format!(r#"{{"find":"c","filter":{{"a.0":5}},"projection":{{"_id":0,"a.0":1}},"hint":{hint}}}"#);
        run(&service, &find).unwrap()
    };
    assert_eq!(shown(r#"{"$natural":1}"#), shown(r#""i""#));
}
