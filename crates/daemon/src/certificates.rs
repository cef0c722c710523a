//! What `check-config` says about certificate files: that they are there, readable, valid now, and of each other.
//!
//! Serving and connecting read the files by themselves and say what is wrong then; this finds it before.

use crate::Failure;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// This process listens with it.
    Server,
    /// This process connects with it.
    Client,
}

/// Files of a configuration, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct CertificateFiles<'a> {
    /// Their section of the configuration: `collect.tls`.
    pub section: &'a str,
    /// Own certificate, with intermediate ones behind it.
    pub certificate: &'a Path,
    /// Its key.
    pub key: &'a Path,
    /// The authority, where both sides have certificates of one.
    pub authority: Option<&'a Path>,
}

impl CertificateFiles<'_> {
    /// Checks them for a purpose, and gives the names in the own certificate. `now` is seconds since 1970.
    ///
    /// # Errors
    /// A file is missing or unreadable, a certificate is not valid now, the key is another certificate's, or the chain does
    /// not lead to the authority. The message names the key of the configuration and the file.
    pub fn check(&self, purpose: Purpose, now: u64) -> Result<Vec<String>, Failure> {
        let chain = self.certificates("certificate", self.certificate, now)?;
        let key = self.open("key", self.key, |path| PrivateKeyDer::from_pem_file(path))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong_key = |why: &dyn std::fmt::Display| self.wrong("key", self.key, why);
        CertifiedKey::from_der(chain.clone(), key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = self.certificate.display();
                wrong_key(&format!("it is not the key of the certificate in {certificate}"))
            }
            other => wrong_key(&other),
        })?;
        let (own, intermediates) = chain.split_first().ok_or_else(|| wrong_key(&"no certificate"))?;
        for pair in chain.windows(2) {
            if !is_issued_by(&pair[0], &pair[1]) {
                let why =
                    "the certificates in it are not a chain: each has to be signed by the one behind it";
                return Err(self.wrong("certificate", self.certificate, &why));
            }
        }
        if let Some(authority) = self.authority {
            let mut roots = RootCertStore::empty();
            for certificate in self.certificates("ca", authority, now)? {
                roots.add(certificate).map_err(|error| self.wrong("ca", authority, &error))?;
            }
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
            verify(purpose, roots, own, intermediates, now).map_err(|why| {
                let why = format!("{why}, by the authorities in {}", authority.display());
                self.wrong("certificate", self.certificate, &why)
            })?;
        }
        names(own).map_err(|why| self.wrong("certificate", self.certificate, &why))
    }

    fn certificates(
        &self,
        key: &str,
        path: &Path,
        now: u64,
    ) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let all = self.open(key, path, |path| {
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>)
        })?;
        if all.is_empty() {
            return Err(self.wrong(key, path, &"no PEM block -----BEGIN CERTIFICATE----- in it"));
        }
        for certificate in &all {
            let parsed = X509Certificate::from_der(certificate);
            let (_, parsed) = parsed.map_err(|error| self.wrong(key, path, &error))?;
            let (from, to) = (&parsed.validity().not_before, &parsed.validity().not_after);
            let at = i64::try_from(now).unwrap_or(i64::MAX);
            if at > to.timestamp() {
                let why = format!("the certificate of {} expired on {to}; renew it", parsed.subject());
                return Err(self.wrong(key, path, &why));
            }
            if at < from.timestamp() {
                let why = format!(
                    "the certificate of {} is not valid before {from}; is this machine's clock right?",
                    parsed.subject()
                );
                return Err(self.wrong(key, path, &why));
            }
        }
        Ok(all)
    }

    fn open<T>(
        &self,
        key: &str,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<T, rustls::pki_types::pem::Error>,
    ) -> Result<T, Failure> {
        std::fs::File::open(path).map_err(|error| {
            let what = format!("{}.{key} = \"{}\"", self.section, path.display());
            Failure::from_io(what, &error, "name PEM files that this user may read")
        })?;
        read(path).map_err(|error| self.wrong(key, path, &error))
    }

    fn wrong(&self, key: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
        Failure::usage(format!("{}.{key} = \"{}\": {why}", self.section, path.display()))
    }
}

