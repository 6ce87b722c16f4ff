//! The client's side of a SCRAM conversation (RFC 5802, RFC 7677): how this server logs in at another member.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spinney_document::{Error, ErrorCode, Result};

use super::credentials::{Mechanism, random_bytes};
use super::scram::{attribute, malformed, refused, same, text_of};

/// The most repetitions of the hash that a server may ask for: each costs this side as much as a hash.
const ITERATIONS_MAX: u32 = 1_000_000;

/// The bytes of the client's part of the nonce, before base64.
const NONCE_BYTES: usize = 24;

/// A login that has begun.
pub struct ScramClient<'p> {
    password: &'p str,
    /// The first message without the header of channel binding.
    bare: String,
    nonce: String,
}

impl std::fmt::Debug for ScramClient<'_> {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramClient").finish_non_exhaustive()
    }
}

/// The last message of a client, and what the server answers if it knows the password too.
#[derive(Clone, Debug)]
pub struct LastMessage {
    /// The message.
    pub message: Vec<u8>,
    /// The server's proof.
    pub proof: Vec<u8>,
}

impl<'p> ScramClient<'p> {
    /// The mechanism.
    pub const MECHANISM: Mechanism = Mechanism::Sha256;

    /// Begins to log in as a user whose name has neither comma nor equals sign: the login and the first message.
    ///
    /// # Errors
    /// Those of [`random_bytes`].
    pub fn begin(user: &str, password: &'p str) -> Result<(Self, Vec<u8>)> {
        let nonce = STANDARD.encode(random_bytes(NONCE_BYTES)?);
        let bare = format!("n={user},r={nonce}");
        let message = format!("n,,{bare}").into_bytes();
        Ok((Self { password, bare, nonce }, message))
    }

    /// Answers the first message of the server.
    ///
    /// # Errors
    /// `BadValue` (2) when the message is malformed, `AuthenticationFailed` (18) when it answers another login.
    pub fn answer(&self, first: &[u8]) -> Result<LastMessage> {
        let first = text_of(first)?;
        let mut parts = first.split(',');
        let nonce = attribute(parts.next(), 'r')?;
        let salt = STANDARD.decode(attribute(parts.next(), 's')?).map_err(|_| malformed("the salt is no base64"))?;
        let iterations = attribute(parts.next(), 'i')?.parse::<u32>();
        let iterations = iterations.ok().filter(|count| (1..=ITERATIONS_MAX).contains(count));
        let iterations = iterations.ok_or_else(|| malformed("the iterations are no number, or too many"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(refused());
        }
        let mechanism = Self::MECHANISM;
        let password = stringprep::saslprep(self.password)
            .map_err(|error| Error::new(ErrorCode::AUTHENTICATION_FAILED, error.to_string()))?;
        let salted = mechanism.salted(password.as_bytes(), &salt, iterations);
        let unproved = format!("c=biws,r={nonce}");
        let signed = format!("{},{first},{unproved}", self.bare);
        let key = mechanism.keyed_hash(&salted, b"Client Key");
        let signature = mechanism.keyed_hash(&mechanism.hash(&key), signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        let message = format!("{unproved},p={}", STANDARD.encode(proof)).into_bytes();
        let own = mechanism.keyed_hash(&mechanism.keyed_hash(&salted, b"Server Key"), signed.as_bytes());
        Ok(LastMessage { message, proof: format!("v={}", STANDARD.encode(own)).into_bytes() })
    }
}

impl LastMessage {
    /// Whether the server has proved that it knows the password.
    #[must_use]
    pub fn is_proved_by(&self, answer: &[u8]) -> bool {
        same(&self.proof, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Credential;
    use crate::auth::scram::{ClientFirst, Scram};

    fn log_in(ours: &str, theirs: &str) -> Result<bool> {
        let credential = Credential::new(Mechanism::Sha256, "ada", theirs, false).unwrap();
        let (client, first) = ScramClient::begin("ada", ours).unwrap();
        let (server, answer) =
            Scram::begin(Mechanism::Sha256, &ClientFirst::parse(&first).unwrap(), credential).unwrap();
        let last = client.answer(&answer).unwrap();
        Ok(last.is_proved_by(&server.finish(&last.message)?))
    }

    #[test]
    fn both_sides_prove_that_they_know_the_password() {
        assert!(log_in("pencil", "pencil").unwrap());
        assert_eq!(log_in("pencil", "other").unwrap_err().code(), ErrorCode::AUTHENTICATION_FAILED);
    }

    #[test]
    fn a_server_that_answers_another_login_is_refused() {
        let (client, _) = ScramClient::begin("ada", "pencil").unwrap();
        let nonce = client.nonce.clone();
        for first in [
            "r=other,s=AAAA,i=4096".to_owned(),
            format!("r={nonce},s=AAAA,i=4096"),
            format!("r={nonce}x,s=!,i=4096"),
            format!("r={nonce}x,s=AAAA,i=0"),
            format!("r={nonce}x,s=AAAA,i=4000000000"),
            format!("r={nonce}x,s=AAAA"),
            String::new(),
        ] {
            assert!(client.answer(first.as_bytes()).is_err(), "{first}");
        }
        let last = client.answer(format!("r={nonce}x,s=AAAA,i=16").as_bytes()).unwrap();
        assert!(!last.is_proved_by(b"v=AAAA"));
    }
}
