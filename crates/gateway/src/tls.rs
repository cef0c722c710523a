//! HTTPS: certificate and key. Files that are renewed hold from the next connection on; `listen` shakes hands.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_daemon::certificates::{CertificateFiles, Purpose};
use throughline_daemon::{Failure, ReloadingValue};

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
    /// What the files hold now and from then on.
    ///
    /// # Errors
    /// One can't be read, or does not hold what it should; the message names the key.
    pub fn renewed(&self) -> Result<Arc<ReloadingValue<ServerConfig>>, Failure> {
        let (files, paths) = (self.clone(), vec![self.certificate.clone(), self.key.clone()]);
        ReloadingValue::new(paths, move || files.read()).map(Arc::new)
    }

    /// Checks that the certificates are valid now and of each other.
    ///
    /// # Errors
    /// As [`CertificateFiles::check`].
    pub fn check_certificates(&self, section: &str) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (certificate, key) = (&self.certificate, &self.key);
        let files = CertificateFiles { section, certificate, key, authority: None };
        files.check(Purpose::Server, now.as_secs()).map(drop)
    }

    fn read(&self) -> Result<ServerConfig, Failure> {
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
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn wrong_files_are_named_by_their_key() {
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
