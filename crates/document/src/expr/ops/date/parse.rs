//! Dates from text: `$dateFromString`, with a format or without.

use super::super::super::value::{Val, as_text, error};
use super::calendar::{days_in, monday_of};
use super::zone::Zone;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Value;
use crate::bson::date::{DAY_MS, days_from_civil};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Expression, function};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// What has been read of a date.
#[derive(Debug, Default)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso: (Option<i64>, Option<i64>, Option<i64>),
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    zone: Option<Zone>,
}

impl Read {
    /// The milliseconds since 1970, if the parts make a date.
    fn millis(&self, default: Option<Zone>) -> Option<i64> {
        let days = if let (Some(year), week, day) = self.iso {
            monday_of(year, week.unwrap_or(1)) + day.unwrap_or(1) - 1
        } else if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            days_from_civil(year, 1, day)
        } else {
            let (year, month, day) = (self.year?, u8::try_from(self.month?).ok()?, self.day?);
            if !(1..=12).contains(&month) || day < 1 || day > i64::from(days_in(year, month)) {
                return None;
            }
            days_from_civil(year, month, day)
        };
        if !(0..=24).contains(&self.hour) || !(0..60).contains(&self.minute) || !(0..=60).contains(&self.second) {
            return None;
        }
        let clock = ((self.hour * 60 + self.minute) * 60 + self.second) * 1000 + self.millisecond;
        let local = days.checked_mul(DAY_MS)?.checked_add(clock)?;
        Some(self.zone.or(default).unwrap_or(Zone::UTC).utc(local))
    }
}

/// A reader of text.
struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().ok()
    }

    fn eat(&mut self, c: char) -> bool {
        let eaten = self.rest.strip_prefix(c);
        self.rest = eaten.unwrap_or(self.rest);
        eaten.is_some()
    }

    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn month(&mut self) -> Option<i64> {
        let word = self.word().to_ascii_lowercase();
        if word.len() < 3 {
            return None;
        }
        let at = MONTHS.iter().position(|month| *month == word || month[..3] == word)?;
        i64::try_from(at + 1).ok()
    }

    /// Milliseconds of the digits behind a point.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        format!("{digits:0<3}")[..3].parse().ok()
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(SPACES);
    }
}

/// What may stand before a date, between its parts and behind it.
const SPACES: [char; 8] = [' ', '\t', '\n', '\r', '\x0B', '\x0C', '\0', '\u{A0}'];

/// The milliseconds of a date in one of the usual notations; without a zone of its own it is in `zone`.
pub(in crate::expr) fn parse_date(text: &str, zone: Option<Zone>) -> Option<i64> {
    let mut cursor = Cursor { rest: text.trim_matches(SPACES) };
    let mut read = Read::default();
    if cursor.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        // July 4, 2017
        read.month = Some(cursor.month()?);
        cursor.eat('.');
        cursor.spaces();
        read.day = Some(cursor.digits(1, 2)?);
        cursor.eat(',');
        cursor.spaces();
        read.year = Some(cursor.digits(4, 4)?);
    } else if cursor.eat('-') {
        // -0001-07-04
        read.year = Some(-cursor.digits(4, 4)?);
        read.month = Some(if cursor.eat('-') { cursor.digits(2, 2)? } else { return None });
        read.day = Some(if cursor.eat('-') { cursor.digits(2, 2)? } else { return None });
    } else {
        let first = cursor.digits(1, 4)?;
        if cursor.eat('-') {
            read.year = Some(first);
            if cursor.eat('W') {
                read.iso = (Some(first), Some(cursor.digits(2, 2)?), None);
                if cursor.eat('-') {
                    read.iso.2 = Some(cursor.digits(1, 1)?);
                }
            } else {
                read.month = Some(cursor.digits(1, 2)?);
                read.day = Some(if cursor.eat('-') { cursor.digits(1, 2)? } else { 1 });
            }
        } else if cursor.eat('/') {
            let second = cursor.digits(1, 2)?;
            if !cursor.eat('/') {
                return None;
            }
            let third = cursor.digits(1, 4)?;
            (read.year, read.month, read.day) = if first > 31 {
                (Some(first), Some(second), Some(third))
            } else {
                (Some(third), Some(first), Some(second))
            };
        } else if cursor.rest.starts_with(|c: char| c.is_ascii_digit()) && first > 999 {
            // 20170708
            (read.year, read.month, read.day) = (Some(first), Some(cursor.digits(2, 2)?), Some(cursor.digits(2, 2)?));
        } else {
            // 4 July 2017
            cursor.spaces();
            read.day = Some(first);
            read.month = Some(cursor.month()?);
            cursor.spaces();
            read.year = Some(cursor.digits(4, 4)?);
        }
    }
    read_clock(&mut cursor, &mut read)?;
    if has_two_zones(zone, &read) {
        return None;
    }
    read.millis(zone)
}