fn is_issued_by(certificate: &CertificateDer<'_>, issuer: &CertificateDer<'_>) -> bool {
    let parsed = |der| X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed);
    match (parsed(certificate), parsed(issuer)) {
        (Some(certificate), Some(issuer)) => {
            // Names alone say little: a site's certificates may all have the same.
            certificate.issuer() == issuer.subject()
                && certificate.verify_signature(Some(issuer.public_key())).is_ok()
        }
        _ => false,
    }
}

/// Whether the chain leads to one of the authorities and may be used for this.
fn verify(
    purpose: Purpose,
    roots: RootCertStore,
    own: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(roots);
    let result = match purpose {
        Purpose::Client => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| error.to_string())?;
            verifier.verify_client_cert(own, intermediates, now).map(drop)
        }
        Purpose::Server => {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| error.to_string())?;
            // By one of its own names: which one clients use is not known here.
            let name = names(own)?.into_iter().find_map(|name| ServerName::try_from(name).ok());
            let name = name.ok_or("it has no DNS name or address that a client could check")?;
            verifier.verify_server_cert(own, intermediates, &name, &[], now).map(drop)
        }
    };
    result.map_err(|error| error.to_string())
}

/// DNS names and addresses of a certificate. Its common name is none of them (RFC 9525, 2 and 6.3).
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let alternative = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match *bytes {
                [a, b, c, d] => Some(std::net::Ipv4Addr::new(*a, *b, *c, *d).to_string()),
                bytes => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
            },
            _ => None,
        })
        .collect();
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use std::path::PathBuf;

    const NOW: u64 = 1_800_000_000; // 2027-01-15

    /// An authority in a folder of files.
    struct Site {
        folder: tempfile::TempDir,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Site {
        fn new() -> Site {
            let folder = tempfile::tempdir().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            std::fs::write(folder.path().join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
            Site { folder, issuer: Issuer::new(params, key) }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, years: [i32; 2]) {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            (params.not_before, params.not_after) =
                (date_time_ymd(years[0], 1, 1), date_time_ymd(years[1], 1, 1));
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }

        fn check(&self, [certificate, key, ca]: [&str; 3], purpose: Purpose) -> Result<Vec<String>, String> {
            let files = CertificateFiles {
                section: "some.tls",
                certificate: &self.path(certificate),
                key: &self.path(key),
                authority: Some(&self.path(ca)),
            };
            files.check(purpose, NOW).map_err(|failure| failure.to_string())
        }
    }

    #[test]
    fn files_of_each_other_are_right_and_all_others_are_named() {
        let (site, other) = (Site::new(), Site::new());
        site.write("node1", [2026, 2028]);
        site.write("node2", [2026, 2028]);
        site.write("old", [2020, 2026]);
        site.write("new", [2028, 2030]);
        for purpose in [Purpose::Client, Purpose::Server] {
            let check = |files| site.check(files, purpose);
            assert_eq!(check(["node1.pem", "node1.key", "ca"]), Ok(vec!["node1".to_owned()]));
            let wrong = |files, parts: [&str; 2]| {
                let error = check(files).unwrap_err();
                assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            };
            wrong(["none", "node1.key", "ca"], ["some.tls.certificate", "No such file"]);
            wrong(["node1.pem", "node2.key", "ca"], ["some.tls.key", "not the key"]);
            wrong(["old.pem", "old.key", "ca"], ["some.tls.certificate", "expired on"]);
            wrong(["new.pem", "new.key", "ca"], ["some.tls.certificate", "not valid before"]);
            wrong(["node1.key", "node1.key", "ca"], ["some.tls.certificate", "BEGIN CERTIFICATE"]);
            wrong(["node1.pem", "node1.pem", "ca"], ["some.tls.key", ""]);
            std::fs::copy(other.path("ca"), site.path("other")).unwrap();
            wrong(["node1.pem", "node1.key", "other"], ["some.tls.certificate", "authorities in"]);
            // One behind it that did not sign it.
            let both =
                ["node1.pem", "node2.pem"].map(|file| std::fs::read_to_string(site.path(file)).unwrap());
            std::fs::write(site.path("both"), both.concat()).unwrap();
            wrong(["both", "node1.key", "ca"], ["some.tls.certificate", "not a chain"]);
        }
    }
}
