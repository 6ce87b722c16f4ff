//! Collation documents: `{locale: "en", strength: 2}` and their other fields.

use icu_collator::CollatorPreferences;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_locale_core::Locale;

use super::locales::{self, Unusable};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Value};

/// The version that collations have: that of MongoDB's, by which clients know the document.
const VERSION: &str = "57.1";

/// What a collation document says, with what the locale says where the document does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollationOptions {
    /// The locale, such as `en`, `fr_CA` or `de@collation=phonebook`.
    pub locale: String,
    /// Whether case is compared by a level of its own, between accents and the rest.
    pub case_level: bool,
    /// Which case comes first where only case differs: `upper`, `lower`, or `off` for the order of the locale.
    pub case_first: CaseFirst,
    /// How far strings are compared, from 1, letters only, over 2, accents, and 3, case, to 4 and 5.
    pub strength: u8,
    /// Whether digits are compared as numbers.
    pub numeric_ordering: bool,
    /// Whether spaces and punctuation count at the fourth level only.
    pub shifted: bool,
    /// Whether only spaces are what `shifted` means.
    pub only_spaces: bool,
    /// Whether strings are normalized first. They always are: the option is kept and shown.
    pub normalization: bool,
    /// Whether accents are compared from the end of the string.
    pub backwards: bool,
}

/// Which case comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseFirst {
    /// Capital letters.
    Upper,
    /// Small letters.
    Lower,
    /// As the locale has it.
    Off,
}

/// The fields of a document as they were given.
#[derive(Debug, Default)]
struct Given {
    locale: Option<String>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<u8>,
    numeric_ordering: Option<bool>,
    shifted: Option<bool>,
    only_spaces: Option<bool>,
    normalization: Option<bool>,
    backwards: Option<bool>,
}

fn mismatch(field: &str, value: &Value<'_>, expected: &str) -> Error {
    let kind = value.kind().name();
    let what = format!("BSON field 'collation.{field}' is the wrong type '{kind}', expected type '{expected}'");
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}

fn flag(field: &str, value: &Value<'_>) -> Result<Option<bool>> {
    match value {
        Value::Bool(is) => Ok(Some(*is)),
        other => Err(mismatch(field, other, "bool")),
    }
}

/// The choice that a string names.
fn choice<T: Copy>(field: &str, value: &Value<'_>, choices: &[(&str, T)]) -> Result<Option<T>> {
    let Value::String(text) = value else { return Err(mismatch(field, value, "string")) };
    match choices.iter().find(|(name, _)| text == name) {
        Some((_, choice)) => Ok(Some(*choice)),
        None => Err(Error::bad_value(format!(
            "Enumeration value '{text}' for field 'collation.{field}' is not a valid value."
        ))),
    }
}

fn strength(value: &Value<'_>) -> Result<Option<u8>> {
    let number = value.as_f64().ok_or_else(|| mismatch("strength", value, "number"))?;
    let whole = if matches!(value, Value::Decimal128(_)) { number.round_ties_even() } else { number.trunc() };
    let known = [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4), (5.0, 5)].into_iter().find(|(number, _)| *number == whole);
    match known {
        Some((_, strength)) => Ok(Some(strength)),
        None => {
            let what = format!(
                "Enumeration value '{value}' for field 'collation.strength' is not a valid value, which is from 1 to 5."
            );
            Err(Error::bad_value(what))
        }
    }
}

impl Given {
    fn read(document: Document<'_>) -> Result<Self> {
        let mut given = Self::default();
        for element in document {
            let field = element.name.to_str_lossy();
            // Null is as missing, except in this field.
            if matches!(element.value, Value::Null | Value::Undefined) && field != "backwards" {
                continue;
            }
            given.set(&field, &element.value)?;
        }
        Ok(given)
    }

