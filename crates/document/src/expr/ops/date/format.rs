//! Dates as text: `$dateToString`.

use std::fmt::Write as _;

use super::calendar::{day_of_year, iso_week, iso_weekday, week, weekday};
use super::parts::{millis_or_null, zone_of};
use super::zone::Zone;
use crate::base::Result;
use crate::bson::Value;
use crate::bson::date::Civil;
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Expression, function};
use crate::expr::value::{Val, error};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A date as a format says.
fn formatted(millis: i64, zone: Zone, format: &str) -> Result<String> {
    let local = zone.local(millis);
    let civil = Civil::from_millis(local);
    let (mut text, mut chars) = (String::new(), format.chars());
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let month = usize::from(civil.month) - 1;
        let minutes = zone.offset(millis) / 60_000;
        let written = match chars.next() {
            Some('%') => write!(text, "%"),
            Some('Y') => {
                if !(0..=9999).contains(&civil.year) {
                    return Err(error(
                        18537,
                        format!(
                            "Could not convert date to string: date component was outside the supported range of 0-9999: {}",
                            civil.year
                        ),
                    ));
                }
                write!(text, "{:04}", civil.year)
            }
            Some('m') => write!(text, "{:02}", civil.month),
            Some('d') => write!(text, "{:02}", civil.day),
            Some('H') => write!(text, "{:02}", civil.hour),
            Some('M') => write!(text, "{:02}", civil.minute),
            Some('S') => write!(text, "{:02}", civil.second),
            Some('L') => write!(text, "{:03}", civil.millisecond),
            Some('j') => write!(text, "{:03}", day_of_year(local)),
            Some('w') => write!(text, "{}", weekday(local) + 1),
            Some('u') => write!(text, "{}", iso_weekday(local)),
            Some('U') => write!(text, "{:02}", week(local)),
            Some('V') => write!(text, "{:02}", iso_week(local).1),
            Some('G') => write!(text, "{:04}", iso_week(local).0),
            Some('b') => write!(text, "{}", &MONTHS[month][..3]),
            Some('B') => write!(text, "{}", MONTHS[month]),
            Some('z') => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(text, "{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
            Some('Z') => write!(text, "{minutes:+}"),
            None => return Err(error(18535, "Unmatched '%' at end of format string")),
            Some(other) => return Err(error(18536, format!("Invalid format character '%{other}' in format string"))),
        };
        written.expect("a String takes any text");
    }
    Ok(text)
}

function!(to_string(call, env) {
    let (date, format, zone) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    let format = match format.value() {
        Value::String(format) => Some(format.to_str_lossy().into_owned()),
        value if value.is_nullish() => None,
        other => return Err(error(18533, format!("$dateToString requires that 'format' be a string, found: {} with value {}", other.kind().name(), other.to_json()))),
    };
    let zone = zone_of(call, 2, &zone)?;
    let Some(millis) = millis_or_null(&date)? else {
        return if call.has(3) { call.argument(3, env) } else { Ok(Val::NULL) };
    };
    let Some(zone) = zone else { return Ok(Val::NULL) };
    let format = match format {
        Some(format) => format,
        None if call.has(1) => return Ok(Val::NULL),
        None if zone.is_utc() => "%Y-%m-%dT%H:%M:%S.%LZ".to_owned(),
        None => "%Y-%m-%dT%H:%M:%S.%L".to_owned(),
    };
    Ok(Val::text(formatted(millis, zone, &format)?))
});

/// Reads `$dateToString`: date, format, timezone, onNull.
pub(in crate::expr) fn parse_to_string(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(18629, "$dateToString only supports an object as its argument"));
    };
    let names = ["date", "format", "timezone", "onNull"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(error(18534, format!("Unrecognized argument to $dateToString: {}", element.name)));
        }
    }
    if document.get("date").is_none() {
        return Err(error(18628, "Missing 'date' parameter to $dateToString"));
    }
    let arguments = names.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: to_string, arguments }))
}
