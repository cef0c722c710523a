//! A site in numbers, and what rows and bytes come of it: what entries of `list` are made of.
//!
//! Bytes of a row are measured, with indexes and TOAST: `benches/row-bytes.sh` unless the entry names another source, and those of thinned
//! rows by `crates/store/tests/all/thinned_sizes.rs`. Rows a second are those of a busy site at default settings: every port, link and rank
//! moves data all the time. An idle one has fewer, because senders leave out rows of counters that stand still.

/// What is counted of a site to size its database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Nodes with an agent.
    pub nodes: u64,
    /// MPI ranks that run on each of them.
    pub ranks_per_node: u64,
    /// Ports of the fabric with a cable, both ends of each.
    pub ports: u64,
    /// Adapter ports of all nodes that the nodes read themselves.
    pub host_ports: u64,
    /// GPUs of all nodes.
    pub gpus: u64,
    /// NVLinks of each GPU.
    pub links_per_gpu: u64,
    /// Seconds between two readings of a fabric port: `[sweep] interval_seconds` of fabric.toml.
    pub port_seconds: f64,
    /// Seconds between two readings of a node's links: `interval_seconds` of agent.toml.
    pub node_seconds: f64,
}

impl Default for Site {
    /// Nothing, read at the default intervals of the daemons.
    fn default() -> Self {
        Self {
            nodes: 0,
            ranks_per_node: 0,
            ports: 0,
            host_ports: 0,
            gpus: 0,
            links_per_gpu: 0,
            port_seconds: 5.0,
            node_seconds: 1.0,
        }
    }
}

// Figures for people: a site has far fewer than 2^53 of anything.
#[allow(clippy::cast_precision_loss)]
impl Site {
    /// The cluster of the papers, with ports read each second.
    #[cfg(test)]
    pub(crate) fn papers() -> Self {
        Self {
            nodes: 1428,
            ranks_per_node: 32,
            ports: 4830,
            host_ports: 1428,
            gpus: 640,
            links_per_gpu: 6,
            port_seconds: 1.0,
            ..Self::default()
        }
    }

    pub(super) fn ranks(&self) -> f64 {
        self.nodes as f64 * self.ranks_per_node as f64
    }

    pub(super) fn nodes(&self) -> f64 {
        self.nodes as f64
    }

    pub(super) fn ranks_of_node(&self) -> f64 {
        self.ranks_per_node as f64
    }

    pub(super) fn ports(&self) -> f64 {
        self.ports as f64
    }

    pub(super) fn host_ports(&self) -> f64 {
        self.host_ports as f64
    }

    pub(super) fn gpus(&self) -> f64 {
        self.gpus as f64
    }

    /// Nodes with GPUs.
    pub(super) fn gpu_nodes(&self) -> f64 {
        (self.gpus() / GPUS_PER_NODE).ceil().min(self.nodes())
    }

    pub(super) fn links(&self) -> f64 {
        self.links_per_gpu as f64
    }

    /// Fabrics with a crawler.
    pub(super) fn fabrics(&self) -> f64 {
        if self.ports > 0 { 1.0 } else { 0.0 }
    }

    /// Nodes that run MPI.
    pub(super) fn mpi_nodes(&self) -> f64 {
        if self.ranks_per_node > 0 { self.nodes() } else { 0.0 }
    }
}

/// `[mpi] fold_seconds` and `rank_later_seconds` of agent.toml: in a busy site most ranks have run for longer than ten minutes.
pub(super) const FOLD_SECONDS: f64 = 10.0;
const RANK_SECONDS: f64 = 300.0;

/// Rows that a rank has in its first minute beside these (`FIRST_ROWS_NANOSECONDS` of the agent's fold/rank.rs).
const FIRST_ROWS: f64 = 5.0;

/// Rows a second of ranks, which begin as often as a node has jobs.
pub(super) fn rank_rows(site: &Site) -> f64 {
    site.ranks() * (1.0 / RANK_SECONDS + FIRST_ROWS * JOBS_A_YEAR / (365.0 * 86_400.0))
}

/// GPUs of a node that has some.
const GPUS_PER_NODE: f64 = 4.0;

/// Peers of a rank to which it sends in each second: a stencil in two dimensions.
pub(super) const PEERS_PER_RANK: f64 = 4.0;

/// `[mpi] traffic_cells_per_second` of agent.toml.
pub(super) const TRAFFIC_CELLS_PER_NODE: f64 = 200.0;

/// Contributors of a direction in a window, `other` and `rest` included: two to ten (docs/LINKS.md).
pub(super) const CONTRIBUTORS: f64 = 4.0;

/// Seconds of a window of shares.
pub(super) const WINDOW_SECONDS: f64 = 10.0;

/// Seconds from one row of rounds of a source to the next, while nothing changes: throughline-agent's `rounds`.
pub(super) const ROUNDS_SECONDS: f64 = 30.0;

/// Seconds from one row of an agent about itself to the next: all of its metrics, or half a minute later those that changed.
pub(super) const OWN_SECONDS: f64 = 30.0;

/// Values in such a row on average: 45 and 9 were counted of an agent without adapters and GPUs.
pub(super) const OWN_VALUES: f64 = 27.0;

/// Values of a row that has all of them.
pub(super) const ALL_VALUES: f64 = 45.0;

/// And of the totals of MPI: six of each of five operations.
pub(super) const MPI_TOTALS: f64 = 30.0;

/// Bytes of such a row of a thinned chunk but for its values, as names are in a list.
pub(super) const LISTED_ROW: f64 = 223.0;

/// Bytes of an hour read each second, as half of the time is a burst (`crates/store/tests/all/block_sizes.rs`): seven counters of a port
/// are busy, two of a link; errors stand still, and a link's health is in one of ten readings.
pub(super) const PORT_HOUR: f64 = 52_000.0;
pub(super) const PCIE_HOUR: f64 = 31_000.0;
pub(super) const NVLINK_HOURS: (f64, f64) = (147_500.0, 420_000.0);

/// Seconds of a block.
pub(super) const BLOCK_SECONDS: f64 = 3600.0;

/// Bytes of a row of arrays, from those measured of a GPU with 6 and with 18 links.
pub(super) const fn by_links(with_6: f64, with_18: f64, links: f64) -> f64 {
    with_6 + (with_18 - with_6) / 12.0 * (links - 6.0)
}

/// Bytes of a row of peers, from those measured of 4 and of 128.
pub(super) const fn by_peers(with_4: f64, with_128: f64, peers: f64) -> f64 {
    with_4 + (with_128 - with_4) / 124.0 * (peers - 4.0)
}

/// Bytes of a row of self-metrics, from those measured of 9 and of 75 values.
pub(super) const fn by_values(with_9: f64, with_75: f64, values: f64) -> f64 {
    with_9 + (with_75 - with_9) / 66.0 * (values - 9.0)
}

/// Peers in a row of traffic of a node's ranks.
pub(super) fn traffic_cells(site: &Site) -> f64 {
    site.ranks_of_node() * PEERS_PER_RANK
}

/// Values in a row of an agent about itself.
pub(super) fn own_values(site: &Site) -> f64 {
    OWN_VALUES + if site.mpi_nodes() > 0.0 { MPI_TOTALS } else { 0.0 }
}

/// Jobs of a node in a year, four a day, where each has one node.
pub(super) const JOBS_A_YEAR: f64 = 4.0 * 365.0;
