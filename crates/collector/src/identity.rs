//! Who sends: the names in a sender's certificate, and what they allow it to say.
//!
//! With TLS a batch's node must be a name of the certificate that its stream came with, and only named crawlers
//! may speak for a subnet: a compute node can't make up rows of another one, nor of the fabric. Without TLS
//! everybody is on this machine, and believed.

use std::collections::BTreeSet;

use throughline_sample::wire::Batch;
use tonic::Status;
use tonic::transport::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Who is on the other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A process of this machine, by a connection without TLS.
    Local {
        /// Its user by the kernel's word; `None` where a token stands for it.
        uid: Option<u32>,
    },
    /// By certificate.
    Certified {
        /// DNS names of the certificate; its common name where it has none (RFC 9525, 2 and 6.3).
        names: Vec<String>,
        /// Whether one of them may speak for a subnet.
        is_crawler: bool,
    },
}

impl Identity {
    /// From the peer's certificates, its own first; `None` without TLS.
    pub fn of(
        certificates: Option<&[CertificateDer<'_>]>,
        crawlers: &BTreeSet<String>,
    ) -> Result<Self, Status> {
        let Some(certificates) = certificates else { return Ok(Identity::Local { uid: None }) };
        let own = certificates.first().ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let names = names(own)?;
        let is_crawler = names.iter().any(|name| crawlers.contains(name));
        Ok(Identity::Certified { names, is_crawler })
    }

    /// Whether it may send this batch.
    pub fn may_send(&self, batch: &Batch) -> Result<(), Status> {
        match self {
            _ if batch.node.is_empty() => self.may_crawl(),
            Identity::Certified { names, .. } if !names.contains(&batch.node) => {
                Err(Status::permission_denied(format!(
                    "a batch of node '{}' came with the certificate of {}: [node] name and certificate must agree",
                    batch.node,
                    names.join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether it may speak for a subnet.
    pub fn may_crawl(&self) -> Result<(), Status> {
        match self {
            Identity::Certified { names, is_crawler: false } => Err(Status::permission_denied(format!(
                "{} is not among collect.crawlers of the server's configuration",
                names.join(", ")
            ))),
            _ => Ok(()),
        }
    }
}

fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, Status> {
    let unreadable = |what: &str| Status::unauthenticated(format!("the certificate {what}"));
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| unreadable("can't be parsed"))?;
    let alternative =
        certificate.subject_alternative_name().map_err(|_| unreadable("has two lists of names"))?;
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names = common.map(str::to_owned).collect();
    }
    if names.is_empty() { Err(unreadable("names nobody")) } else { Ok(names) }
}
