//! What can be requested: each name that a daemon's page shows and the database keeps.

use super::infos::{self, Info};
use std::sync::LazyLock;
use throughline_sample::catalogue::{Kind, Metric, Table};
use throughline_store::counter_sql::has_saturation;

/// A name of Prometheus and where its samples are.
#[derive(Debug)]
pub struct Family {
    /// The name.
    pub name: String,
    pub(super) place: Place,
}

/// Where samples are.
#[derive(Debug)]
pub(super) enum Place {
    /// A column of a hypertable, one value or one array a row.
    Column { keys: &'static Keys, metric: &'static Metric },
    /// Rows of a hypertable that name a counter among those that stand at their end: 1.
    Saturated { keys: &'static Keys, metric: &'static Metric },
    /// Rows of `self_stats` by name.
    SelfMetric { metric: &'static Metric, name: String },
    /// Rows of the inventory: 1 while they are valid.
    Info(&'static Info),
}

/// How the series of a hypertable are found: its rows have the id of a key.
#[derive(Debug)]
pub(super) struct Keys {
    /// Column of the hypertable with the id.
    pub id: &'static str,
    /// SQL for the element of a row's array that a series is, counted from 0; `0` where rows have single values.
    pub element: &'static str,
    /// FROM and WHERE of the keys; the first column is `k.id`.
    pub from: &'static str,
    /// Labels and their SQL, ordered by name.
    pub labels: &'static [(&'static str, &'static str)],
    /// Several sources may read the same thing; rows of one are the series.
    pub has_sources: bool,
}

const PORT_LABELS: &[(&str, &str)] = &[("guid", "nk.guid"), ("instance", "s.name"), ("port", "k.port::text")];
const LANE_LABELS: &[(&str, &str)] =
    &[("guid", "nk.guid"), ("instance", "s.name"), ("lane", "l.lane::text"), ("port", "k.port::text")];

/// `guid` as the crawler's page has it: of a switch the node's, of an adapter's port its own, as it was last.
macro_rules! own_guid {
    () => {
        "coalesce((SELECT nullif(o.port_guid, '0x0000000000000000') FROM internal.ib_port o WHERE o.port_id = k.id \
         ORDER BY o.valid_from DESC LIMIT 1), nk.guid)"
    };
}

const HCA_PORT_LABELS: &[(&str, &str)] =
    &[("guid", own_guid!()), ("instance", "s.name"), ("port", "k.port::text")];
const HCA_LANE_LABELS: &[(&str, &str)] =
    &[("guid", own_guid!()), ("instance", "s.name"), ("lane", "l.lane::text"), ("port", "k.port::text")];

/// Ports of the fabric; its kind is what a node was last.
macro_rules! port_keys {
    ($comparison:literal, $labels:expr, $element:literal, $more:literal) => {
        Keys {
            id: "port_id",
            element: $element,
            from: concat!(
                "FROM internal.ib_port_key k JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id JOIN internal.fabric s ON s.id = nk.fabric_id \
                 LEFT JOIN internal.ib_node n ON n.ib_node_id = nk.id AND n.valid_to IS NULL ",
                $more,
                // Of those that are gone the last row is looked for, one by one.
                " WHERE coalesce(n.type, (SELECT g.type FROM internal.ib_node g WHERE g.ib_node_id = nk.id \
                 ORDER BY g.valid_from DESC LIMIT 1)) ",
                $comparison,
                " 'switch'"
            ),
            labels: $labels,
            has_sources: false,
        }
    };
}

static SWITCH_PORTS: Keys = port_keys!("=", PORT_LABELS, "0", "");
static HCA_PORTS: Keys = port_keys!("<>", HCA_PORT_LABELS, "0", "");
// Service levels and virtual lanes are numbered in 4 bits.
static SWITCH_LANES: Keys =
    port_keys!("=", LANE_LABELS, "l.lane", "CROSS JOIN generate_series(0, 15) AS l (lane)");
static HCA_LANES: Keys =
    port_keys!("<>", HCA_LANE_LABELS, "l.lane", "CROSS JOIN generate_series(0, 15) AS l (lane)");
static HOST_PORTS: Keys = Keys {
    id: "host_port_id",
    element: "0",
    from: "FROM internal.host_port_key k JOIN internal.node_key n ON n.id = k.node_id WHERE true",
    labels: &[("device", "k.device"), ("instance", "n.name"), ("port", "k.port::text")],
    has_sources: false,
};
static LINKS: Keys = Keys {
    id: "gpu_id",
    element: "l.link",
    from: "FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id JOIN (SELECT DISTINCT gpu_id, link FROM internal.gpu_link) l ON l.gpu_id = k.id \
           WHERE true",
    labels: &[("gpu", "k.uuid"), ("instance", "n.name"), ("link", "l.link::text")],
    has_sources: true,
};
static GPUS: Keys = Keys {
    id: "gpu_id",
    element: "0",
    from: "FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id WHERE true",
    labels: &[("gpu", "k.uuid"), ("instance", "n.name")],
    has_sources: true,
};
static GPU_METRICS: Keys = Keys {
    id: "gpu_metric_id",
    element: "0",
    from: "FROM internal.gpu_metric_key k JOIN internal.gpu_key g ON g.id = k.gpu_id JOIN internal.node_key n ON n.id = g.node_id WHERE true",
    labels: &[("gpu", "g.uuid"), ("instance", "n.name"), ("metric", "k.name")],
    has_sources: true,
};

/// The keys of a table under each of its prefixes, in their order.
fn keys_of(table: Table) -> Vec<&'static Keys> {
    match table {
        Table::IbPortCounters => vec![&SWITCH_PORTS, &HCA_PORTS],
        Table::IbPortLaneCounters => vec![&SWITCH_LANES, &HCA_LANES],
        Table::HostPortCounters => vec![&HOST_PORTS],
        Table::NvlinkCounters => vec![&LINKS],
        Table::GpuPcieCounters | Table::GpuPmCounters => vec![&GPUS],
        Table::GpuMetrics => vec![&GPU_METRICS],
        Table::MpiOps
        | Table::MpiPeers
        | Table::MpiRegions
        | Table::MpiRegionPaths
        | Table::MpiTraffic
        | Table::SelfStats => Vec::new(),
    }
}

impl Family {
    /// Whether its values only grow.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        match &self.place {
            Place::Column { metric, .. } | Place::SelfMetric { metric, .. } => metric.kind == Kind::Counter,
            Place::Saturated { .. } | Place::Info(_) => false,
        }
    }

    /// How its series are found, if they are those of a hypertable.
    pub(super) fn keys(&self) -> Option<&'static Keys> {
        match self.place {
            Place::Column { keys, .. } | Place::Saturated { keys, .. } => Some(keys),
            Place::SelfMetric { .. } | Place::Info(_) => None,
        }
    }

    /// Names of the labels besides the name itself, ordered.
    pub fn labels(&self) -> Vec<&'static str> {
        match &self.place {
            Place::Column { keys, .. } | Place::Saturated { keys, .. } => {
                keys.labels.iter().map(|(name, _)| *name).collect()
            }
            Place::SelfMetric { metric, .. } => {
                let own = self_metric_labels(metric).into_iter().map(|(name, _)| name);
                ["instance"].into_iter().chain(own).collect()
            }
            Place::Info(info) => info.labels.iter().map(|(name, _)| *name).collect(),
        }
    }
}

