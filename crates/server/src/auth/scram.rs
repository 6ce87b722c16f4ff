//! The server's side of a SCRAM conversation (RFC 5802, RFC 7677), without channel binding.
//!
//! 1. client: `n,,n=user,r=NONCE`; 2. server: `r=NONCE+OWN,s=SALT,i=ITERATIONS`;
//! 3. client: `c=biws,r=NONCE+OWN,p=PROOF`; 4. server: `v=SIGNATURE`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spinney_document::{Error, ErrorCode, Result};

use super::credentials::{Credential, Mechanism, random_bytes};

/// The bytes of the server's part of the nonce, before base64.
const NONCE_BYTES: usize = 24;

/// The longest message of a client.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A conversation after the first message of each side.
#[derive(Clone)]
pub struct Scram {
    mechanism: Mechanism,
    credential: Credential,
    /// The first messages of both sides, as they are signed.
    first: String,
    nonce: String,
}

impl std::fmt::Debug for Scram {
    /// Without nonce and keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scram").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user.
    pub user: String,
    /// Without the header of channel binding.
    bare: String,
    nonce: String,
}

/// The error of every authentication that fails; why is not told.
#[must_use]
pub fn refused() -> Error {
    Error::new(ErrorCode::AUTHENTICATION_FAILED, "Authentication failed.")
}

pub(super) fn malformed(what: &str) -> Error {
    Error::bad_value(format!("malformed SCRAM message: {what}"))
}

pub(super) fn text_of(payload: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(payload).ok().filter(|text| text.len() <= MESSAGE_BYTES_MAX);
    text.ok_or_else(|| malformed("it is no text, or too long"))
}

/// The value of the attribute with a letter, when the part is that.
pub(super) fn attribute(part: Option<&str>, letter: char) -> Result<&str> {
    let value = part.and_then(|part| part.strip_prefix(letter)).and_then(|rest| rest.strip_prefix('='));
    value.ok_or_else(|| malformed(&format!("the attribute {letter} is missing")))
}

impl ClientFirst {
    /// The message that a payload is.
    ///
    /// # Errors
    /// `BadValue` (2) when it is malformed or asks for channel binding.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let text = text_of(payload)?;
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,"));
        let bare = bare.ok_or_else(|| malformed("channel binding and other identities are not supported"))?;
        let mut parts = bare.split(',');
        let user = attribute(parts.next(), 'n')?;
        let nonce = attribute(parts.next(), 'r')?;
        let plain_nonce = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if user.is_empty() || nonce.is_empty() || !plain_nonce {
            return Err(malformed("a name or nonce is empty or holds what it may not"));
        }
        let user = unescaped(user).ok_or_else(|| malformed("a name is escaped in a way that is none"))?;
        Ok(Self { user, bare: bare.to_owned(), nonce: nonce.to_owned() })
    }
}

/// A name without the escapes of comma and equals sign.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (char, rest) = [("2C", ','), ("3D", '=')]
            .iter()
            .find_map(|(code, char)| part.strip_prefix(code).map(|rest| (*char, rest)))?;
        plain.push(char);
        plain.push_str(rest);
    }
    Some(plain)
}

impl Scram {
    /// Answers the first message of a client: the conversation and the server's first message.
    ///
    /// # Errors
    /// Those of [`random_bytes`].
    pub fn begin(mechanism: Mechanism, client: &ClientFirst, credential: Credential) -> Result<(Self, Vec<u8>)> {
        let own = STANDARD.encode(random_bytes(NONCE_BYTES)?);
        Ok(Self::begin_with_nonce(mechanism, client, credential, &own))
    }

    fn begin_with_nonce(
        mechanism: Mechanism,
        client: &ClientFirst,
        credential: Credential,
        own: &str,
    ) -> (Self, Vec<u8>) {
        let nonce = format!("{}{own}", client.nonce);
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&credential.salt), credential.iterations);
        let first = format!("{},{server_first}", client.bare);
        (Self { mechanism, credential, first, nonce }, server_first.into_bytes())
    }

    /// Checks the client's proof, and gives the server's.
    ///
    /// # Errors
    /// `AuthenticationFailed` (18); `BadValue` (2) when the message is malformed.
    pub fn finish(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let text = text_of(payload)?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or_else(|| malformed("there is no proof"))?;
        let mut parts = unproved.split(',');
        let binding = attribute(parts.next(), 'c')?;
        // `n,,` and `y,,` in base64.
        if !["biws", "eSws"].contains(&binding) || attribute(parts.next(), 'r')? != self.nonce {
            return Err(refused());
        }
        let proof = STANDARD.decode(proof).map_err(|_| malformed("the proof is no base64"))?;
        let signed = format!("{},{unproved}", self.first);
        let signature = self.mechanism.keyed_hash(&self.credential.stored_key, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(refused());
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        if !same(&self.mechanism.hash(&client_key), &self.credential.stored_key) {
            return Err(refused());
        }
        let own = self.mechanism.keyed_hash(&self.credential.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(own)).into_bytes())
    }
}

