//! Files of mutual TLS, the same for both sides. Read when a connection is made, so that renewed certificates
//! hold from the next connection on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use throughline_daemon::Failure;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

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
#[error("{key} = \"{path}\": {cause}", path = path.display())]
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

/// What the files hold.
struct Contents {
    ca: Certificate,
    identity: Identity,
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsFileError> {
        let certificate = read("certificate", &self.certificate, "CERTIFICATE")?;
        let key = read("key", &self.key, "PRIVATE KEY")?;
        Ok(Contents {
            ca: Certificate::from_pem(read("ca", &self.ca, "CERTIFICATE")?),
            identity: Identity::from_pem(certificate, key),
        })
    }

    /// Reads the files once, to find out at start what is wrong with them.
    ///
    /// # Errors
    /// One is not there, can't be read, or is no PEM file.
    pub fn check(&self) -> Result<(), TlsFileError> {
        self.read().map(drop)
    }

    /// The side that connects.
    ///
    /// # Errors
    /// As [`TlsFiles::check`].
    pub fn client(&self) -> Result<ClientTlsConfig, TlsFileError> {
        let Contents { ca, identity } = self.read()?;
        Ok(ClientTlsConfig::new().ca_certificate(ca).identity(identity))
    }

    /// The side that listens; it takes only those who have a certificate of the authority.
    ///
    /// # Errors
    /// As [`TlsFiles::check`].
    pub fn server(&self) -> Result<ServerTlsConfig, TlsFileError> {
        let Contents { ca, identity } = self.read()?;
        Ok(ServerTlsConfig::new().client_ca_root(ca).identity(identity))
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
