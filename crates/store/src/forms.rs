//! In which form each table holds its rows, how long, and what that takes: one row of [`FORMS`] for each hypertable. `db size`
//! predicts from it, `db status` compares it with what is there, and [`crate::Retention`] reads how long from it.
//!
//! Bytes of a row are measured, with indexes and TOAST: `benches/row-bytes.sh` unless the entry names another source, and those of thinned
//! rows by `crates/store/tests/all/thinned_sizes.rs`. Rows a second are those of a busy site at default settings: every port, link and rank
//! moves data all the time. An idle one has fewer, because senders leave out rows of counters that stand still.

use throughline_sample::catalogue::HYPERTABLES;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One reading or record, written by the collector.
    Row,
    /// What upkeep makes of a window or minute of rows.
    Rollup,
    /// What upkeep encodes of many readings into one row.
    Packed,
}

impl Form {
    /// Its name for people and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Row => "row",
            Form::Rollup => "rollup",
            Form::Packed => "packed",
        }
    }
}

/// How long rows are retained, where a table has no time of its own in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// `retention.default_seconds`.
    Readings,
    /// `retention.minutes_seconds`.
    Minutes,
    /// As long as readings are rows, at most a day, or `retention.default_seconds` where that is less: minutes are made of them, which
    /// stay.
    Windows,
    /// `retention.detail_seconds`.
    Detail,
    /// As the rows of another table, without which these are not used.
    With(&'static str),
}

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

    fn ranks(&self) -> f64 {
        self.nodes as f64 * self.ranks_per_node as f64
    }

    fn nodes(&self) -> f64 {
        self.nodes as f64
    }

    fn ranks_of_node(&self) -> f64 {
        self.ranks_per_node as f64
    }

    fn ports(&self) -> f64 {
        self.ports as f64
    }

    fn host_ports(&self) -> f64 {
        self.host_ports as f64
    }

    fn gpus(&self) -> f64 {
        self.gpus as f64
    }

    /// Nodes with GPUs.
    fn gpu_nodes(&self) -> f64 {
        (self.gpus() / GPUS_PER_NODE).ceil().min(self.nodes())
    }

    pub(crate) fn links(&self) -> f64 {
        self.links_per_gpu as f64
    }

    /// Fabrics with a crawler.
    fn fabrics(&self) -> f64 {
        if self.ports > 0 { 1.0 } else { 0.0 }
    }

    /// Nodes that run MPI.
    fn mpi_nodes(&self) -> f64 {
        if self.ranks_per_node > 0 { self.nodes() } else { 0.0 }
    }
}

/// How a table holds its rows.
#[derive(Clone, Copy, Debug)]
pub struct TableForm {
    /// The hypertable.
    pub table: &'static str,
    /// What a row is.
    pub form: Form,
    /// How long.
    pub keep: Keep,
    /// Hours of a chunk: retention removes whole ones, so rows stay up to so much longer.
    pub chunk_hours: u32,
    /// Rows a second.
    pub rows: fn(&Site) -> f64,
    /// Bytes of a row on disk.
    pub row_bytes: fn(&Site) -> f64,
    /// What old chunks have, where they are thinned ([`crate::thin_chunks`]).
    pub thinned: Option<ThinnedForm>,
    /// What is assumed of the site, for people.
    pub assumes: &'static str,
}

/// What a table has of a time whose chunk is thinned.
#[derive(Clone, Copy, Debug)]
pub struct ThinnedForm {
    /// Rows of a second that are kept.
    pub rows: fn(&Site) -> f64,
    /// Bytes of such a row on disk.
    pub row_bytes: fn(&Site) -> f64,
}

/// `[mpi] fold_seconds` and `rank_later_seconds` of agent.toml: in a busy site most ranks have run for longer than ten minutes.
const FOLD_SECONDS: f64 = 10.0;
const RANK_SECONDS: f64 = 300.0;

/// GPUs of a node that has some.
const GPUS_PER_NODE: f64 = 4.0;

/// Peers of a rank to which it sends in each second: a stencil in two dimensions.
pub(crate) const PEERS_PER_RANK: f64 = 4.0;

/// `[mpi] traffic_cells_per_second` of agent.toml.
const TRAFFIC_CELLS_PER_NODE: f64 = 200.0;

/// Contributors of a direction in a window, `other` and `rest` included: two to ten (docs/LINKS.md).
const CONTRIBUTORS: f64 = 4.0;

