//! TLS: the certificate of the server, and those that clients must have.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;

use crate::base::pem::{TlsError, certificates, private_key, roots};

/// How connections are encrypted. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

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
        let private = private_key(key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(error.to_string()))?;
        let builder = match ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| TlsError::of(ca, &error))?)
            }
        };
        let config = builder
            .with_single_cert(chain, private)
            .map_err(|error| TlsError::new(format!("{} and {}: {error}", certificate.display(), key.display())))?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The configuration of each connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}
