//! Parts of dates: `$year` and its like, `$dateToParts`, `$dateFromParts`, `$tsSecond`, `$tsIncrement`.

use super::calendar::{day_of_year, iso_week, iso_weekday, monday_of, week, weekday};
use super::zone::Zone;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::date::{Civil, DAY_MS, days_from_civil};
use crate::bson::{DocumentBuilder, Value};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, Function, function};
use crate::expr::value::{Val, error, int};

/// The milliseconds of a date, timestamp or object id; nothing for null.
pub(in crate::expr::ops) fn millis_or_null(value: &Val<'_>) -> Result<Option<i64>> {
    match value.value() {
        Value::DateTime(millis) => Ok(Some(millis)),
        Value::Timestamp(timestamp) => Ok(Some(i64::from(timestamp.time) * 1000)),
        Value::ObjectId(id) => Ok(Some(id.millis())),
        value if value.is_nullish() => Ok(None),
        other => Err(error(16006, format!("can't convert from BSON type {} to Date", other.kind().name()))),
    }
}

/// The zone of an argument: UTC when it was not given, nothing when it is null.
pub(in crate::expr::ops) fn zone_of(call: &Call, at: usize, value: &Val<'_>) -> Result<Option<Zone>> {
    if call.has(at) { Zone::of(value) } else { Ok(Some(Zone::UTC)) }
}

/// A part of a date; the arguments are the date and the time zone.
fn part<'a>(call: &'a Call, env: &Env<'a>, of: fn(i64) -> i64) -> Result<Val<'a>> {
    let (date, zone) = (call.argument(0, env)?, call.argument(1, env)?);
    let (zone, millis) = (zone_of(call, 1, &zone)?, millis_or_null(&date)?);
    let (Some(zone), Some(millis)) = (zone, millis) else { return Ok(Val::NULL) };
    let part = of(zone.local(millis));
    Ok(Val::View(if call.name == "$isoWeekYear" { Value::Int64(part) } else { int(part) }))
}

function!(year(call, env) { part(call, env, |local| Civil::from_millis(local).year) });
function!(month(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).month)) });
function!(day_of_month(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).day)) });
function!(hour(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).hour)) });
function!(minute(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).minute)) });
function!(second(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).second)) });
function!(millisecond(call, env) { part(call, env, |local| i64::from(Civil::from_millis(local).millisecond)) });
function!(year_day(call, env) { part(call, env, day_of_year) });
function!(week_day(call, env) { part(call, env, |local| weekday(local) + 1) });
function!(iso_week_day(call, env) { part(call, env, iso_weekday) });
function!(year_week(call, env) { part(call, env, week) });
function!(iso_year_week(call, env) { part(call, env, |local| iso_week(local).1) });
function!(iso_week_year(call, env) { part(call, env, |local| iso_week(local).0) });

/// Reads `$year` and its like: a date, or `{date: .., timezone: ..}`.
pub(in crate::expr) fn parse_part(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let function: Function = match name {
        "$year" => year,
        "$month" => month,
        "$dayOfMonth" => day_of_month,
        "$hour" => hour,
        "$minute" => minute,
        "$second" => second,
        "$millisecond" => millisecond,
        "$dayOfYear" => year_day,
        "$dayOfWeek" => week_day,
        "$isoDayOfWeek" => iso_week_day,
        "$week" => year_week,
        "$isoWeek" => iso_year_week,
        _ => iso_week_year,
    };
    let arguments = match value {
        Value::Document(document) if document.first().is_some_and(|first| !first.name.as_bytes().starts_with(b"$")) => {
            for element in document {
                if element.name != "date" && element.name != "timezone" {
                    return Err(error(40535, format!("unrecognized option to {name}: \"{}\"", element.name)));
                }
            }
            let date =
                document.get("date").ok_or_else(|| error(40539, format!("missing 'date' argument to {name}")))?;
            vec![parser.parse(date)?, parser.optional(document.get("timezone"))?]
        }
        Value::Document(document) if document.is_empty() => {
            return Err(error(40539, format!("missing 'date' argument to {name}")));
        }
        Value::Array(array) => {
            let mut items = parser.items(array)?;
            if items.len() != 1 {
                return Err(error(
                    40536,
                    format!("{name} accepts exactly one argument if given an array, but was given {}", items.len()),
                ));
            }
            items.push(Expression::Absent);
            items
        }
        other => vec![parser.parse(other)?, Expression::Absent],
    };
    Ok(Expression::Call(Call { name, function, arguments }))
}

function!(to_parts(call, env) {
    let (date, zone, iso) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    let zone = zone_of(call, 1, &zone)?;
    let iso = match iso.value() {
        Value::Bool(iso) => iso,
        value if value.is_nullish() && call.has(2) => return Ok(Val::NULL),
        value if value.is_nullish() => false,
        other => return Err(error(40521, format!("iso8601 must evaluate to a bool, found {}", other.kind().name()))),
    };
    let (Some(zone), Some(millis)) = (zone, millis_or_null(&date)?) else { return Ok(Val::NULL) };
    let local = zone.local(millis);
    let civil = Civil::from_millis(local);
    let mut builder = DocumentBuilder::new();
    if iso {
        let (year, week) = iso_week(local);
        builder.append("isoWeekYear", int(year)).append("isoWeek", int(week)).append("isoDayOfWeek", int(iso_weekday(local)));
    } else {
        builder.append("year", int(civil.year)).append("month", i32::from(civil.month)).append("day", i32::from(civil.day));
    }
    builder.append("hour", i32::from(civil.hour)).append("minute", i32::from(civil.minute));
    builder.append("second", i32::from(civil.second)).append("millisecond", i32::from(civil.millisecond));
    Ok(Val::document(builder.finish()))
});

