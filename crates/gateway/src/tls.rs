//! HTTPS: a listener whose connections have shaken hands. Files are read at the start of the server.

use crate::access::Peer;
use crate::connections::{Counted, CountedListener};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::Failure;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take: longer is nobody, or somebody who wants to hold connections.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Connections that have shaken hands and wait to be served.
const READY_MAX: usize = 64;

/// `tls` of the configuration: PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// This server's certificate, with intermediate ones behind it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One can't be read, or does not hold what it should; the message names the key.
    pub fn read(&self) -> Result<TlsAcceptor, Failure> {
        let remedy = "name PEM files that this user may read";
        let failed = |key: &str, path: &PathBuf, why: String| {
            let what = format!("query.tls.{key} = \"{}\"", path.display());
            Failure::usage(format!("{what}: {why}; {remedy}"))
        };
        for (key, path) in [("certificate", &self.certificate), ("key", &self.key)] {
            std::fs::File::open(path).map_err(|error| {
                let what = format!("query.tls.{key} = \"{}\"", path.display());
                Failure::from_io(what, &error, remedy)
            })?;
        }
        let certificate = |why: String| failed("certificate", &self.certificate, why);
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .map_err(|error| certificate(error.to_string()))?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(certificate("no PEM block -----BEGIN CERTIFICATE----- in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| failed("key", &self.key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| failed("certificate", &self.certificate, error.to_string()))?;
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        // The key does not belong to the certificate, for instance.
        let mut config = config.map_err(|error| failed("key", &self.key, error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Hands connections on that have shaken hands; slow ones hold up nobody, and have their places taken by others when
/// all are taken.
pub struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<Counted<TcpStream>>, SocketAddr)>,
    address: std::io::Result<SocketAddr>,
}

impl TlsListener {
    /// Takes connections of `listener` until this value is dropped.
    #[must_use]
    pub fn new(listener: TcpListener, acceptor: TlsAcceptor) -> TlsListener {
        let (done, ready) = mpsc::channel(READY_MAX);
        let address = listener.local_addr();
        let mut listener = CountedListener::new(listener);
        tokio::spawn(async move {
            loop {
                let (stream, peer) = tokio::select! {
                    () = done.closed() => return,
                    accepted = listener.accept() => accepted,
                };
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => _ = done.send((stream, peer)).await,
                        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
                        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
                    }
                });
            }
        });
        TlsListener { ready, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Counted<TcpStream>>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task ends with this value only.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
        }
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Peer {
        Peer::new(*stream.remote_addr(), stream.io().get_ref().0.get_ref().local_addr().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A certificate for `localhost` and its key, in files.
    fn files(folder: &std::path::Path) -> (ServerTls, CertificateDer<'static>) {
        std::fs::create_dir_all(folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = ServerTls { certificate: folder.join("server.pem"), key: folder.join("server.key") };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        (files, made.cert.der().clone())
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("throughline-tls-{name}-{}", std::process::id()))
    }

    #[tokio::test]
    async fn answers_over_tls_while_others_never_shake_hands() {
        let folder = folder("answers");
        let (files, certificate) = files(&folder);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = get(async |ConnectInfo(peer): ConnectInfo<Peer>| format!("{peer:?}"));
        let service = Router::new().route("/", page).into_make_service_with_connect_info::<Peer>();
        let tls = TlsListener::new(listener, files.read().unwrap());
        let server = tokio::spawn(async move { axum::serve(tls, service).await });
        let mut silent = Vec::new();
        for _ in 0..crate::connections::CONNECTIONS_MAX + 50 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream =
            tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("address: 127.0.0.1:"), "{answer}");
        server.abort();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn wrong_files_are_told_by_their_key() {
        let folder = folder("wrong");
        let (files, _) = files(&folder);
        let said = |tls: ServerTls| tls.read().err().unwrap().to_string();
        let none = ServerTls { certificate: folder.join("none"), ..files.clone() };
        assert!(said(none).contains("query.tls.certificate"));
        let turned = ServerTls { certificate: files.key.clone(), key: files.certificate.clone() };
        assert!(said(turned).contains("BEGIN CERTIFICATE"));
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&files.key, other.signing_key.serialize_pem()).unwrap();
        assert!(said(files).contains("query.tls.key"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
