//! TLS of connections to other members: whom this server trusts, and its own certificate.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;

use crate::base::pem::{TlsError, certificates, private_key, roots};

/// How connections to other members are encrypted. Cheap to clone.
#[derive(Clone)]
pub struct PeerTls {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerTls")
    }
}

impl PeerTls {
    /// TLS 1.2 and 1.3 to members whose certificates one of those in `ca` has signed, and with this server's own
    /// certificate for members that ask for one.
    ///
    /// # Errors
    /// When a file cannot be read, holds nothing of what it should, or the key does not belong to the certificate.
    pub fn from_files(certificate: &Path, key: &Path, ca: &Path) -> Result<Self, TlsError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(error.to_string()))?
            .with_root_certificates(roots(ca)?)
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| TlsError::new(format!("{} and {}: {error}", certificate.display(), key.display())))?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The configuration of each connection.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}