/// Seconds of a window of shares.
const WINDOW_SECONDS: f64 = 10.0;

/// Seconds from one row of rounds of a source to the next, while nothing changes: throughline-agent's `rounds`.
const ROUNDS_SECONDS: f64 = 30.0;

/// Seconds from one row of an agent about itself to the next: all of its metrics, or half a minute later those that changed.
const OWN_SECONDS: f64 = 30.0;

/// Values in such a row on average, of those of an agent without adapters and GPUs, of which 45 and 9 were counted.
const OWN_VALUES: f64 = 27.0;

/// Values of a row that has all of them.
const ALL_VALUES: f64 = 45.0;

/// And of the totals of MPI: six of each of five operations.
const MPI_TOTALS: f64 = 30.0;

/// Bytes of such a row of a thinned chunk but for its values, as names are in a list.
const LISTED_ROW: f64 = 223.0;

/// Bytes of an hour read each second, as half of the time is a burst (`crates/store/tests/all/block_sizes.rs`): seven counters of a port
/// are busy, two of a link; errors stand still, and a link's health is in one of ten readings.
const PORT_HOUR: f64 = 52_000.0;
const PCIE_HOUR: f64 = 31_000.0;
const NVLINK_HOURS: (f64, f64) = (147_500.0, 420_000.0);

/// Seconds of a block.
const BLOCK_SECONDS: f64 = 3600.0;

/// Bytes of a row of arrays, of which those of a GPU with 6 and with 18 links were measured.
pub(crate) const fn by_links(with_6: f64, with_18: f64, links: f64) -> f64 {
    with_6 + (with_18 - with_6) / 12.0 * (links - 6.0)
}

/// Bytes of a row of peers, of which those of 4 and of 128 were measured.
pub(crate) const fn by_peers(with_4: f64, with_128: f64, peers: f64) -> f64 {
    with_4 + (with_128 - with_4) / 124.0 * (peers - 4.0)
}

/// Bytes of a row of self-metrics, of which those of 9 and of 75 values were measured.
pub(crate) const fn by_values(with_9: f64, with_75: f64, values: f64) -> f64 {
    with_9 + (with_75 - with_9) / 66.0 * (values - 9.0)
}

/// Peers in a row of traffic of a node's ranks.
pub(crate) fn traffic_cells(site: &Site) -> f64 {
    site.ranks_of_node() * PEERS_PER_RANK
}

/// Values in a row of an agent about itself.
pub(crate) fn own_values(site: &Site) -> f64 {
    OWN_VALUES + if site.mpi_nodes() > 0.0 { MPI_TOTALS } else { 0.0 }
}

const fn readings(table: &'static str, rows: fn(&Site) -> f64, row_bytes: fn(&Site) -> f64) -> TableForm {
    TableForm {
        table,
        form: Form::Row,
        keep: Keep::Readings,
        chunk_hours: 1,
        rows,
        row_bytes,
        thinned: None,
        assumes: "",
    }
}

impl TableForm {
    const fn assuming(self, assumes: &'static str) -> Self {
        Self { assumes, ..self }
    }

    const fn thinned_to(self, rows: fn(&Site) -> f64, row_bytes: fn(&Site) -> f64) -> Self {
        Self { thinned: Some(ThinnedForm { rows, row_bytes }), ..self }
    }

    const fn chunks_of(self, chunk_hours: u32) -> Self {
        Self { chunk_hours, ..self }
    }

    const fn minutes(self) -> Self {
        Self { form: Form::Rollup, keep: Keep::Minutes, chunk_hours: 24, ..self }
    }

    const fn blocks_of(self, table: &'static str) -> Self {
        Self { form: Form::Packed, keep: Keep::With(table), ..self }
    }

    const fn on_demand(self) -> Self {
        Self { keep: Keep::Detail, ..self }.assuming("only where requested")
    }

    /// The form of a table; `None` for one that is no hypertable of ours.
    pub fn of(table: &str) -> Option<&'static TableForm> {
        FORMS.iter().find(|form| form.table == table)
    }
}

const NONE: fn(&Site) -> f64 = |_| 0.0;
const OFF: &str = "off by default";

