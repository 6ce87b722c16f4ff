//! The files of TLS: certificates and private keys in PEM.

use std::fmt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
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
    let wrong = |error: &dyn fmt::Display| TlsError(format!("{} has no certificate: {error}", path.display()));
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    if all.is_empty() { Err(wrong(&"it is not in PEM")) } else { Ok(all) }
}

/// The private key in a file.
///
/// # Errors
/// When the file cannot be read or has none.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| TlsError(format!("{} has no private key: {error}", path.display())))
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
