//! Which GPUs and ports of its hosts a job uses: answers about a job have these and no others.

use std::collections::{BTreeMap, BTreeSet};
use throughline_query::job_gpus::{self, OwnGpus, RankGpu};
use throughline_query::jobs::Rank;

/// What is to be shown of hosts.
#[derive(Debug, Default)]
pub struct OwnDevices {
    gpus: BTreeMap<String, OwnGpus>,
    /// DEVICE/PORT, of hosts of whose ranks all ports are known.
    ports: BTreeMap<String, BTreeSet<String>>,
}

impl OwnDevices {
    /// All that hosts have.
    pub fn all() -> Self {
        Self::default()
    }

    /// What a job's ranks use; where that is not known of one of them, all of its host.
    pub fn of_job(ranks: &[Rank], gpus: &[RankGpu]) -> Self {
        let mut ports: BTreeMap<&str, Option<BTreeSet<String>>> = BTreeMap::new();
        for rank in ranks {
            let of_host = ports.entry(&rank.host).or_insert_with(|| Some(BTreeSet::new()));
            match &rank.ports {
                Some(used) => of_host.iter_mut().for_each(|of_host| of_host.extend(used.iter().cloned())),
                None => *of_host = None,
            }
        }
        let ports = ports.into_iter().filter_map(|(host, ports)| Some((host.to_owned(), ports?))).collect();
        Self { gpus: job_gpus::by_host(gpus), ports }
    }

    /// Whether a GPU is among them.
    pub fn has_gpu(&self, host: &str, uuid: &str) -> bool {
        self.gpus.get(host).is_none_or(|own| own.may_use(uuid))
    }

    /// Whether what is counted of a GPU may be others' as well.
    pub fn is_shared(&self, host: &str, uuid: &str) -> bool {
        self.gpus.get(host).is_some_and(|own| own.is_shared(uuid))
    }

    /// Whether a port is among them.
    pub fn has_port(&self, host: &str, device: &str, port: i32) -> bool {
        self.ports.get(host).is_none_or(|ports| ports.contains(&format!("{device}/{port}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_all_ranks_of_a_host_or_any() {
        let rank = |host: &str, ports: Option<&[&str]>| Rank {
            host: host.into(),
            ports: ports.map(|ports| ports.iter().map(|port| (*port).into()).collect()),
            ..Rank::default()
        };
        let ranks =
            [rank("n1", Some(&["a/1"])), rank("n1", Some(&[])), rank("n2", None), rank("n3", Some(&[]))];
        let own = OwnDevices::of_job(&ranks, &[]);
        assert_eq!(["a", "b"].map(|device| own.has_port("n1", device, 1)), [true, false]);
        assert_eq!(["n2", "n3", "n4"].map(|host| own.has_port(host, "a", 1)), [true, false, true]);
        assert!(own.has_gpu("n1", "GPU-0") && OwnDevices::all().has_port("n1", "a", 2));
    }
}