/// Whether a text with a zone of its own stands beside another zone; UTC is none.
fn has_two_zones(zone: Option<Zone>, read: &Read) -> bool {
    zone.is_some_and(|zone| !zone.is_utc()) && read.zone.is_some()
}

fn read_clock(cursor: &mut Cursor<'_>, read: &mut Read) -> Option<()> {
    cursor.eat(',');
    if cursor.eat('T') || cursor.eat('t') || cursor.rest.starts_with([' ', '\t']) {
        cursor.spaces();
        if cursor.rest.starts_with(|c: char| c.is_ascii_digit()) {
            read.hour = cursor.digits(1, 2)?;
            if cursor.eat(':') {
                read.minute = cursor.digits(2, 2)?;
                if cursor.eat(':') {
                    read.second = cursor.digits(2, 2)?;
                    if cursor.eat('.') || cursor.eat(',') {
                        read.millisecond = cursor.fraction()?;
                    }
                }
            } else if cursor.rest.starts_with(|c: char| c.is_ascii_digit()) {
                read.minute = cursor.digits(2, 2)?;
                read.second = cursor.digits(2, 2).unwrap_or_default();
            }
        }
    }
    cursor.spaces();
    let lower = cursor.rest.to_ascii_lowercase();
    if lower.starts_with("am") || lower.starts_with("pm") {
        if !(1..=12).contains(&read.hour) {
            return None;
        }
        read.hour = read.hour % 12 + if lower.starts_with('p') { 12 } else { 0 };
        cursor.rest = cursor.rest.get(2..)?.trim_start();
    }
    if !cursor.rest.is_empty() {
        read.zone = Some(zone_in(cursor.rest)?);
    }
    Some(())
}

/// The zone that the rest of a date names.
fn zone_in(text: &str) -> Option<Zone> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("z") {
        return Some(Zone::UTC);
    }
    let digits =
        text.strip_prefix("GMT").or_else(|| text.strip_prefix("UTC")).filter(|rest| !rest.is_empty()).unwrap_or(text);
    if let Some(hour) = digits.strip_prefix(['+', '-']).filter(|hour| hour.len() == 1) {
        return Zone::parse(&format!("{}0{hour}", &digits[..1]));
    }
    let named = match text {
        "EST" => "-05:00",
        "EDT" | "CST" if text == "EDT" => "-04:00",
        "CST" => "-06:00",
        "CDT" => "-05:00",
        "MST" => "-07:00",
        "MDT" => "-06:00",
        "PST" => "-08:00",
        "PDT" => "-07:00",
        "CET" => "+01:00",
        "CEST" => "+02:00",
        _ => digits,
    };
    Zone::parse(named)
}

/// The milliseconds of a date that is written as a format says.
fn parse_with(text: &str, format: &str, zone: Option<Zone>) -> Result<i64> {
    let wrong =
        |what: &str| Error::new(ErrorCode::CONVERSION_FAILURE, format!("Error parsing date string '{text}'; {what}"));
    let (mut cursor, mut read, mut chars) = (Cursor { rest: text }, Read::default(), format.chars());
    while let Some(c) = chars.next() {
        if c != '%' {
            if !cursor.eat(c) {
                return Err(wrong("the format separator does not match"));
            }
            continue;
        }
        let specifier = chars.next().unwrap_or('%');
        read_part(&mut cursor, &mut read, specifier)
            .ok_or_else(|| wrong(&format!("no part for '%{specifier}' was found")))?;
    }
    if !cursor.rest.is_empty() {
        return Err(wrong("trailing data"));
    }
    if has_two_zones(zone, &read) {
        return Err(wrong(
            "you cannot pass in a date/time string with time zone information together with a timezone argument",
        ));
    }
    read.millis(zone).ok_or_else(|| wrong("an incomplete or impossible date"))
}

