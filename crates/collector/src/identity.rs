//! Who sends: the names in a sender's certificate, and what they allow it to say.
//!
//! With TLS a batch's node must be a name of the certificate that its stream came with, and only named crawlers
//! may report for a subnet: a compute node can't make up rows of another one, nor of the fabric. Without TLS
//! everybody is on this machine, and believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throughline_sample::Guid;
use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};
use throughline_sample::wire::Batch;
use throughline_store::serial_number;
use tonic::Status;
use tonic::transport::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Names in the certificates of fabric crawlers, and the subnets of each; none means any subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crawlers(BTreeMap<String, BTreeSet<u64>>);

impl Crawlers {
    /// A crawler and its subnets' prefixes.
    #[must_use]
    pub fn with(mut self, name: String, subnets: impl IntoIterator<Item = u64>) -> Self {
        self.0.entry(name).or_default().extend(subnets);
        self
    }
}

impl<const N: usize> From<[String; N]> for Crawlers {
    fn from(names: [String; N]) -> Self {
        names.into_iter().fold(Self::default(), |all, name| all.with(name, []))
    }
}

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
        /// DNS names of the certificate. Its common name is none of them (RFC 9525, 2 and 6.3).
        names: Vec<String>,
        /// The one that is a crawler's, and its subnets; none means any.
        crawler: Option<(String, BTreeSet<u64>)>,
        /// Its serial number, as in `node_bar`.
        serial: String,
    },
}

impl Identity {
    /// From the peer's certificates, its own first; `None` without TLS.
    pub fn of(certificates: Option<&[CertificateDer<'_>]>, crawlers: &Crawlers) -> Result<Self, Status> {
        let Some(certificates) = certificates else { return Ok(Identity::Local { uid: None }) };
        let own = certificates.first().ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let (names, serial) = names(own)?;
        let crawler = names.iter().find_map(|name| Some((name.clone(), crawlers.0.get(name)?.clone())));
        Ok(Identity::Certified { names, crawler, serial })
    }

    /// Its name as in `record_quarantine`.
    pub fn name(&self) -> String {
        match self {
            Identity::Certified { crawler: Some((name, _)), .. } => format!("crawler:{name}"),
            Identity::Certified { names, .. } => {
                format!("node:{}", names.first().map_or("", String::as_str))
            }
            Identity::Local { .. } => "local".to_owned(),
        }
    }

    /// Whether it may send this batch.
    pub fn may_send(&self, batch: &Batch) -> Result<(), Status> {
        match self {
            _ if batch.node.is_empty() => self.may_crawl(batch.subnet_prefix),
            Identity::Certified { names, .. } if !names.contains(&batch.node) => {
                Err(Status::permission_denied(format!(
                    "a batch of node '{}' came with the certificate of {}: set [node] name in agent.toml to a name of the \
                     certificate, or give the node a certificate with its name",
                    clean_text(&batch.node, NAME_BYTES_MAX),
                    names.join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether it may report for a subnet.
    pub fn may_crawl(&self, prefix: u64) -> Result<(), Status> {
        match self {
            Identity::Certified { names, crawler: None, .. } => Err(Status::permission_denied(format!(
                "{} is not among collect.crawlers of the server's configuration",
                names.join(", ")
            ))),
            Identity::Certified { crawler: Some((name, subnets)), .. }
                if !subnets.is_empty() && !subnets.contains(&prefix) =>
            {
                Err(Status::permission_denied(format!(
                    "{name} is not a crawler of subnet {} by collect.crawlers of the server's configuration",
                    Guid(prefix)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whose clock a batch of this node was made by (of a crawler where that is empty), as in `sender_clock`, and the name by which
    /// its holder counts once, however many names it has; empty for a sender of this machine.
    ///
    /// # Errors
    /// It may not send for the node.
    pub fn clock(&self, node: &str) -> Result<(String, String), Status> {
        let sender = match self {
            Identity::Certified { names, .. }
                if !node.is_empty() && !names.iter().any(|name| name == node) =>
            {
                None
            }
            Identity::Certified { crawler, .. } if node.is_empty() => {
                crawler.as_ref().map(|(name, _)| format!("crawler:{name}"))
            }
            Identity::Local { .. } if node.is_empty() => Some("crawler:local".to_owned()),
            _ => Some(format!("node:{node}")),
        };
        let sender = sender.ok_or_else(|| {
            Status::permission_denied("the certificate has not the name of the node whose clock it reports")
        })?;
        let certificate = match self {
            Identity::Certified { names, .. } => names.first().cloned().unwrap_or_default(),
            Identity::Local { .. } => String::new(),
        };
        Ok((sender, certificate))
    }

    /// Names under which a spool may belong to the sender of a batch, which it [may send](Self::may_send), or of bytes
    /// that are none. A node's is its own whatever its certificate's number is, and a crawler's its certificate's.
    pub fn owners(&self, batch: Option<&Batch>) -> Arc<[String]> {
        let crawler = match self {
            Identity::Certified { crawler, .. } => {
                crawler.as_ref().map(|(name, _)| format!("crawler:{name}"))
            }
            _ => Some("crawler:local".to_owned()),
        };
        match (batch, self) {
            (Some(batch), _) if batch.node.is_empty() => crawler.into_iter().collect(),
            (Some(batch), _) => [format!("node:{}", batch.node)].into(),
            (None, Identity::Certified { names, .. }) => {
                names.iter().map(|name| format!("node:{name}")).chain(crawler).collect()
            }
            (None, _) => ["local".to_owned()].into(),
        }
    }
}

/// Its DNS names and its serial number.
fn names(certificate: &CertificateDer<'_>) -> Result<(Vec<String>, String), Status> {
    let unreadable = |what: &str| Status::unauthenticated(format!("the certificate {what}"));
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| unreadable("can't be parsed"))?;
    let alternative =
        certificate.subject_alternative_name().map_err(|_| unreadable("has two lists of names"))?;
    let names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return Err(unreadable(
            "has no DNS name: issue one with the node's name among its subject alternative names",
        ));
    }
    let serial = serial_number(&certificate.raw_serial_as_string());
    Ok((names, serial.ok_or_else(|| unreadable("has no serial number"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_24_a_common_name_is_no_name_of_a_node() {
        let key = rcgen::KeyPair::generate().unwrap();
        let identity = |names: Vec<String>| {
            let mut params = rcgen::CertificateParams::new(names).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, "n1");
            params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0x0A, 0x1B]));
            let certificate = params.self_signed(&key).unwrap();
            Identity::of(Some(&[certificate.der().clone()]), &Crawlers::default())
        };
        let refused = identity(Vec::new()).unwrap_err();
        assert!(refused.message().contains("no DNS name"), "{refused}");
        let Identity::Certified { names, serial, .. } = identity(vec!["n2".to_owned()]).unwrap() else {
            panic!("no certificate")
        };
        assert_eq!((names, serial.as_str()), (vec!["n2".to_owned()], "a1b"));
    }
}
