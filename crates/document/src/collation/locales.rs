//! The locales of collations: MongoDB's names of them, and what ICU4X has.

/// A locale that MongoDB knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locale {
    /// The name, such as `fr_CA`.
    name: &'static str,
    /// What the rules of the locale are.
    rules: Rules,
    /// The collations besides the standard one, as `locale@collation=name`.
    variants: &'static [&'static str],
}

/// Where the rules of a locale come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// The order of Unicode for all languages, which needs no rules.
    Root,
    /// ICU4X has its rules.
    Own,
    /// The order of Unicode, with accents compared from the end of the string.
    Backwards,
    /// It has rules, which ICU4X lacks.
    Absent,
}

/// A locale, and a collation of it, as ICU4X names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The tag of the rules that compare accents from the beginning, such as `de-u-co-phonebk`.
    pub(super) forwards: String,
    /// The tag of the same rules with accents compared from the end, where there are such.
    pub(super) backwards: Option<&'static str>,
    /// Whether the locale itself compares accents from the end.
    pub(super) is_backwards: bool,
}

/// Why a locale cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// There is no such locale.
    Unknown,
    /// Its rules are not there.
    Absent,
}

/// The order of Unicode for all languages with accents compared from the end of the string.
const BACKWARDS: &str = "fr-CA";

/// Collations that ICU4X has, by their long and short names.
const VARIANTS: &[(&str, &str)] = &[
    ("compat", "compat"),
    ("dictionary", "dict"),
    ("eor", "eor"),
    ("phonebook", "phonebk"),
    ("pinyin", "pinyin"),
    ("stroke", "stroke"),
    ("traditional", "trad"),
    ("unihan", "unihan"),
    ("zhuyin", "zhuyin"),
];

const fn own(name: &'static str) -> Locale {
    Locale { name, rules: Rules::Own, variants: &[] }
}

const fn with(name: &'static str, variants: &'static [&'static str]) -> Locale {
    Locale { name, rules: Rules::Own, variants }
}

const fn root(name: &'static str, variants: &'static [&'static str]) -> Locale {
    Locale { name, rules: Rules::Root, variants }
}

const fn absent(name: &'static str, variants: &'static [&'static str]) -> Locale {
    Locale { name, rules: Rules::Absent, variants }
}

const LOCALES: &[Locale] = &[
    own("af"),
    own("am"),
    with("ar", &["compat"]),
    own("as"),
    with("az", &["search"]),
    own("be"),
    own("bg"),
    with("bn", &["traditional"]),
    absent("bo", &[]),
    with("bs", &["search"]),
    own("bs_Cyrl"),
    root("ca", &["search"]),
    own("chr"),
    with("cs", &["search"]),
    own("cy"),
    with("da", &["search"]),
    root("de", &["search", "eor", "phonebook"]),
    root("de_AT", &["phonebook"]),
    own("dsb"),
    absent("dz", &[]),
    own("ee"),
    own("el"),
    root("en", &[]),
    root("en_US", &[]),
    own("en_US_POSIX"),
    own("eo"),
    with("es", &["search", "traditional"]),
    own("et"),
    own("fa"),
    own("fa_AF"),
    with("fi", &["search", "traditional"]),
    own("fil"),
    own("fo"),
    root("fr", &[]),
    Locale { name: "fr_CA", rules: Rules::Backwards, variants: &[] },
    root("ga", &[]),
    with("gl", &["search"]),
    own("gu"),
    own("ha"),
    absent("haw", &[]),
    with("he", &["search"]),
    own("hi"),
    with("hr", &["search"]),
    own("hsb"),
    own("hu"),
    own("hy"),
    root("id", &[]),
    own("ig"),
    with("is", &["search"]),
    root("it", &[]),
    with("ja", &["unihan"]),
    own("ka"),
    own("kk"),
    absent("kl", &["search"]),
    own("km"),
    with("kn", &["traditional"]),
    with("ko", &["search", "searchjl", "unihan"]),
    own("kok"),
    own("ky"),
    root("lb", &[]),
    absent("lkt", &[]),
    absent("ln", &["phonetic"]),
    own("lo"),
    own("lt"),
    own("lv"),
    own("mk"),
    own("ml"),
    own("mn"),
    own("mr"),
    root("ms", &[]),
    own("mt"),
    own("my"),
    with("nb", &["search"]),
    own("ne"),
    root("nl", &[]),
    with("nn", &["search"]),
    own("om"),
    own("or"),
    own("pa"),
    own("pl"),
    own("ps"),
    root("pt", &[]),
    own("ro"),
    own("ru"),
    absent("se", &["search"]),
    with("si", &["dictionary"]),
    with("sk", &["search"]),
    own("sl"),
    absent("smn", &["search"]),
    own("sq"),
    own("sr"),
    with("sr_Latn", &["search"]),
    with("sv", &["search"]),
    root("sw", &[]),
    own("ta"),
    own("te"),
    own("th"),
    own("to"),
    with("tr", &["search"]),
    own("ug"),
    own("uk"),
    own("ur"),
    with("vi", &["traditional"]),
    absent("wae", &[]),
    absent("yi", &["search"]),
    own("yo"),
    with("zh", &["big5han", "gb2312han", "unihan", "zhuyin", "pinyin", "stroke"]),
    own("zh_Hant"),
    root("zu", &[]),
];

/// Finds the locale of a name such as `de@collation=phonebook`.
pub(super) fn find(name: &str) -> Result<Found, Unusable> {
    let (base, variant) = match name.split_once("@collation=") {
        None => (name, None),
        Some((base, variant)) => (base, Some(variant)),
    };
    let locale = LOCALES.iter().find(|locale| locale.name == base).ok_or(Unusable::Unknown)?;
    let language = locale.name.replace('_', "-");
    if let Some(variant) = variant {
        if !locale.variants.contains(&variant) {
            return Err(Unusable::Unknown);
        }
        let (_, short) = VARIANTS.iter().find(|(long, _)| *long == variant).ok_or(Unusable::Absent)?;
        return Ok(Found { forwards: format!("{language}-u-co-{short}"), backwards: None, is_backwards: false });
    }
    Ok(match locale.rules {
        Rules::Absent => return Err(Unusable::Absent),
        Rules::Own => Found { forwards: language, backwards: None, is_backwards: false },
        Rules::Root => Found { forwards: language, backwards: Some(BACKWARDS), is_backwards: false },
        Rules::Backwards => Found { forwards: "und".to_owned(), backwards: Some(BACKWARDS), is_backwards: true },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_are_found_by_their_names_and_collations() {
        assert_eq!(find("de@collation=phonebook").unwrap().forwards, "de-u-co-phonebk");
        assert_eq!(find("sr_Latn").unwrap().forwards, "sr-Latn");
        assert!(find("fr_CA").unwrap().is_backwards);
        for unknown in ["", "xx", "EN", "en-US", "de@collation=pinyin", "en@collation="] {
            assert_eq!(find(unknown), Err(Unusable::Unknown), "{unknown}");
        }
        for absent in ["se", "de@collation=search"] {
            assert_eq!(find(absent), Err(Unusable::Absent), "{absent}");
        }
    }
}
