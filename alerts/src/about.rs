//! What the rows of a rule are: their labels, where names of both ends and jobs come from, where the dashboard is.

use serde::Deserialize;

/// Contributors of a link that are named.
pub const CONTRIBUTORS_NAMED: u32 = 4;

/// A contributor with less of a link's bytes is no cause, per cent.
pub const LEAST_PERCENT: u32 = 5;

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A direction of an InfiniBand link by a port. SQL: `port_id, remote_port_id, value`; a remote port of NULL is
    /// the one that the port has now.
    Port,
    /// An NVLink. SQL: `gpu_id, link, value`.
    Nvlink,
    /// A GPU. SQL: `gpu_id, value`.
    Gpu,
    /// A switch or adapter. SQL: `ib_node_id, value`.
    FabricNode,
    /// A daemon, or a part of one. SQL: `instance, source, value`.
    Daemon,
    /// The whole installation. SQL: `value`.
    Site,
}

impl About {
    /// Labels that say which thing it is, in Prometheus.
    #[must_use]
    pub fn key(self) -> &'static [&'static str] {
        match self {
            About::Port => &["instance", "guid", "port"],
            About::Nvlink => &["instance", "gpu", "link"],
            About::Gpu => &["instance", "gpu"],
            About::FabricNode => &["instance", "guid"],
            About::Daemon => &["instance", "source"],
            About::Site => &[],
        }
    }

    /// Labels with names, which a recorded series has for it.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            About::Port => &["node", "uplink", "uplink_guid", "uplink_port"],
            About::Nvlink => &["node", "uplink"],
            About::Gpu | About::FabricNode => &["node"],
            About::Daemon | About::Site => &[],
        }
    }

    /// The recorded series with the names.
    #[must_use]
    pub fn ends(self) -> Option<&'static str> {
        match self {
            About::Port => Some("guid_port:infiniband_link_ends:info"),
            About::Nvlink => Some("gpu_link:throughline_nvlink_ends:info"),
            _ => None,
        }
    }

    /// What `{ends}` of a text is.
    #[must_use]
    pub fn ends_text(self) -> &'static str {
        match self {
            About::Port => "{node} port {port} to {uplink} port {uplink_port}",
            About::Nvlink => "{node} link {link} to {uplink}",
            _ => "{node}",
        }
    }

    /// The dashboard that shows it, with its variables. `{node_guid}` is the GUID of the node at the sending end.
    #[must_use]
    pub fn dashboard(self) -> &'static str {
        match self {
            About::Port => "/d/throughline-link?var-guid={node_guid}&var-port={port}",
            About::Nvlink | About::Gpu => "/d/throughline-node?var-node={instance}",
            About::FabricNode => "/d/throughline-fabric",
            About::Daemon | About::Site => "/d/throughline-health",
        }
    }

    /// PromQL of the jobs now, for `printf` with labels of the alert; `None` where no job has to do with it.
    #[must_use]
    pub fn jobs(self) -> Option<(&'static str, &'static [&'static str])> {
        // Agents of nodes that are gone report nothing any more: their last report holds.
        const OF_NODE: &str = "max by (job_key) (last_over_time(throughline_job_info{instance='%s'}[10m]))";
        // Of the adapter at an end; of a cable between switches, of the hosts at these switches. Hosts know the node
        // GUIDs of their adapters, series of the fabric have the GUIDs of their ports.
        const OF_PORT: &str = "max by (job_key) (throughline_job_info and on (instance) (\
            (node_infiniband_info and on (node_guid) last_over_time(infiniband_hca_uplink_info{guid=~'%[1]s|%[2]s'}[1d])) or \
            (node_infiniband_info and on (node_guid) infiniband_hca_uplink_info{uplink_guid=~'%[1]s|%[2]s'}) \
            unless on () last_over_time(infiniband_hca_uplink_info{guid=~'%[1]s|%[2]s'}[1d])))";
        const OF_ADAPTER: &str = "max by (job_key) (last_over_time(throughline_job_info[10m]) and on (instance) \
            last_over_time(node_infiniband_info{node_guid='%s'}[10m]))";
        match self {
            About::Port => Some((OF_PORT, &["guid", "uplink_guid"])),
            About::Nvlink | About::Gpu | About::Daemon => Some((OF_NODE, &["instance"])),
            About::FabricNode => Some((OF_ADAPTER, &["guid"])),
            About::Site => None,
        }
    }

    /// PromQL of the contributors of a link in per cent of its bytes, the largest first, for `printf` with labels of the alert.
    /// What is smaller than [`LEAST_PERCENT`] is no cause. The label job is exported_job where the scrape has one of its
    /// own and honor_labels is not set.
    #[must_use]
    pub fn contributors() -> (String, &'static [&'static str]) {
        let of = |metric: &str, by: &str| {
            let grown = format!(
                "increase(throughline_link_{metric}transmit_bytes_total{{guid='%[1]s', port='%[2]s'}}[5m])"
            );
            if by.is_empty() { format!("max({grown})") } else { format!("max by ({by}) ({grown})") }
        };
        let (jobs, others) = (
            of("job_", "operation, job, exported_job, user, known"),
            of("unmonitored_", "contributor, name, known"),
        );
        let (named, least) = (CONTRIBUTORS_NAMED, LEAST_PERCENT);
        let query = format!(
            "sort_desc(topk({named}, round(100 * ({jobs} or {others}) / on () group_left () {}) >= {least}))",
            of("", "")
        );
        (query, &["guid", "port"])
    }

    /// Recorded series with names: name and expression.
    #[must_use]
    pub fn records(self) -> &'static [(&'static str, &'static str)] {
        match self {
            About::Port => &PORT_RECORDS,
            About::Nvlink => &NVLINK_RECORDS,
            _ => &[],
        }
    }
}