/// Reads `$dateToParts`.
pub(in crate::expr) fn parse_to_parts(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(40524, "$dateToParts only supports an object as its argument"));
    };
    for element in document {
        if !["date", "timezone", "iso8601"].iter().any(|known| element.name == *known) {
            return Err(error(40520, format!("Unrecognized argument to $dateToParts: {}", element.name)));
        }
    }
    let date = document.get("date").ok_or_else(|| error(40522, "Missing 'date' parameter to $dateToParts"))?;
    let arguments = vec![
        parser.parse(date)?,
        parser.optional(document.get("timezone"))?,
        parser.optional(document.get("iso8601"))?,
    ];
    Ok(Expression::Call(Call { name, function: to_parts, arguments }))
}

/// The arguments of `$dateFromParts`: of the calendar, then of ISO weeks, then the clock and the zone.
const PARTS: [&str; 11] = [
    "year",
    "month",
    "day",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
    "hour",
    "minute",
    "second",
    "millisecond",
    "timezone",
];

function!(from_parts(call, env) {
    let mut null = false;
    let mut numbers = [0_i64; 10];
    let defaults = [1970, 1, 1, 1970, 1, 1, 0, 0, 0, 0];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = defaults[at];
        if !call.has(at) {
            continue;
        }
        let value = call.argument(at, env)?;
        if value.is_nullish() {
            null = true;
            continue;
        }
        let whole = value.value().as_exact_i64();
        *number = whole.ok_or_else(|| error(40515, format!("'{}' must evaluate to an integer, found {} with value {}", PARTS[at], value.type_name(), value.value().to_json())))?;
        let year = at == 0 || at == 3;
        if year && !(1..=9999).contains(number) {
            return Err(error(40523, format!("'{}' must evaluate to an integer in the range 1 to 9999, found {number}", PARTS[at])));
        }
        if !year && !(-32_768..=32_767).contains(number) && at < 9 {
            return Err(error(31034, format!("'{}' must evaluate to a value in the range [-32768, 32767]; value {number} is not in range", PARTS[at])));
        }
    }
    let zone = call.argument(10, env)?;
    let (Some(zone), false) = (zone_of(call, 10, &zone)?, null) else { return Ok(Val::NULL) };
    let [year, month, day, iso_year, iso_week, iso_day, hour, minute, second, millisecond] = numbers;
    let days = if call.has(3) {
        monday_of(iso_year, iso_week) + iso_day - 1
    } else {
        let month = month - 1;
        let first = u8::try_from(month.rem_euclid(12) + 1).unwrap_or(1);
        days_from_civil(year + month.div_euclid(12), first, 1) + day - 1
    };
    let clock = ((i128::from(hour) * 60 + i128::from(minute)) * 60 + i128::from(second)) * 1000 + i128::from(millisecond);
    let local = i128::from(days) * i128::from(DAY_MS) + clock;
    let local = i64::try_from(local).map_err(|_| Error::new(ErrorCode::OVERFLOW, "date overflow in $dateFromParts"))?;
    Ok(Val::View(Value::DateTime(zone.utc(local))))
});

/// Reads `$dateFromParts`.
pub(in crate::expr) fn parse_from_parts(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(40519, "$dateFromParts only supports an object as its argument"));
    };
    for element in document {
        if !PARTS.iter().any(|known| element.name == *known) {
            return Err(error(40518, format!("Unrecognized argument to $dateFromParts: {}", element.name)));
        }
    }
    let has = |names: &[&str]| names.iter().any(|name| document.get(name).is_some());
    if document.get("year").is_none() && document.get("isoWeekYear").is_none() {
        return Err(error(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present"));
    }
    if document.get("year").is_some() && has(&["isoWeekYear", "isoWeek", "isoDayOfWeek"]) {
        return Err(error(40489, "$dateFromParts does not allow mixing natural dates with ISO dates"));
    }
    if document.get("isoWeekYear").is_some() && has(&["year", "month", "day"]) {
        return Err(error(40525, "$dateFromParts does not allow mixing ISO dates with natural dates"));
    }
    let arguments = PARTS.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: from_parts, arguments }))
}

function!(ts_second(call, env) {
    timestamp(call, env).map(|timestamp| timestamp.map_or(Val::NULL, |timestamp| Val::View(Value::Int64(i64::from(timestamp.time)))))
});

function!(ts_increment(call, env) {
    timestamp(call, env).map(|timestamp| timestamp.map_or(Val::NULL, |timestamp| Val::View(Value::Int64(i64::from(timestamp.increment)))))
});

fn timestamp<'a>(call: &'a Call, env: &Env<'a>) -> Result<Option<crate::bson::Timestamp>> {
    let value = call.argument(0, env)?;
    match value.value() {
        Value::Timestamp(timestamp) => Ok(Some(timestamp)),
        value if value.is_nullish() => Ok(None),
        other => {
            let code = if call.name == "$tsSecond" { 5_687_301 } else { 5_687_302 };
            Err(error(
                code,
                format!("{} requires argument to be a timestamp, found {}", call.name, other.kind().name()),
            ))
        }
    }
}
