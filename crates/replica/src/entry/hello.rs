//! What a member says of itself to another one that is about to make it a member of its set.
//!
//! # Format
//! The format of what members exchange, 4 bytes, and the version of the program with its length: in every format. Then
//! the identity, 8 bytes; a byte of flags; the applied index and one, or 0; the name of the set with its length;
//! the identity of the set, 12 bytes, zeros for none, and the number of the process, 8 bytes, both of which earlier
//! versions lack.

use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

/// The format of messages, entries and copies of databases that this program writes, and the only one it reads. It
/// changes with the format of the engine's files too.
pub(crate) const FORMAT: u32 = 3;

/// Which program a member runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The format of what it writes and reads.
    pub(crate) format: u32,
    /// Its version, such as `0.1.0`.
    pub(crate) version: String,
}

impl Program {
    /// This program.
    pub(crate) fn this() -> Self {
        Self { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Reads it from the beginning of a hello, of whatever format.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = input.u32()?;
        let version = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
        Ok(Self { format, version })
    }

    /// Why a member with it cannot be one of a set with this program.
    pub(crate) fn refused(&self, host: &str) -> Option<String> {
        let (theirs, this) = (self.format, Self::this());
        let which = if theirs > FORMAT { "a newer" } else { "an older" };
        (theirs != FORMAT).then(|| {
            format!(
                "member {host} runs version {} with {which} format of replication, {theirs}; this member runs version \
                 {} and reads {FORMAT}",
                self.version, this.version
            )
        })
    }
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) program: Program,
    /// The identity of its copy of the log.
    pub(crate) identity: u64,
    /// Whether it knows a configuration, or has entries of one.
    pub(crate) initiated: bool,
    /// Whether its database has collections.
    pub(crate) has_data: bool,
    /// Whether these are a checkpoint of a member's, which the primary's are to take the place of.
    pub(crate) copied: bool,
    /// The index up to which it has applied entries.
    pub(crate) applied: Option<u64>,
    /// The name of its set.
    pub(crate) set_name: String,
    /// The identity of the set that it is of, or that its data are of; zeros when it is of none.
    pub(crate) set_id: [u8; 12],
    /// A random number of the process.
    pub(crate) process: u64,
}

impl Hello {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.program.format.to_le_bytes().to_vec();
        put_len_prefixed(&mut out, self.program.version.as_bytes());
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.push(u8::from(self.initiated) | u8::from(self.has_data) << 1 | u8::from(self.copied) << 2);
        put_varint(&mut out, self.applied.map_or(0, |applied| applied + 1));
        put_len_prefixed(&mut out, self.set_name.as_bytes());
        out.extend_from_slice(&self.set_id);
        out.extend_from_slice(&self.process.to_le_bytes());
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let program = Program::decode(&mut input)?;
        let (identity, flags) = (input.u64()?, input.u8()?);
        let applied = input.varint()?.checked_sub(1);
        let set_name = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
        let (set_id, process) = if input.is_empty() { ([0; 12], 0) } else { (input.array()?, input.u64()?) };
        let [initiated, has_data, copied] = [1, 2, 4].map(|flag| flags & flag != 0);
        Ok(Self { program, identity, initiated, has_data, copied, applied, set_name, set_id, process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_and_one_of_another_format_tells_its_program() {
        let program = Program::this();
        let hello = Hello {
            program,
            identity: 7,
            initiated: true,
            has_data: false,
            copied: true,
            applied: Some(300),
            set_name: "rs0".to_owned(),
            set_id: [9; 12],
            process: 5,
        };
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes).unwrap(), hello);
        // Earlier versions end with the name.
        let earlier = bytes.len() - 12 - 8;
        assert_eq!(Hello::decode(&bytes[..earlier]).unwrap(), Hello { set_id: [0; 12], process: 0, ..hello.clone() });
        (0..bytes.len()).filter(|len| *len != earlier).for_each(|len| assert!(Hello::decode(&bytes[..len]).is_err()));
        assert_eq!(hello.program.refused("db1"), None);

        let newer = Program { format: FORMAT + 1, version: "9.0.0".to_owned() };
        let mut bytes = Hello { program: newer.clone(), ..hello }.encode();
        bytes.truncate(4 + 6);
        bytes.extend_from_slice(b"fields of the future");
        assert_eq!(Program::decode(&mut Decoder::new(&bytes)).unwrap(), newer);
        let refused = newer.refused("db1").unwrap();
        assert!(refused.contains("db1") && refused.contains("9.0.0") && refused.contains("newer"), "{refused}");
    }
}
