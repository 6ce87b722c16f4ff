//! Experiments on documents run in this process, or on a server.

use crate::driver::Engine;
use clap::Args;
use serde::{Deserialize, Serialize};

/// The server, if it is one.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
pub struct Connect {
    /// Run on the server at this address, as in mongodb://127.0.0.1:27017, in its database `bench`, which is dropped
    /// first [default: in this process]
    #[arg(long, value_name = "URL", value_parser = parse_address)]
    pub connect: Option<String>,
}

impl Connect {
    /// Why an engine is not to run an experiment on documents, if so.
    pub(super) fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        (engine.client_server() && self.connect.is_none())
            .then(|| "a server's client: give the server with --connect mongodb://HOST:PORT".to_owned())
    }
}

fn parse_address(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is no address: expected mongodb://HOST:PORT, without user, database and options");
    let address = text.strip_prefix("mongodb://").ok_or_else(wrong)?.trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "27017"));
    if host.is_empty() || host.contains(['@', '/', '?', ',']) || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_and_ports() {
        assert_eq!(parse_address("mongodb://localhost"), Ok("localhost:27017".to_owned()));
        assert_eq!(parse_address("mongodb://127.0.0.1:5/"), Ok("127.0.0.1:5".to_owned()));
        for wrong in ["localhost:5", "mongodb://", "mongodb://u:p@h:1", "mongodb://h:x", "mongodb://a:1,b:2"] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }
}
