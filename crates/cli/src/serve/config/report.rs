//! `[report]`: where reports of jobs go.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use throughline_daemon::Failure;
use throughline_gateway::outbound::{self, Address, Receiver};

/// `[report]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReportConfig {
    /// Where the report of each job that has ended is posted.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_path")]
    pub webhook: Option<String>,
    /// File with a token for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Certificates that the receiver's must lead to; absent for those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// As it may be shown: the path of a webhook is often its secret.
fn without_path<S: serde::Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let shown =
        url.as_deref().map(|url| outbound::origin(url).map_or("***".to_owned(), |origin| origin + "/***"));
    shown.serialize(serializer)
}

impl ReportConfig {
    fn address(&self) -> Option<Address> {
        let url = self.webhook.clone()?;
        Some(Address { url, token_file: self.token_file.clone(), ca_file: self.ca_file.clone() })
    }

    /// Refuses what cannot work, naming the key.
    ///
    /// # Errors
    /// The address can't be posted to (64).
    pub fn check(&self) -> Result<(), Failure> {
        self.address().map_or(Ok(()), |address| address.check("report", "webhook"))
    }

    /// The receiver of reports; reads its files.
    ///
    /// # Errors
    /// The address or a file can't be used.
    pub fn receiver(&self) -> Result<Option<Receiver>, Failure> {
        self.address().map(|address| address.receiver("report", "webhook")).transpose()
    }
}