/// Labels of a self-metric and the columns of `self_stats` with their values, ordered by name. `instance` is before all of them.
pub(super) fn self_metric_labels(metric: &Metric) -> Vec<(&'static str, &'static str)> {
    let column = |name| if name == "source" { "source" } else { "label" };
    let mut labels: Vec<_> = metric.labels().map(|name| (name, column(name))).collect();
    labels.sort_unstable();
    labels
}

/// Everything that can be requested, ordered by name.
#[must_use]
pub fn families() -> &'static [Family] {
    static ALL: LazyLock<Vec<Family>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for table in Table::ALL {
            for (prefix, keys) in table.prometheus_prefixes().iter().zip(keys_of(table)) {
                all.extend(table.metrics().iter().map(|metric| Family {
                    name: metric.prometheus_name(prefix),
                    place: Place::Column { keys, metric },
                }));
                let full = table.metrics().iter().filter(|metric| has_saturation(metric));
                all.extend(full.map(|metric| Family {
                    name: metric.saturated_name(prefix),
                    place: Place::Saturated { keys, metric },
                }));
            }
        }
        for table in [Table::SelfStats, Table::MpiOps] {
            let prefix = table.prometheus_prefixes().first().copied().unwrap_or_default();
            all.extend(table.metrics().iter().map(|metric| Family {
                name: metric.prometheus_name(prefix),
                place: Place::SelfMetric { metric, name: metric.self_metric_name() },
            }));
        }
        all.extend(
            infos::ALL.iter().map(|info| Family { name: info.name.to_owned(), place: Place::Info(info) }),
        );
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once_and_in_order() {
        let names: Vec<&str> = families().iter().map(|family| family.name.as_str()).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        for name in [
            "infiniband_switch_port_transmit_data_bytes_total",
            "infiniband_hca_port_transmit_data_bytes_total",
            "node_infiniband_port_data_transmitted_bytes_total",
            "throughline_nvlink_transmit_bytes_total",
            "throughline_pcie_receive_bytes_total",
            "throughline_source_up",
            "infiniband_switch_uplink_info",
            "throughline_mpi_calls_total",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn labels_are_the_catalogues_and_the_instance_in_order() {
        for family in families() {
            let labels = family.labels();
            assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "{}", family.name);
            assert!(labels.contains(&"instance"), "{}", family.name);
            if let Place::Column { metric, .. } | Place::SelfMetric { metric, .. } = &family.place {
                let own: Vec<&str> = metric.labels().collect();
                assert!(own.iter().all(|label| labels.contains(label)), "{}", family.name);
                assert_eq!(labels.len(), own.len() + 1, "{}", family.name);
            }
        }
    }
}
