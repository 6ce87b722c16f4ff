//! TLS: the certificate of the server, and those that clients must have.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// How connections are encrypted. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

/// Why the files of TLS cannot be used: the file, and what is wrong with it. Keys are never part of it.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// TLS 1.2 and 1.3 with the certificates in a PEM file, the server's own first, and its private key in another.
    /// With `ca`, clients must have a certificate that one of the certificates in that file has signed.
    ///
    /// # Errors
    /// When a file cannot be read, holds nothing of what it should, or the key does not belong to the certificate.
    pub fn from_files(certificate: &Path, key: &Path, ca: Option<&Path>) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsError(format!("{} has no private key: {error}", key.display())))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?;
        let builder = match ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let wrong = |error: &dyn fmt::Display| TlsError(format!("{}: {error}", ca.display()));
                let mut roots = RootCertStore::empty();
                for root in certificates(ca)? {
                    roots.add(root).map_err(|error| wrong(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
            }
        };
        let config = builder
            .with_single_cert(chain, private)
            .map_err(|error| TlsError(format!("{} and {}: {error}", certificate.display(), key.display())))?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The configuration of each connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: &dyn fmt::Display| TlsError(format!("{} has no certificate: {error}", path.display()));
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    if all.is_empty() { Err(wrong(&"it is not in PEM")) } else { Ok(all) }
}
