//! Replies written to a connection: each in one call, without a copy of its document.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::atomic::Ordering;

use spinney_document::base::num::u64_of;
use spinney_document::bson::Document;
use spinney_document::command::state::Network;

use crate::socket::Channel;
use crate::state::counters::Counters;
use spinney_wire::compress::compress;
use spinney_wire::message::{Message, reply_head};
use spinney_wire::{Compressor, HEADER_BYTES, Header, OpCode};

/// How replies to a request are written.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Compressed, as the request was.
    pub compressor: Option<Compressor>,
    /// With a checksum, as the request had.
    pub checksum: bool,
    /// Another reply follows without a request.
    pub more_to_come: bool,
}

/// The writing side of a connection.
#[derive(Debug)]
pub struct Outgoing<'c> {
    /// The bytes go there.
    pub channel: &'c mut Channel,
    /// Messages that are compressed are counted there.
    pub counters: &'c Counters,
    /// Bytes are counted there.
    pub network: &'c Network,
}

impl Outgoing<'_> {
    /// Writes an `OP_MSG` with one document.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn message(&mut self, id: i32, response_to: i32, document: &[u8], form: Form) -> io::Result<()> {
        if form.compressor.is_none() && !form.checksum {
            let head = reply_head(id, response_to, form.more_to_come, document.len());
            return self.write(&[&head, document]);
        }
        let message = Message {
            more_to_come: form.more_to_come,
            exhaust_allowed: false,
            checksum: form.checksum,
            body: Document::from_checked_bytes(document).unwrap_or(Document::empty()),
            sequences: Vec::new(),
        };
        self.whole(message.to_bytes(id, response_to), form.compressor)
    }

    /// Writes a message that is complete, compressed if that is asked for.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn whole(&mut self, message: Vec<u8>, compressor: Option<Compressor>) -> io::Result<()> {
        let Some(compressor) = compressor else { return self.write(&[&message]) };
        let (head, body) = message.split_at(HEADER_BYTES);
        let inner = head.first_chunk().and_then(|head| Header::parse(head).ok());
        let inner = inner.ok_or(ErrorKind::InvalidData)?;
        let body = compress(compressor, inner.opcode, body).map_err(io::Error::other)?;
        let header = Header { len: HEADER_BYTES + body.len(), opcode: OpCode::Compressed, ..inner };
        self.counters.compressed_out.add(1);
        self.write(&[&header.to_bytes(), &body])
    }

    /// Writes parts one after the other, in one call if the system takes all.
    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = 0;
        while written < total {
            let (mut skip, mut slices) = (written, [IoSlice::new(&[]); 2]);
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(&part[skip.min(part.len())..]);
                skip = skip.saturating_sub(part.len());
            }
            match self.channel.write_vectored(&slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.network.bytes_out.fetch_add(u64_of(total), Ordering::Relaxed);
        self.channel.flush()
    }
}
