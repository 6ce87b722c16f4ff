//! The key that the members of a replica set share: what a file holds, and the user as whom members log in by it.

use std::fmt;

use spinney_document::{Error, Result};

use super::credentials::{Credential, Mechanism};
use super::user::{RoleName, User};

/// The shortest and the longest key, in characters.
const KEY_CHARS: std::ops::RangeInclusive<usize> = 6..=1024;

/// The name of the user as whom members log in.
pub const MEMBER: &str = "__system";

/// The database of that user.
pub const MEMBER_DATABASE: &str = "local";

/// The number of that user: no user whom a client creates has it.
const MEMBER_ID: [u8; 16] = [0; 16];

/// The key of a replica set.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberKey(String);

impl fmt::Debug for MemberKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberKey")
    }
}

impl MemberKey {
    /// The key in the text of a file: characters of base64; white space between them is dropped.
    ///
    /// # Errors
    /// `BadValue` (2) for other characters, and for a key with less than 6 or more than 1,024 of them.
    pub fn parse(text: &str) -> Result<Self> {
        let key: String = text.chars().filter(|char| !char.is_ascii_whitespace()).collect();
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '/' | '=');
        if !key.chars().all(plain) {
            return Err(Error::bad_value("the key has characters that are not of base64"));
        }
        if !KEY_CHARS.contains(&key.len()) {
            let what = format!("the key has {} characters, it needs 6 to 1024", key.len());
            return Err(Error::bad_value(what));
        }
        Ok(Self(key))
    }

    /// The key, as a password.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user as whom members log in: it may do everything.
    ///
    /// # Errors
    /// Those of [`Credential::new`].
    pub fn user(&self) -> Result<User> {
        let mechanism = Mechanism::Sha256;
        let role = RoleName { role: MEMBER.to_owned(), database: "admin".to_owned() };
        Ok(User {
            name: MEMBER.to_owned(),
            database: MEMBER_DATABASE.to_owned(),
            id: MEMBER_ID,
            credentials: vec![(mechanism, Credential::new(mechanism, MEMBER, &self.0, false)?)],
            external: false,
            roles: vec![role],
            custom_data: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_text_of_base64_of_a_bounded_length() {
        assert_eq!(MemberKey::parse(" abc+\n/1=\t").unwrap().as_str(), "abc+/1=");
        for text in ["", "abcde", "abc-def", "äbcdefg", &"a".repeat(1025)] {
            assert!(MemberKey::parse(text).is_err(), "{text}");
        }
        let key = MemberKey::parse("secret").unwrap();
        assert!(!format!("{key:?} {:?}", key.user().unwrap()).contains("secret"));
    }
}