    fn set(&mut self, field: &str, value: &Value<'_>) -> Result<()> {
        match field {
            "locale" => {
                let Value::String(locale) = value else { return Err(mismatch(field, value, "string")) };
                self.locale = Some(locale.to_str_lossy().into_owned());
            }
            "caseLevel" => self.case_level = flag(field, value)?,
            "caseFirst" => {
                let choices = [("upper", CaseFirst::Upper), ("lower", CaseFirst::Lower), ("off", CaseFirst::Off)];
                self.case_first = choice(field, value, &choices)?;
            }
            "strength" => self.strength = strength(value)?,
            "numericOrdering" => self.numeric_ordering = flag(field, value)?,
            "alternate" => self.shifted = choice(field, value, &[("non-ignorable", false), ("shifted", true)])?,
            "maxVariable" => self.only_spaces = choice(field, value, &[("punct", false), ("space", true)])?,
            "normalization" => self.normalization = flag(field, value)?,
            "backwards" => self.backwards = flag(field, value)?,
            "version" => {
                let Value::String(version) = value else { return Err(mismatch(field, value, "string")) };
                if *version != VERSION {
                    let what =
                        format!("Requested collation version {version} but the only available version is {VERSION}");
                    return Err(Error::new(ErrorCode::INCOMPATIBLE_COLLATION_VERSION, what));
                }
            }
            _ => {
                let what = format!("BSON field 'collation.{field}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
        Ok(())
    }
}

/// What a collation document comes to, before the locale has said its part.
#[derive(Debug)]
pub(super) struct Asked {
    given: Given,
    locale: String,
    /// Whether accents are compared from the end of the string.
    backwards: bool,
    /// Which rules ICU4X is asked for.
    pub(super) preferences: CollatorPreferences,
    /// And with which options.
    pub(super) options: CollatorOptions,
}

/// Reads a collation document; nothing for the locale `simple`, whatever else it says.
pub(super) fn read(document: Document<'_>) -> Result<Option<Asked>> {
    let given = Given::read(document)?;
    let Some(locale) = given.locale.clone() else {
        let what = "BSON field 'collation.locale' is missing but a required field";
        return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
    };
    if locale == "simple" {
        return Ok(None);
    }
    let wrong = |what: &str| Error::bad_value(format!("{what} in: {document}"));
    let found = locales::find(&locale).map_err(|why| match why {
        _ if locale.is_empty() => wrong("Field 'locale' cannot be the empty string"),
        Unusable::Unknown => wrong("Field 'locale' is invalid"),
        Unusable::Absent => wrong("Field 'locale' names a collation that this server has no rules of"),
    })?;
    check(&given).map_err(wrong)?;
    let backwards = given.backwards.unwrap_or(found.is_backwards);
    let tag = if backwards { found.backwards } else { Some(found.forwards.as_str()) };
    let tag = tag.ok_or_else(|| wrong("'backwards' is not supported with the rules of this locale"))?;
    let tag: Locale = tag.parse().map_err(|_| wrong("Field 'locale' is invalid"))?;
    let mut preferences = CollatorPreferences::from(&tag);
    preferences.case_first = given.case_first.map(|first| match first {
        CaseFirst::Upper => CollationCaseFirst::Upper,
        CaseFirst::Lower => CollationCaseFirst::Lower,
        CaseFirst::Off => CollationCaseFirst::False,
    });
    preferences.numeric_ordering = given.numeric_ordering.map(|numeric| match numeric {
        true => CollationNumericOrdering::True,
        false => CollationNumericOrdering::False,
    });
    let mut options = CollatorOptions::default();
    options.strength = given.strength.map(|strength| match strength {
        1 => Strength::Primary,
        2 => Strength::Secondary,
        3 => Strength::Tertiary,
        4 => Strength::Quaternary,
        _ => Strength::Identical,
    });
    let alternate = |shifted| if shifted { AlternateHandling::Shifted } else { AlternateHandling::NonIgnorable };
    options.alternate_handling = given.shifted.map(alternate);
    let variable = |spaces| if spaces { MaxVariable::Space } else { MaxVariable::Punctuation };
    options.max_variable = given.only_spaces.map(variable);
    options.case_level = given.case_level.map(|on| if on { CaseLevel::On } else { CaseLevel::Off });
    Ok(Some(Asked { given, locale, backwards, preferences, options }))
}

/// Refuses options that have no effect with the others.
fn check(given: &Given) -> std::result::Result<(), &'static str> {
    if given.backwards == Some(true) && given.strength == Some(1) {
        return Err("'backwards' is invalid with 'strength' of 1");
    }
    let orders_case = given.case_first.is_some_and(|first| first != CaseFirst::Off);
    if orders_case && given.case_level != Some(true) && given.strength.is_some_and(|strength| strength < 3) {
        return Err("'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2");
    }
    Ok(())
}

impl Asked {
    /// All options, with those of the locale where the document says nothing.
    pub(super) fn resolved(self, by_locale: &icu_collator::options::ResolvedCollatorOptions) -> CollationOptions {
        let case_first = match by_locale.case_first {
            CollationCaseFirst::Upper => CaseFirst::Upper,
            CollationCaseFirst::Lower => CaseFirst::Lower,
            _ => CaseFirst::Off,
        };
        CollationOptions {
            locale: self.locale,
            case_level: by_locale.case_level == CaseLevel::On,
            case_first,
            strength: match by_locale.strength {
                Strength::Primary => 1,
                Strength::Secondary => 2,
                Strength::Quaternary => 4,
                Strength::Identical => 5,
                _ => 3,
            },
            numeric_ordering: by_locale.numeric == CollationNumericOrdering::True,
            shifted: by_locale.alternate_handling == AlternateHandling::Shifted,
            only_spaces: by_locale.max_variable == MaxVariable::Space,
            normalization: self.given.normalization.unwrap_or(false),
            backwards: self.backwards,
        }
    }
}

impl CollationOptions {
    /// The document with all fields, as `listCollections` and `listIndexes` show it.
    #[must_use]
    pub fn document(&self) -> DocumentBuf {
        doc! {
            "locale": self.locale.as_str(),
            "caseLevel": self.case_level,
            "caseFirst": match self.case_first {
                CaseFirst::Upper => "upper",
                CaseFirst::Lower => "lower",
                CaseFirst::Off => "off",
            },
            "strength": i32::from(self.strength),
            "numericOrdering": self.numeric_ordering,
            "alternate": if self.shifted { "shifted" } else { "non-ignorable" },
            "maxVariable": if self.only_spaces { "space" } else { "punct" },
            "normalization": self.normalization,
            "backwards": self.backwards,
            "version": VERSION,
        }
    }
}