/// Whether two keys are the same, in a time that does not tell where they differ.
pub(super) fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (left, right)| sum | (left ^ right)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mechanism, password, nonce, salt, iterations, the server's nonce, proof, the server's signature.
    type Example = (Mechanism, &'static str, &'static str, &'static str, u32, &'static str, &'static str, &'static str);

    /// The example of RFC 7677, and that of MongoDB's specification of authentication for SHA-1.
    const EXAMPLES: [Example; 2] = [
        (
            Mechanism::Sha256,
            "pencil",
            "rOprNGfwEbeRWgbNEkqO",
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            4096,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
        (
            Mechanism::Sha1,
            "1c33006ec1ffd90f9cadcbcc0e118200",
            "fyko+d2lbbFgONRv9qkxdawL",
            "rQ9ZY3MntBeuP3E1TDVC4w==",
            10_000,
            "Ho+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE",
            "MC2T8BvbmWRckDw8oWl5IVghwCY=",
            "UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
        ),
    ];

    #[test]
    fn the_examples_of_the_specifications_hold() {
        for (mechanism, password, nonce, salt, iterations, own, proof, signature) in EXAMPLES {
            let client = ClientFirst::parse(format!("n,,n=user,r={nonce}").as_bytes()).unwrap();
            let salt = STANDARD.decode(salt).unwrap();
            let credential = Credential::derived(mechanism, password.as_bytes(), salt, iterations);
            let (scram, first) = Scram::begin_with_nonce(mechanism, &client, credential, own);
            assert!(String::from_utf8(first).unwrap().starts_with(&format!("r={nonce}{own},s=")));
            let last = scram.finish(format!("c=biws,r={nonce}{own},p={proof}").as_bytes()).unwrap();
            assert_eq!(String::from_utf8(last).unwrap(), format!("v={signature}"));
        }
    }

    fn conversation(proof: impl Fn(&str) -> String) -> Result<Vec<u8>> {
        let (mechanism, password, nonce, salt, iterations, own, ..) = EXAMPLES[0];
        let client = ClientFirst::parse(format!("n,,n=user,r={nonce}").as_bytes()).unwrap();
        let salt = STANDARD.decode(salt).unwrap();
        let credential = Credential::derived(mechanism, password.as_bytes(), salt, iterations);
        Scram::begin_with_nonce(mechanism, &client, credential, own)
            .0
            .finish(proof(&format!("{nonce}{own}")).as_bytes())
    }

    #[test]
    fn another_proof_nonce_or_binding_is_refused() {
        let good = EXAMPLES[0].6;
        assert!(conversation(|nonce| format!("c=biws,r={nonce},p={good}")).is_ok());
        let wrong = good.replace('d', "e");
        for message in [
            format!("c=biws,r=NONCE,p={wrong}"),
            format!("c=biws,r=NONCEx,p={good}"),
            format!("c=cD1v,r=NONCE,p={good}"),
            "c=biws,r=NONCE,p=AAAA".to_owned(),
        ] {
            let error = conversation(|nonce| message.replace("NONCE", nonce)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::AUTHENTICATION_FAILED, "{message}");
        }
        for message in ["", "c=biws", "c=biws,r=NONCE", "r=NONCE,c=biws,p=AAAA", "c=biws,r=NONCE,p=!"] {
            assert!(conversation(|nonce| message.replace("NONCE", nonce)).is_err());
        }
    }

    #[test]
    fn names_are_unescaped_and_other_first_messages_refused() {
        let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x").unwrap(), "a,b=c");
        for message in [
            "",
            "n,,",
            "n,,n=,r=x",
            "n,,n=a,r=",
            "p=tls-unique,,n=a,r=x",
            "n,a=b,n=a,r=x",
            "n,,n=a=2c,r=x",
            "n,,r=x,n=a",
        ] {
            assert!(user(message).is_err(), "{message}");
        }
        assert!(ClientFirst::parse(&[0xFF; 10]).is_err());
        assert!(user(&format!("n,,n=a,r={}", "x".repeat(5000))).is_err());
    }
}