/// One entry for each hypertable, in the order of [`HYPERTABLES`]: a table without one does not compile.
pub static FORMS: [TableForm; HYPERTABLES.len()] = [
    readings("ib_port_counters", |s| s.ports() / s.port_seconds, |_| 293.0),
    readings("ib_port_lane_counters", NONE, |_| 202.0).assuming(OFF),
    readings("host_port_counters", |s| s.host_ports() / s.node_seconds, |_| 293.0),
    readings("nvlink_counters", |s| s.gpus() / s.node_seconds, |s| by_links(657.0, 1437.0, s.links()))
        .assuming("one library reads each link"),
    readings("gpu_pcie_counters", |s| s.gpus() / s.node_seconds, |_| 148.0),
    readings("gpu_pm_counters", NONE, |_| 220.0).assuming(OFF),
    readings("mpi_pvars", NONE, |_| 207.0).assuming(OFF),
    readings("mpi_regions", NONE, |_| 186.0).assuming("programs without annotations"),
    readings("mpi_region_paths", NONE, |_| 232.0).assuming("programs without annotations"),
    readings("mpi_sampled_calls", |s| s.mpi_nodes() / FOLD_SECONDS, |_| 640.0)
        .assuming("a node has one set of samples, of four calls a second")
        .thinned_to(|s| s.mpi_nodes() / 60.0, |_| 686.0),
    readings("mpi_rank_rows", |s| s.ranks() / RANK_SECONDS, |_| 400.0)
        .assuming("a rank has 10 cells and runs for hours")
        .thinned_to(|s| s.ranks() / 1800.0, |_| 406.0),
    readings("mpi_node_rows", |s| s.mpi_nodes() / FOLD_SECONDS, |_| 570.0)
        .assuming("a node's ranks have the same 10 cells")
        .thinned_to(|s| s.mpi_nodes() * 61.0 / 3600.0, |_| 582.0),
    readings(
        "mpi_node_traffic",
        |s| s.mpi_nodes() / (traffic_cells(s) / TRAFFIC_CELLS_PER_NODE).max(FOLD_SECONDS),
        |s| by_peers(366.0, 2725.0, traffic_cells(s)),
    )
    .assuming("a rank sends to 4 peers by the same operation in each 10 s")
    .thinned_to(|s| s.mpi_nodes() * 13.0 / 3600.0, |s| by_peers(366.0, 2725.0, traffic_cells(s))),
    readings("mpi_rank_peers", |s| s.ranks() / RANK_SECONDS, |_| by_peers(282.0, 2597.0, PEERS_PER_RANK))
        .assuming("a rank sends to 4 peers and runs for hours")
        .thinned_to(|s| s.ranks() / 1800.0, |_| by_peers(297.0, 2597.0, PEERS_PER_RANK)),
    readings("mpi_trace", NONE, |_| 0.0).assuming("only where requested"),
    readings("mpi_clock", NONE, |_| 0.0).assuming("only where requested"),
    readings("events", NONE, |_| 0.0).chunks_of(24).assuming("few"),
    readings(
        "coverage",
        |s| (s.nodes() + s.gpu_nodes()) / ROUNDS_SECONDS.max(s.node_seconds) + s.fabrics() / s.port_seconds,
        |_| 162.0,
    )
    .chunks_of(24)
    .assuming("a source of a node, another where it has GPUs, four, and one fabric, of which all can be read")
    .thinned_to(|s| (s.nodes() + s.gpu_nodes() + s.fabrics()) / 300.0, |_| 176.0),
    readings("self_stat_rows", |s| s.nodes() / OWN_SECONDS, |s| by_values(522.0, 2088.0, own_values(s)))
        .assuming("45 metrics of an agent about itself, of which 9 change, and totals of 5 MPI operations")
        .thinned_to(
            |s| s.nodes() / 240.0,
            |s| LISTED_ROW + 8.0 * (ALL_VALUES + if s.mpi_nodes() > 0.0 { MPI_TOTALS } else { 0.0 }),
        ),
    readings("ib_port_minutes", |s| s.ports() / 60.0, |_| 195.0).minutes(),
    readings("host_port_minutes", |s| s.host_ports() / 60.0, |_| 186.0).minutes(),
    readings("nvlink_minutes", |s| s.gpus() / 60.0, |s| by_links(718.0, 1453.0, s.links())).minutes(),
    readings("ib_port_blocks", |s| s.ports() / BLOCK_SECONDS, |s| PORT_HOUR / s.port_seconds)
        .blocks_of("ib_port_counters"),
    readings("host_port_blocks", |s| s.host_ports() / BLOCK_SECONDS, |s| PORT_HOUR / s.node_seconds)
        .blocks_of("host_port_counters"),
    readings(
        "nvlink_blocks",
        |s| s.gpus() / BLOCK_SECONDS,
        |s| by_links(NVLINK_HOURS.0, NVLINK_HOURS.1, s.links()) / s.node_seconds,
    )
    .blocks_of("nvlink_counters"),
    readings("gpu_pcie_blocks", |s| s.gpus() / BLOCK_SECONDS, |s| PCIE_HOUR / s.node_seconds)
        .blocks_of("gpu_pcie_counters"),
    TableForm {
        form: Form::Rollup,
        keep: Keep::Windows,
        ..readings("link_shares", |s| s.ports() * CONTRIBUTORS / WINDOW_SECONDS, |_| 182.0)
            .assuming("4 contributors on each port")
    },
    readings("link_share_minutes", |s| s.ports() * CONTRIBUTORS / 60.0, |_| 191.0)
        .minutes()
        .chunks_of(1)
        .assuming("4 contributors on each port, until they are packed"),
    readings("link_share_hours", |s| s.ports() / BLOCK_SECONDS, |_| 4282.0)
        .blocks_of("link_share_minutes")
        .chunks_of(24)
        .assuming("4 contributors on each port in each minute"),
    readings("detail_mpi_bins", NONE, |_| 14_600.0).on_demand(),
    readings("detail_mpi_peers", NONE, |_| 341.0).on_demand(),
    readings("detail_mpi_regions", NONE, |_| 0.0).on_demand(),
    readings("detail_mpi_pvars", NONE, |_| 0.0).on_demand(),
    readings("detail_host_ports", NONE, |_| 375.0).on_demand(),
    readings("detail_nvlink", NONE, |_| 1442.0).on_demand(),
    readings("detail_gpu_pcie", NONE, |_| 154.0).on_demand(),
    readings("detail_gpu_pm", NONE, |_| 0.0).on_demand(),
    readings("detail_ib_ports", NONE, |_| 375.0).on_demand(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hypertable_has_its_form_and_rows_that_are_predicted_have_a_size() {
        let site = Site {
            nodes: 10,
            ranks_per_node: 4,
            ports: 50,
            host_ports: 10,
            gpus: 40,
            links_per_gpu: 6,
            ..Site::default()
        };
        for (form, table) in FORMS.iter().zip(HYPERTABLES) {
            assert_eq!(form.table, table, "in the order of HYPERTABLES");
            let (rows, bytes) = ((form.rows)(&site), (form.row_bytes)(&site));
            assert!(rows >= 0.0 && (rows == 0.0 || bytes >= 20.0), "{table}: {rows} rows of {bytes}");
            assert_eq!((form.rows)(&Site::default()), 0.0, "{table} of an empty site");
            if let Keep::With(other) = form.keep {
                assert!(
                    matches!(TableForm::of(other).unwrap().keep, Keep::Readings | Keep::Minutes),
                    "{table}"
                );
            }
        }
        assert!((by_links(657.0, 1437.0, 12.0) - 1047.0).abs() < 1e-9);
    }

    #[test]
    fn a_site_of_1428_nodes_is_12_500_rows_a_second() {
        let site = Site::papers();
        let rows = |form: &TableForm| (form.rows)(&site);
        let all: Vec<_> = FORMS.iter().map(|form| (form.table, rows(form))).collect();
        let (from_senders, made): (Vec<_>, Vec<_>) = FORMS.iter().partition(|form| form.form == Form::Row);
        let sum = |forms: &[&TableForm]| forms.iter().map(|form| rows(form)).sum::<f64>();
        let bytes = |form: &&&TableForm| rows(form) * (form.row_bytes)(&site);
        println!("{:.0} rows a second from senders, {:.0} made of them", sum(&from_senders), sum(&made));
        // What MPI takes of a rank and day.
        let mpi: f64 =
            from_senders.iter().filter(|form| form.table.starts_with("mpi_")).map(|form| bytes(&form)).sum();
        println!("MPI: {:.2} MB a rank and day", mpi * 86_400.0 / site.ranks() / 1e6);
        assert!(sum(&from_senders) < 10_000.0 && sum(&from_senders) + sum(&made) < 12_500.0, "{all:?}");
        assert!(mpi * 86_400.0 / site.ranks() < 8e6);
    }
}
