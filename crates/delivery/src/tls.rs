//! Files of mutual TLS, the same for both sides. Read when a connection is made, so that renewed certificates
//! hold from the next connection on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use serde::{Deserialize, Serialize};
use throughline_daemon::certificates::{CertificateFiles, Purpose};
use throughline_daemon::{Failure, ReloadingValue};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Largest file that is taken for certificates or a key; a chain of a few certificates is some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `tls` of a configuration: PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The authority that signed the other side's certificate.
    pub ca: PathBuf,
    /// Own certificate, with intermediate ones behind it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A file of [`TlsFiles`] can't be used.
#[derive(Debug, thiserror::Error)]
#[error("tls.{key} = \"{path}\": {cause}", path = path.display())]
pub struct TlsFileError {
    /// The configuration's key within `tls`.
    key: &'static str,
    path: PathBuf,
    cause: std::io::Error,
}

impl From<TlsFileError> for Failure {
    fn from(error: TlsFileError) -> Self {
        let what = format!("tls.{} = \"{}\"", error.key, error.path.display());
        Failure::from_io(what, &error.cause, "name PEM files that this user may read")
    }
}

/// What the files hold, as PEM.
struct Contents {
    ca: String,
    certificate: String,
    key: String,
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsFileError> {
        Ok(Contents {
            certificate: read("certificate", &self.certificate, "CERTIFICATE")?,
            key: read("key", &self.key, "PRIVATE KEY")?,
            ca: read("ca", &self.ca, "CERTIFICATE")?,
        })
    }

    /// Reads the files once, to find out at start what is wrong with them.
    ///
    /// # Errors
    /// One is not there, can't be read, or is no PEM file.
    pub fn check(&self) -> Result<(), TlsFileError> {
        self.read().map(drop)
    }

    /// Checks that the certificates are valid now and of each other, beyond what [`TlsFiles::check`] does, and gives the
    /// names in the own one. `section` is their section of the configuration.
    ///
    /// # Errors
    /// As [`CertificateFiles::check`].
    pub fn check_certificates(&self, section: &str, purpose: Purpose) -> Result<Vec<String>, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let files = CertificateFiles {
            section,
            certificate: &self.certificate,
            key: &self.key,
            authority: Some(&self.ca),
        };
        files.check(purpose, now.as_secs())
    }

    /// The side that connects.
    ///
    /// # Errors
    /// As [`TlsFiles::check`].
    pub fn client(&self) -> Result<ClientTlsConfig, TlsFileError> {
        let Contents { ca, certificate, key } = self.read()?;
        let identity = Identity::from_pem(certificate, key);
        Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).identity(identity))
    }

    /// The side that listens, for HTTP/2; it takes only those who have a certificate of the authority.
    fn server(&self) -> Result<ServerConfig, TlsFileError> {
        let contents = self.read()?;
        let failed = |key: &'static str, path: &Path, cause: &dyn std::fmt::Display| TlsFileError {
            key,
            path: path.to_owned(),
            cause: std::io::Error::new(std::io::ErrorKind::InvalidData, cause.to_string()),
        };
        let chain = |key, path, pem: &str| {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            all.map_err(|error| failed(key, path, &error))
        };
        let mut roots = RootCertStore::empty();
        for certificate in chain("ca", &self.ca, &contents.ca)? {
            roots.add(certificate).map_err(|error| failed("ca", &self.ca, &error))?;
        }
        let own = chain("certificate", &self.certificate, &contents.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(contents.key.as_bytes())
            .map_err(|error| failed("key", &self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| failed("ca", &self.ca, &error))?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed("certificate", &self.certificate, &error))?;
        // The key does not belong to the certificate, for instance.
        let config = builder.with_client_cert_verifier(verifier).with_single_cert(own, key);
        let mut config = config.map_err(|error| failed("key", &self.key, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // Senders stay connected for days: tickets would be sent for nothing.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The side that listens. Files that were renewed hold from the next connection on; while they can't be used, the ones
/// before do.
#[derive(Debug)]
pub struct ServerTls(ReloadingValue<ServerConfig>);

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One is not there, can't be read, or does not hold what it should.
    pub fn new(files: TlsFiles) -> Result<Self, TlsFileError> {
        let paths = vec![files.ca.clone(), files.certificate.clone(), files.key.clone()];
        ReloadingValue::new(paths, move || files.server()).map(Self)
    }

    /// What holds for the next connection. Looks at the files: not for a thread that polls sockets.
    #[must_use]
    pub fn current(&self) -> Arc<ServerConfig> {
        self.0.current()
    }
}

fn read(key: &'static str, path: &Path, expected: &str) -> Result<String, TlsFileError> {
    let fail = |cause| TlsFileError { key, path: path.to_owned(), cause };
    let length = std::fs::metadata(path).map_err(fail)?.len();
    if length > FILE_BYTES_MAX {
        let cause = format!("{length} bytes are more than a PEM file has");
        return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidData, cause)));
    }
    let text = std::fs::read_to_string(path).map_err(fail)?;
    let has_block = text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(expected));
    if !has_block {
        let cause = format!("no PEM block -----BEGIN {expected}----- in it");
        return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidData, cause)));
    }
    Ok(text)
}