fn read_part(cursor: &mut Cursor<'_>, read: &mut Read, specifier: char) -> Option<()> {
    match specifier {
        'd' => read.day = Some(cursor.digits(1, 2)?),
        'm' => read.month = Some(cursor.digits(1, 2)?),
        'b' | 'B' => read.month = Some(cursor.month()?),
        'Y' => read.year = Some(cursor.digits(1, 4)?),
        'j' => read.day_of_year = Some(cursor.digits(1, 3)?),
        'G' => read.iso.0 = Some(cursor.digits(1, 4)?),
        'V' => read.iso.1 = Some(cursor.digits(1, 2)?),
        'u' => read.iso.2 = Some(cursor.digits(1, 1)?),
        'H' => read.hour = cursor.digits(1, 2)?,
        'M' => read.minute = cursor.digits(1, 2)?,
        'S' => read.second = cursor.digits(1, 2)?,
        'L' => {
            let before = cursor.rest.len();
            let digits = cursor.digits(1, 3)?;
            read.millisecond = digits * [100, 10, 1][before - cursor.rest.len() - 1];
        }
        'z' => {
            let end =
                cursor.rest.find(|c: char| !(c.is_ascii_digit() || "+-:Z".contains(c))).unwrap_or(cursor.rest.len());
            read.zone = Some(zone_in(cursor.rest.get(..end)?)?);
            cursor.rest = &cursor.rest[end..];
        }
        'Z' => {
            let negative = cursor.eat('-');
            let minutes = if negative || cursor.eat('+') { cursor.digits(1, 3)? } else { return None };
            read.zone = Some(Zone::Fixed(if negative { -minutes * 60 } else { minutes * 60 }));
        }
        '%' => return cursor.eat('%').then_some(()),
        _ => return None,
    }
    Some(())
}

function!(from_string(call, env) {
    let (text, format) = (call.argument(0, env)?, call.argument(1, env)?);
    let (zone, on_null) = (call.argument(2, env)?, 4);
    let zone = if call.has(2) { Zone::of(&zone)? } else { None };
    let format = match format.value() {
        Value::String(format) => Some(format.to_str_lossy().into_owned()),
        value if value.is_nullish() => None,
        other => return Err(error(40684, format!("$dateFromString requires that 'format' be a string, found: {}", other.kind().name()))),
    };
    if let Some(format) = &format {
        check_format(format)?;
    }
    if text.is_nullish() {
        return if call.has(on_null) { call.argument(on_null, env) } else { Ok(Val::NULL) };
    }
    if call.has(2) && zone.is_none() || call.has(1) && format.is_none() {
        return Ok(Val::NULL);
    }
    let parsed = match as_text(&text) {
        None => {
            let what = format!("$dateFromString requires that 'dateString' be a string, found: {} with value {}", text.type_name(), text.value().to_json());
            Err(Error::new(ErrorCode::CONVERSION_FAILURE, what))
        }
        Some(text) => {
            let text = text.to_str_lossy();
            match &format {
                Some(format) => parse_with(&text, format, zone),
                None => parse_date(&text, zone).ok_or_else(|| {
                    Error::new(ErrorCode::CONVERSION_FAILURE, format!("Error parsing date string '{text}'"))
                }),
            }
        }
    };
    match parsed {
        Ok(millis) => Ok(Val::View(Value::DateTime(millis))),
        Err(_) if call.has(3) => call.argument(3, env),
        Err(wrong) => Err(wrong),
    }
});

fn check_format(format: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            match chars.next() {
                None => return Err(error(18535, "Unmatched '%' at end of format string")),
                Some(specifier) if !"dmbBYjGVuHMSLzZ%".contains(specifier) => {
                    return Err(error(18536, format!("Invalid format character '%{specifier}' in format string")));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Reads `$dateFromString`: dateString, format, timezone, onError, onNull.
pub(in crate::expr) fn parse_from_string(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(40540, "$dateFromString only supports an object as an argument"));
    };
    let names = ["dateString", "format", "timezone", "onError", "onNull"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(error(40541, format!("Unrecognized argument to $dateFromString: {}", element.name)));
        }
    }
    if document.get("dateString").is_none() {
        return Err(error(40542, "Missing 'dateString' parameter to $dateFromString"));
    }
    let arguments = names.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: from_string, arguments }))
}
