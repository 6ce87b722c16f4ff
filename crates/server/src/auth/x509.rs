//! The subject of a certificate as a name, by which clients with certificates are known: read from DER, written as RFC
//! 2253 does.
//!
//! # Format
//!
//! `Certificate ::= SEQUENCE { tbs SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, .. }, .. }`,
//! where a name is a `SEQUENCE OF SET OF SEQUENCE { OBJECT IDENTIFIER, string }`. Only certificates whose chain was
//! verified come here; bytes that are none give no name all the same.

/// The tags of DER that are met here.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xA0;
const UTF8_STRING: u8 = 0x0C;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1E;

/// The attributes that have a short name, by the bytes of their identifiers.
const NAMES: [(&[u8], &str); 11] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 1], "UID"),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1], "emailAddress"),
];

/// Takes an element: its tag and its content.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let len = match first {
        0..=0x7F => usize::from(*first),
        0x81..=0x84 => {
            let (len, behind) = rest.split_at_checked(usize::from(first & 0x7F))?;
            rest = behind;
            len.iter().try_fold(0_usize, |sum, byte| Some(sum.checked_mul(256)? + usize::from(*byte)))?
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(len)?;
    *bytes = behind;
    Some((*tag, content))
}

/// Takes an element of a tag.
fn take_of<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take(bytes).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// The subject of a certificate, the last attribute first, such as `CN=ada,OU=eng,O=shop`; nothing when the bytes are
/// no certificate or the subject is empty.
#[must_use]
pub fn subject(certificate: &[u8]) -> Option<String> {
    let mut certificate = take_of(&mut &*certificate, SEQUENCE)?;
    let mut tbs = take_of(&mut certificate, SEQUENCE)?;
    if tbs.first() == Some(&VERSION) {
        take(&mut tbs)?;
    }
    for _ in ["serial", "algorithm", "issuer", "validity"] {
        take(&mut tbs)?;
    }
    let mut subject = take_of(&mut tbs, SEQUENCE)?;
    let mut parts = Vec::new();
    while !subject.is_empty() {
        let mut set = take_of(&mut subject, SET)?;
        let mut together = Vec::new();
        while !set.is_empty() {
            together.push(attribute(take_of(&mut set, SEQUENCE)?)?);
        }
        parts.push(together.join("+"));
    }
    parts.reverse();
    Some(parts.join(",")).filter(|name| !name.is_empty())
}

fn attribute(mut bytes: &[u8]) -> Option<String> {
    let identifier = take_of(&mut bytes, OBJECT_IDENTIFIER)?;
    let (tag, value) = take(&mut bytes)?;
    let value = match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => str::from_utf8(value).ok()?.to_owned(),
        TELETEX_STRING => value.iter().map(|byte| char::from(*byte)).collect(),
        BMP_STRING => {
            let units = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            String::from_utf16(&units.collect::<Vec<_>>()).ok()?
        }
        _ => return None,
    };
    let name = NAMES.iter().find(|(known, _)| *known == identifier);
    let name = name.map_or_else(|| dotted(identifier), |(_, name)| (*name).to_owned());
    Some(format!("{name}={}", escaped(&value)))
}

/// An identifier as numbers with dots.
fn dotted(identifier: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in identifier {
        number = number << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// A value with the characters escaped that mean something in a name.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        let at_an_end = letter == ' ' && (at == 0 || at == last) || letter == '#' && at == 0;
        if at_an_end || ",+\"\\<>;".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(name: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in name {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_is_told_from_its_end_with_escapes() {
        let name = [
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Shop, Inc."),
            (DnType::OrganizationalUnitName, "eng"),
            (DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 2]), "x"),
            (DnType::CommonName, "ada"),
        ];
        assert_eq!(subject(&certificate(&name)).unwrap(), "CN=ada,1.2.840.113549.1.9.2=x,OU=eng,O=Shop\\, Inc.,C=DE");
        assert_eq!(subject(&certificate(&[])), None);
        assert_eq!(escaped(" #a b "), "\\ #a b\\ ");
        assert_eq!(escaped("#a"), "\\#a");
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_subject() {
        let whole = certificate(&[(DnType::CommonName, "ada")]);
        for len in 0..whole.len().min(250) {
            // A shorter one promises more than there is.
            assert_eq!(subject(&whole[..len]), None);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xFF;
            // It may have a name, and does not panic.
            drop(subject(&damaged));
        }
        assert_eq!(subject(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]), None);
    }
}
