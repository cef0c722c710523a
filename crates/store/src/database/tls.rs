//! TLS to a PostgreSQL server, by rustls: what `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of a connection string say,
//! as libpq understands them.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{Connect, TlsConnector};

/// What is checked of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing: the connection is encrypted, and any server is believed.
    Nothing,
    /// That a known authority signed it.
    Authority,
    /// That, and that it has the host's name.
    AuthorityAndName,
}

/// The files and checks of TLS to a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsSettings {
    pub check: Check,
    /// `sslrootcert`; the system's authorities where it is absent or `system`.
    pub authorities: Option<PathBuf>,
    /// `sslcert` and `sslkey`.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Connects with TLS to a database; cheap to clone.
#[derive(Clone)]
pub struct DatabaseTls(Arc<ClientConfig>);

impl DatabaseTls {
    /// For a connection that never begins TLS.
    pub(super) fn unused() -> Result<Self, String> {
        let settings = TlsSettings { check: Check::Nothing, authorities: None, identity: None };
        Self::new(&settings)
    }

    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with which file, in words.
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match settings.check {
            // libpq checks the authority, too, where one is named.
            Check::Nothing if settings.authorities.is_none() => Arc::new(AnyCertificate(provider.clone())),
            check => {
                let roots = roots(settings.authorities.as_deref())?;
                let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
                let inner = inner.build().map_err(|error| format!("sslrootcert: {error}"))?;
                match check {
                    Check::AuthorityAndName => inner,
                    Check::Nothing | Check::Authority => Arc::new(AnyName(inner)),
                }
            }
        };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("sslcert", certificate)?;
                let secret =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| named("sslkey", key, &error))?;
                let config = builder.with_client_auth_cert(chain, secret);
                config.map_err(|error| named("sslkey", key, &error))?
            }
        };
        // For `sslnegotiation=direct`.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn named(key: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{key}={}: {error}", path.display())
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| named(key, path, &error))?;
    if all.is_empty() { Err(named(key, path, &"it has no certificate")) } else { Ok(all) }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = file.filter(|path| *path != Path::new("system")) {
        for certificate in certificates("sslrootcert", path)? {
            roots.add(certificate).map_err(|error| named("sslrootcert", path, &error))?;
        }
        return Ok(roots);
    }
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if roots.is_empty() {
        return Err(
            "sslrootcert: this system has no certificates of authorities (package ca-certificates); name a \
                    file with sslrootcert=FILE"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// Believes any server that proves to have the key of the certificate that it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks all but the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is the last thing that is looked at.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl<S> MakeTlsConnect<S> for DatabaseTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = Handshake;
    type Error = Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Error> {
        // A Unix socket has no name, and no TLS either.
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|error| Error::new(ErrorKind::InvalidInput, format!("host '{host}': {error}")));
        Ok(Handshake { name: name.ok(), config: self.0.clone() })
    }
}

/// One connection before its handshake.
pub struct Handshake {
    name: Option<ServerName<'static>>,
    config: Arc<ClientConfig>,
}

/// The future of a handshake.
pub type TlsHandshake<S> = Pin<Box<dyn Future<Output = Result<EncryptedStream<S>, Error>> + Send>>;

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = Error;
    type Future = TlsHandshake<S>;

    fn connect(self, stream: S) -> TlsHandshake<S> {
        Box::pin(async move {
            let name =
                self.name.ok_or_else(|| Error::other("the host's name can't be that of a certificate"))?;
            let connect: Connect<S> = TlsConnector::from(self.config).connect(name, stream);
            Ok(EncryptedStream(connect.await?))
        })
    }
}

/// A connection with TLS.
pub struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    /// `tls-server-end-point` (RFC 5929, 4.1) of certificates that are signed with SHA-256 or less, which nearly all are.
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let hash = certificates.and_then(|certificates| end_point_hash(certificates.first()?));
        hash.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

fn end_point_hash(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
    use x509_parser::oid_registry as oid;
    use x509_parser::prelude::{FromDer, X509Certificate};
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let algorithm = &parsed.signature_algorithm.algorithm;
    let sha256 = [&oid::OID_PKCS1_SHA256WITHRSA, &oid::OID_SIG_ECDSA_WITH_SHA256];
    let sha384 = [&oid::OID_PKCS1_SHA384WITHRSA, &oid::OID_SIG_ECDSA_WITH_SHA384];
    let suite = if sha256.contains(&algorithm) {
        TLS13_AES_128_GCM_SHA256
    } else if sha384.contains(&algorithm) {
        TLS13_AES_256_GCM_SHA384
    } else {
        return None; // Without it SCRAM proves the password all the same.
    };
    let hash = suite.tls13()?.common.hash_provider.hash(certificate);
    Some(hash.as_ref().to_vec())
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
