//! Connections that are encrypted, and clients that must have a certificate.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use spinney_server::auth::Mechanism;
use spinney_server::{Listening, Tls};

use crate::client::{Client, TestServer};

/// A certificate that signs others, one of a server at `localhost` and one of a client, with their keys.
struct Certificates {
    ca: CertificateDer<'static>,
    ca_pem: String,
    server_pem: (String, String),
    client: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let (server_key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let named = |name: &str| CertificateParams::new(vec![name.to_owned()]).unwrap();
        let server = named("localhost").signed_by(&server_key, &issuer).unwrap();
        let client = named("client").signed_by(&client_key, &issuer).unwrap();
        Self {
            ca: ca.der().clone(),
            ca_pem: ca.pem(),
            server_pem: (server.pem(), server_key.serialize_pem()),
            client: (client.der().clone(), PrivateKeyDer::try_from(client_key.serialize_der()).unwrap()),
        }
    }

    /// A server with the certificate, which wants one of clients if it is told so.
    fn server(&self, clients: bool) -> (TestServer, String) {
        self.server_with(clients, false)
    }

    /// The same, in which clients must log in if it is told so.
    fn server_with(&self, clients: bool, auth: bool) -> (TestServer, String) {
        let mut address = String::new();
        let server = TestServer::with_sockets(
            |settings| settings.auth = auth,
            |dir| {
                let file = |name: &str, text: &str| {
                    std::fs::write(dir.path().join(name), text).unwrap();
                    dir.path().join(name)
                };
                let (certificate, key) = (file("cert", &self.server_pem.0), file("key", &self.server_pem.1));
                let ca = file("ca", &self.ca_pem);
                let tls = Tls::from_files(&certificate, &key, clients.then_some(ca.as_path())).unwrap();
                let socket = Listening::tcp_with_tls("127.0.0.1:0", tls).unwrap();
                address = socket.address();
                assert_eq!(socket.connection_string(), format!("mongodb://{address}/?tls=true"));
                vec![socket]
            },
        );
        (server, address)
    }

    fn client(&self, address: &str, own: bool) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if own {
            builder.with_client_auth_cert(vec![self.client.0.clone()], self.client.1.clone_key()).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client::over(StreamOwned::new(connection, stream))
    }
}

#[test]
fn encrypted_connections_are_served() {
    let certificates = Certificates::new();
    let (mut server, address) = certificates.server(false);
    let mut client = certificates.client(&address, false);
    client.ok("admin", r#"{"ping": 1}"#);
    let long = "x".repeat(300_000);
    client.ok("app", &format!(r#"{{"insert": "c", "documents": [{{"_id": 1, "x": "{long}"}}]}}"#));
    assert!(client.ok("app", r#"{"find": "c"}"#).as_bytes().len() > 300_000);
    // Who does not encrypt is not served.
    let mut plain = Client::over(TcpStream::connect(&address).unwrap());
    plain.send_command("admin", spinney_document::doc! {"ping": 1}.view(), false, false);
    assert!(plain.stream.set_read_timeout(Some(Duration::from_secs(20))).is_ok());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut plain.stream, &mut bytes).ok();
    assert!(bytes.len() < 16 || bytes[0] == 21, "a TLS alert at most: {bytes:?}");
    server.end();
}

#[test]
fn clients_need_a_certificate_when_they_are_asked_for_one() {
    let certificates = Certificates::new();
    let (_server, address) = certificates.server(true);
    certificates.client(&address, true).ok("admin", r#"{"ping": 1}"#);
    let mut without = certificates.client(&address, false);
    let refused = std::io::Write::write_all(&mut without.stream, &[0; 16]).is_err() || without.receive().is_none();
    assert!(refused);
}

#[test]
fn a_certificate_logs_its_subject_in() {
    let certificates = Certificates::new();
    let (server, address) = certificates.server_with(true, true);
    let mut plain = server.client();
    plain.ok("admin", r#"{"createUser": "root", "pwd": "secret", "roles": ["root"]}"#);
    plain.log_in(Mechanism::Sha256, "admin", "root", "secret");
    let log_in = r#"{"authenticate": 1, "mechanism": "MONGODB-X509"}"#;
    assert_eq!(certificates.client(&address, true).code("$external", log_in), 18);
    let name = "CN=rcgen self signed cert";
    let user = format!(r#"{{"createUser": "{name}", "roles": [{{"role": "readWrite", "db": "app"}}]}}"#);
    plain.ok("$external", &user);
    assert_eq!(plain.code("$external", &user.replace("\"roles\"", "\"pwd\": \"x\", \"roles\"")), 2);
    let password = format!(r#"{{"updateUser": "{name}", "pwd": "x"}}"#);
    assert_eq!(plain.code("$external", &password), 2);
    let mut client = certificates.client(&address, true);
    assert_eq!(client.code("app", r#"{"find": "c"}"#), 13);
    for wrong in ["admin", "app"] {
        assert_eq!(client.code(wrong, log_in), 18);
    }
    assert_eq!(client.code("$external", &log_in.replace("}", r#", "user": "CN=other"}"#)), 18);
    let reply = client.ok("$external", &log_in.replace("}", &format!(r#", "user": "{name}"}}"#)));
    assert_eq!(reply.view().to_json(), format!(r#"{{"dbname":"$external","user":"{name}","ok":1.0}}"#));
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    assert_eq!(client.code("other", r#"{"find": "c"}"#), 13);
    // A handshake logs in at once.
    let mut client = certificates.client(&address, true);
    let hello =
        format!(r#"{{"hello": 1, "speculativeAuthenticate": {}}}"#, log_in.replace("}", r#", "db": "$external"}"#));
    assert!(client.ok("admin", &hello).view().get("speculativeAuthenticate").is_some());
    client.ok("app", r#"{"find": "c"}"#);
    // Who shows no certificate has no subject.
    assert_eq!(plain.code("$external", log_in), 18);
}

#[test]
fn files_that_hold_no_certificate_are_named() {
    let error = Tls::from_files(Path::new("nothing"), Path::new("nothing"), None).unwrap_err();
    assert!(error.to_string().starts_with("cannot read nothing: "), "{error}");
}
