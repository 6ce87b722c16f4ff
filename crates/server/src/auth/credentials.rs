//! The credentials of a user: what proves a password without being one, as `admin.system.users` stores it.
//!
//! From RFC 5802 and 7677: `SaltedPassword = PBKDF2(password, salt, iterations)`, `ClientKey = HMAC(SaltedPassword,
//! "Client Key")`, `StoredKey = H(ClientKey)`, `ServerKey = HMAC(SaltedPassword, "Server Key")`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::Md5;
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder};
use spinney_document::{Error, ErrorCode, Result};

use crate::base::fields::Fields;

/// A SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`, whose password is MD5 of user, `mongo` and password.
    Sha1,
    /// `SCRAM-SHA-256`, whose password is prepared by SASLprep.
    Sha256,
}

/// All mechanisms.
pub const MECHANISMS: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

/// What a server keeps of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// How often the hash is repeated.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    pub stored_key: Vec<u8>,
    /// The key that the server proves that it has.
    pub server_key: Vec<u8>,
}

impl fmt::Debug for Credential {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Mechanism {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism with a name.
    ///
    /// # Errors
    /// `MechanismUnavailable` (334).
    pub fn from_name(name: &str) -> Result<Self> {
        let known = MECHANISMS.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| {
            let what =
                format!("Unsupported authentication mechanism {name:?}: there are SCRAM-SHA-256 and SCRAM-SHA-1");
            Error::new(ErrorCode::MECHANISM_UNAVAILABLE, what)
        })
    }

    /// The hash of bytes.
    #[must_use]
    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// The keyed hash of bytes.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    #[must_use]
    pub fn keyed_hash(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        const ANY: &str = "HMAC takes keys of any length";
        match self {
            Self::Sha1 => {
                Hmac::<Sha1>::new_from_slice(key).expect(ANY).chain_update(bytes).finalize().into_bytes().to_vec()
            }
            Self::Sha256 => {
                Hmac::<Sha256>::new_from_slice(key).expect(ANY).chain_update(bytes).finalize().into_bytes().to_vec()
            }
        }
    }

    /// The length of a salt.
    #[must_use]
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::Sha1 => 16,
            Self::Sha256 => 28,
        }
    }

    /// How often the hash is repeated in new credentials.
    #[must_use]
    pub const fn iterations(self) -> u32 {
        match self {
            Self::Sha1 => 10_000,
            Self::Sha256 => 15_000,
        }
    }

    pub(super) fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; if self == Self::Sha1 { 20 } else { 32 }];
        match self {
            Self::Sha1 => pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted),
            Self::Sha256 => pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted),
        }
        salted
    }
}

