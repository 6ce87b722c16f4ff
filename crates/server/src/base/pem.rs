//! The files of TLS: certificates and private keys in PEM.

use std::fmt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why the files of TLS cannot be used: the file, and what is wrong with it. Keys are never part of it.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    /// What is wrong with the files.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// What is wrong with a file.
    pub fn of(path: &Path, what: &dyn fmt::Display) -> Self {
        Self(format!("{}: {what}", path.display()))
    }
}

/// The certificates in a file, in their order.
///
/// # Errors
/// When the file cannot be read or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error| unread(path, "certificate", error);
    let read = CertificateDer::pem_file_iter(path).map_err(wrong)?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if all.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(all) }
}

/// The private key in a file.
///
/// # Errors
/// When the file cannot be read or has none.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unread(path, "private key", error))
}

/// Why there is nothing of a kind in a file.
fn unread(path: &Path, what: &str, error: pem::Error) -> TlsError {
    let path = path.display();
    TlsError(match error {
        pem::Error::Io(error) => format!("cannot read {path}: {error}"),
        pem::Error::NoItemsFound => format!("{path} has no {what} in PEM"),
        error => format!("{path} has no {what}: {error}"),
    })
}

/// The certificates in a file, as those that may sign others.
///
/// # Errors
/// As [`certificates`], and when one cannot sign.
pub fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| TlsError::of(path, &error))?;
    }
    Ok(roots)
}
