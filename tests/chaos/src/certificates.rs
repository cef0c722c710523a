//! An authority and the certificates of a site, as files.

use std::path::{Path, PathBuf};
use throughline_delivery::TlsFiles;

/// Signs certificates.
pub struct Authority {
    folder: PathBuf,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    /// A new one, whose files are in a folder that is made.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir(folder)?;
        let mut parameters = rcgen::CertificateParams::new(Vec::new())?;
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(folder.join("ca.pem"), parameters.self_signed(&key)?.pem())?;
        Ok(Self { folder: folder.to_owned(), issuer: rcgen::Issuer::new(parameters, key) })
    }

    /// Makes the certificate of somebody.
    pub fn sign(&self, name: &str) -> anyhow::Result<TlsFiles> {
        let (key, files) = (rcgen::KeyPair::generate()?, files(&self.folder, name));
        let certificate = rcgen::CertificateParams::new([name.to_owned()])?.signed_by(&key, &self.issuer)?;
        std::fs::write(&files.certificate, certificate.pem())?;
        std::fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}

/// Files of a name.
pub fn files(folder: &Path, name: &str) -> TlsFiles {
    TlsFiles {
        ca: folder.join("ca.pem"),
        certificate: folder.join(format!("{name}.certificate.pem")),
        key: folder.join(format!("{name}.key.pem")),
    }
}

/// As a value of TOML.
pub fn toml(files: &TlsFiles) -> String {
    let TlsFiles { ca, certificate, key } = files;
    format!(
        "{{ ca = '{}', certificate = '{}', key = '{}' }}",
        ca.display(),
        certificate.display(),
        key.display()
    )
}