/// What `SCRAM-SHA-1` takes as the password of a user: MD5 in hexadecimal digits.
#[must_use]
pub fn digest_of(user: &str, password: &str) -> String {
    let digest = Md5::digest(format!("{user}:mongo:{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of the operating system's randomness.
///
/// # Errors
/// `OperationFailed` (96) when it has none.
pub fn random_bytes(len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).map_err(|error| Error::new(ErrorCode::OPERATION_FAILED, error.to_string()))?;
    Ok(bytes)
}

impl Credential {
    /// The credential of a new password, with a random salt. A `digested` password is MD5 already.
    ///
    /// # Errors
    /// `BadValue` (2) for a password that is empty or that SASLprep forbids; those of [`random_bytes`].
    pub fn new(mechanism: Mechanism, user: &str, password: &str, digested: bool) -> Result<Self> {
        if password.is_empty() {
            return Err(Error::bad_value("Password cannot be empty"));
        }
        let prepared = match mechanism {
            Mechanism::Sha1 if digested => password.to_owned(),
            Mechanism::Sha1 => digest_of(user, password),
            Mechanism::Sha256 => stringprep::saslprep(password)
                .map_err(|error| Error::bad_value(format!("the password cannot be used: {error}")))?
                .into_owned(),
        };
        let salt = random_bytes(mechanism.salt_bytes())?;
        Ok(Self::derived(mechanism, prepared.as_bytes(), salt, mechanism.iterations()))
    }

    /// The credential of a prepared password.
    #[must_use]
    pub fn derived(mechanism: Mechanism, password: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let salted = mechanism.salted(password, &salt, iterations);
        let stored_key = mechanism.hash(&mechanism.keyed_hash(&salted, b"Client Key"));
        let server_key = mechanism.keyed_hash(&salted, b"Server Key");
        Self { iterations, salt, stored_key, server_key }
    }

    /// A credential that nobody has a password for, the same each time for a user: a client cannot tell it from that of
    /// a user who is there.
    #[must_use]
    pub fn of_nobody(mechanism: Mechanism, secret: &[u8], user: &str) -> Self {
        let mut salt = Mechanism::Sha256.keyed_hash(secret, user.as_bytes());
        salt.truncate(mechanism.salt_bytes());
        let key = mechanism.keyed_hash(secret, b"nobody");
        Self { iterations: mechanism.iterations(), salt, stored_key: key.clone(), server_key: key }
    }

    /// The credential that a document is.
    ///
    /// # Errors
    /// `UnsupportedFormat` (12) when a field is missing or makes no sense.
    pub fn parse(document: Document<'_>) -> Result<Self> {
        let fields = Fields::new("credentials", document);
        let wrong = |name: &str| {
            Error::new(ErrorCode::UNSUPPORTED_FORMAT, format!("the credential's field '{name}' makes no sense"))
        };
        let bytes = |name: &str| {
            let text = fields.required_text(name)?;
            STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty()).ok_or_else(|| wrong(name))
        };
        let iterations = fields.number("iterationCount")?.and_then(|count| u32::try_from(count).ok());
        Ok(Self {
            iterations: iterations.filter(|count| *count > 0).ok_or_else(|| wrong("iterationCount"))?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        })
    }

    /// The document that it is stored as.
    #[must_use]
    pub fn document(&self) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("iterationCount", i32::try_from(self.iterations).unwrap_or(i32::MAX));
        for (name, bytes) in [("salt", &self.salt), ("storedKey", &self.stored_key), ("serverKey", &self.server_key)] {
            builder.append(name, STANDARD.encode(bytes).as_str());
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_survives_its_document_and_hides_its_keys() {
        for mechanism in MECHANISMS {
            let credential = Credential::new(mechanism, "ada", "pencil", false).unwrap();
            assert_eq!(Credential::parse(credential.document().view()).unwrap(), credential);
            assert_eq!(credential.salt.len(), mechanism.salt_bytes());
            assert_ne!(Credential::new(mechanism, "ada", "pencil", false).unwrap(), credential);
            assert!(!format!("{credential:?}").contains("key"));
            assert_eq!(Mechanism::from_name(mechanism.name()).unwrap(), mechanism);
        }
        assert!(Credential::parse(Document::empty()).is_err());
        assert_eq!(Mechanism::from_name("PLAIN").unwrap_err().code().number(), 334);
    }

    #[test]
    fn a_digested_password_gives_the_credential_of_the_password() {
        let digest = digest_of("user", "pencil");
        assert_eq!(digest, "1c33006ec1ffd90f9cadcbcc0e118200");
        let salt = vec![1; 16];
        let derived = |password: &str| Credential::derived(Mechanism::Sha1, password.as_bytes(), salt.clone(), 10);
        assert_eq!(derived(&digest), derived(&digest_of("user", "pencil")));
    }

    #[test]
    fn the_credential_of_nobody_is_the_same_each_time() {
        let nobody = |user| Credential::of_nobody(Mechanism::Sha256, b"secret", user);
        assert_eq!(nobody("a"), nobody("a"));
        assert_ne!(nobody("a").salt, nobody("b").salt);
        assert_eq!(nobody("a").salt.len(), 28);
    }
}
