//! Addresses of members: `db1.example.org:27017`.

use spinney_document::{Error, Result};

/// The port of addresses that tell none.
const PORT: u16 = 27_017;

/// An address with its port: as it is, or with the default port. IPv6 addresses stand in brackets.
///
/// # Errors
/// `BadValue` (2) for what is no host and port.
pub fn with_port(address: &str) -> Result<String> {
    let wrong = || Error::bad_value(format!("'{address}' is no address of a host, such as db1.example.org:27017"));
    let behind_brackets = address.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match address[behind_brackets..].rfind(':') {
        None => (address, PORT),
        Some(at) => {
            let (host, port) = address.split_at(behind_brackets + at);
            (host, port[1..].parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?)
        }
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.is_empty() && host.chars().all(|char| char.is_ascii_graphic() && !"/,\"\\@?#".contains(char));
    if !plain || (host.contains(':') && !bracketed) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// The host of an address, as a certificate names it.
#[must_use]
pub fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_the_default_port_and_nonsense_is_refused() {
        for (given, whole, name) in [
            ("db1", "db1:27017", "db1"),
            ("db1.example.org:5", "db1.example.org:5", "db1.example.org"),
            ("[::1]:5", "[::1]:5", "::1"),
            ("[::1]", "[::1]:27017", "::1"),
        ] {
            assert_eq!(with_port(given).unwrap(), whole);
            assert_eq!(host(whole), name);
        }
        for wrong in ["", ":5", "a:b", "a:0", "a:70000", "::1", "a b:5", "a/b", "u@a:1", "a:1:2"] {
            assert!(with_port(wrong).is_err(), "{wrong}");
        }
    }
}