const PORT_RECORDS: [(&str, &str); 3] = [
    // Both ends of each cable by one set of labels: `node` sends, `uplink` receives.
    (
        "guid_port:infiniband_switch_link_ends:info",
        "max by (instance, guid, port, node, uplink, uplink_guid, uplink_port) (
  label_replace(infiniband_switch_uplink_info, \"node\", \"$1\", \"switch\", \"(.*)\")
)",
    ),
    (
        "guid_port:infiniband_link_ends:info",
        "guid_port:infiniband_switch_link_ends:info
or
max by (instance, guid, port, node, uplink, uplink_guid, uplink_port) (
  label_replace(infiniband_hca_uplink_info, \"node\", \"$1\", \"hca\", \"(.*)\")
)",
    ),
    (
        "guid:infiniband_node:info",
        "max by (instance, guid, node) (
  label_replace(infiniband_switch_info, \"node\", \"$1\", \"switch\", \"(.*)\")
  or
  label_replace(
    label_replace(infiniband_hca_info, \"node\", \"$1\", \"hca\", \"(.*)\"),
    \"guid\", \"$1\", \"node_guid\", \"(.+)\"
  )
)",
    ),
];

const NVLINK_RECORDS: [(&str, &str); 4] = [
    (
        "instance_gpu:throughline_gpu_names:info",
        "max by (instance, gpu, node) (label_join(throughline_gpu_info, \"node\", \" GPU \", \"instance\", \"index\"))",
    ),
    // The other end is a link of another GPU, maybe of another node, or a switch, which has no name.
    (
        "gpu_link:throughline_nvlink_ends:info",
        "max by (instance, gpu, link, node, uplink) (
  (
    label_join(
      throughline_nvlink_info
        * on (remote_gpu) group_left (uplink)
          max by (remote_gpu, uplink) (
            label_replace(
              label_replace(instance_gpu:throughline_gpu_names:info, \"remote_gpu\", \"$1\", \"gpu\", \"(.*)\"),
              \"uplink\", \"$1\", \"node\", \"(.*)\")),
      \"uplink\", \" link \", \"uplink\", \"remote_link\")
    or on (instance, gpu, link)
    label_replace(throughline_nvlink_info, \"uplink\", \"$1\", \"remote_type\", \"(.*)\")
  )
  * on (instance, gpu) group_left (node) instance_gpu:throughline_gpu_names:info
)",
    ),
    // What is there, with names: what alerts on losses look back at.
    (
        "gpu_link:throughline_nvlink_up:info",
        "(throughline_nvlink_up > 0) * on (instance, gpu, link) group_left (node, uplink) gpu_link:throughline_nvlink_ends:info",
    ),
    (
        "instance_gpu:throughline_gpu:info",
        "group by (instance, gpu) (throughline_nvlink_up or throughline_pcie_transmit_bytes_total)
  * on (instance, gpu) group_left (node) instance_gpu:throughline_gpu_names:info",
    ),
];
