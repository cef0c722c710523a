//! NVLink domains over several nodes: GPUs with the same cluster and clique reach one another over NVLink.

use crate::wire::GpuInfo;

/// Words for the state of a GPU's registration in a fabric of NVLinks.
pub const FABRIC_STATES: [&str; 5] = ["not_started", "in_progress", "completed", "failed", "unknown"];

impl GpuInfo {
    /// The name of its NVLink domain, as Kubernetes labels have it: UUID of the cluster, a dot and the clique.
    #[must_use]
    pub fn nvlink_domain(&self) -> Option<String> {
        let clique = self.fabric_clique_id.filter(|_| !self.fabric_cluster_uuid.is_empty())?;
        Some(format!("{}.{clique}", self.fabric_cluster_uuid))
    }

    /// Whether what it says of a fabric has the form that agents give it.
    #[must_use]
    pub fn is_fabric_plausible(&self) -> bool {
        let uuid = self.fabric_cluster_uuid.as_bytes();
        let is_dash = |place: usize| [8, 13, 18, 23].contains(&place);
        let fits = |(place, byte): (usize, &u8)| match is_dash(place) {
            true => *byte == b'-',
            false => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        };
        let is_uuid = uuid.len() == 36 && uuid.iter().enumerate().all(fits);
        let state = self.fabric_state.as_str();
        (state.is_empty() || FABRIC_STATES.contains(&state))
            && if uuid.is_empty() {
                self.fabric_clique_id.is_none()
            } else {
                is_uuid && self.fabric_clique_id.is_some()
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_cluster_and_a_clique() {
        let gpu = |cluster: &str, clique, state: &str| GpuInfo {
            fabric_cluster_uuid: cluster.to_owned(),
            fabric_clique_id: clique,
            fabric_state: state.to_owned(),
            ..GpuInfo::default()
        };
        let uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(gpu(uuid, Some(3), "completed").nvlink_domain(), Some(format!("{uuid}.3")));
        assert_eq!([gpu("", Some(3), ""), gpu(uuid, None, "")].map(|gpu| gpu.nvlink_domain()), [None, None]);
        let good = [gpu(uuid, Some(0), "completed"), gpu("", None, "in_progress"), gpu("", None, "")];
        assert!(good.iter().all(GpuInfo::is_fabric_plausible));
        let upper = uuid.to_uppercase();
        let bad =
            [gpu(uuid, None, ""), gpu("", Some(0), ""), gpu(&upper, Some(0), ""), gpu("", None, "done")];
        assert!(!bad.iter().any(GpuInfo::is_fabric_plausible));
        assert!(!gpu(&uuid.replace("-", "0"), Some(0), "").is_fabric_plausible());
    }
}
