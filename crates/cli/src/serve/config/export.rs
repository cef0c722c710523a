//! `[export]`: receivers of samples.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use throughline_daemon::Failure;
use throughline_gateway::export::RemoteWrite;

/// `[export]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportConfig {
    /// Receivers of Prometheus' remote write.
    pub remote_write: Vec<RemoteWrite>,
}

impl ExportConfig {
    /// Refuses what cannot work, naming the key.
    ///
    /// # Errors
    /// A value is out of range, or two receivers have one name (64).
    pub fn check(&self) -> Result<(), Failure> {
        let mut names = BTreeSet::new();
        for receiver in &self.remote_write {
            receiver.check()?;
            if !names.insert(receiver.name.as_str()) {
                return Err(Failure::usage(format!(
                    "export.remote_write.name: two receivers are named '{}', and each has a position of its own",
                    receiver.name
                )));
            }
        }
        Ok(())
    }
}
