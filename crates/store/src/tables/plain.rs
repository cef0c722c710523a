//! The entries of plain tables, and how long their rows stay.

use super::entry::{SiteEstimate, plain};
use super::site::{ALL_VALUES, JOBS_A_YEAR};
use super::{PlainRetention, StoredTable};

use PlainRetention::{Bounded, Done, Forever, Job, Rank, Replaced};

const NONE: SiteEstimate = |_| 0.0;

/// What a new state of a thing takes, and how many it has in a year: of nodes and GPUs one a boot, of ports one each time that a link
/// comes up or goes down.
const STATE_BYTES: f64 = 300.0;
const STATES_A_YEAR: f64 = 24.0;

/// A row of a table of keys, with its indexes. In the first year all things are new.
const KEY_BYTES: f64 = 200.0;

/// Metrics of a GPU that a site chooses; most choose none, and 32 are the most at a time.
const CHOSEN_METRICS: f64 = 10.0;

const KEY: PlainRetention = Forever("rows elsewhere have its number");
const STATE_OF_ITS_TIME: PlainRetention = Forever("what is older is shown with the states of its time");
const WITH_JOB: PlainRetention = Job("job_id");
const WITH_ROWS: PlainRetention = Rank("job_id");

/// A rank's final totals of five operations, with what its claim said (`crates/store/tests/all/finals.rs`).
const RANK_FINAL: f64 = 78.0;

/// Jobs of a site in a year.
fn jobs(rows_bytes: f64, nodes: f64) -> f64 {
    nodes * JOBS_A_YEAR * rows_bytes
}

/// Plain tables.
pub(super) const PLAIN_TABLES: [StoredTable; 61] = [
    plain("fabric", &["id"], &["ib_nodes"], KEY, |s| s.fabrics() * KEY_BYTES),
    plain("fabric_attribute", &["fabric_id", "valid_from"], &["ib_nodes"], STATE_OF_ITS_TIME, |s| {
        s.fabrics() * STATES_A_YEAR * STATE_BYTES
    }),
    plain("node_key", &["id"], &["nodes"], KEY, |s| s.nodes() * KEY_BYTES),
    plain("gpu_key", &["id"], &["gpus"], KEY, |s| s.gpus() * KEY_BYTES),
    plain("gpu_metric_key", &["id"], &["gpu_metrics"], KEY, |s| s.gpus() * CHOSEN_METRICS * KEY_BYTES),
    plain("host_port_key", &["id"], &["host_ports"], KEY, |s| s.host_ports() * KEY_BYTES),
    plain("ib_node_key", &["id"], &["ib_nodes"], KEY, |s| s.nodes() * KEY_BYTES),
    plain("ib_port_key", &["id"], &["ib_nodes"], KEY, |s| s.ports() * KEY_BYTES),
    plain(
        "mpi_cell_key",
        &["id"],
        &["mpi_rank_rows", "mpi_node_cells"],
        Bounded("3 days after the last row with its number"),
        NONE,
    ),
    plain("self_stat_names", &["id"], &[], Bounded("3 days after the last row with its number"), NONE),
    plain("node", &["node_id", "valid_from"], &["nodes"], STATE_OF_ITS_TIME, |s| {
        s.nodes() * STATES_A_YEAR * STATE_BYTES
    }),
    plain("gpu", &["gpu_id", "valid_from"], &["gpus", "gpu_survey_marks"], STATE_OF_ITS_TIME, |s| {
        s.gpus() * STATES_A_YEAR * STATE_BYTES
    }),
    plain(
        "gpu_link",
        &["gpu_id", "link", "valid_from"],
        &["gpu_link_infos", "gpu_survey_marks"],
        STATE_OF_ITS_TIME,
        |s| s.gpus() * s.links() * STATES_A_YEAR * STATE_BYTES,
    ),
    plain("device_claim", &["kind", "name", "node_id"], &["gpus", "nodes", "host_ports"], Replaced, NONE),
    plain(
        "ib_node",
        &["ib_node_id", "valid_from"],
        &["ib_nodes", "ib_topology_marks"],
        STATE_OF_ITS_TIME,
        |s| s.nodes() * STATES_A_YEAR * STATE_BYTES,
    ),
    plain(
        "ib_port",
        &["port_id", "valid_from"],
        &["ib_nodes", "ib_topology_marks"],
        STATE_OF_ITS_TIME,
        |s| s.ports() * STATES_A_YEAR * STATE_BYTES,
    ),
    plain(
        "ib_link",
        &["port_a_id", "port_b_id", "valid_from"],
        &["ib_nodes", "ib_topology_marks"],
        STATE_OF_ITS_TIME,
        |s| s.ports() / 2.0 * STATES_A_YEAR * STATE_BYTES,
    ),
    plain("ib_lft", &["ib_node_id", "valid_from"], &["ib_nodes"], STATE_OF_ITS_TIME, |s| {
        // A switch has some forty ports, and its table two bytes a node: each time that the subnet manager routes anew.
        s.ports() / 40.0 * STATES_A_YEAR * (STATE_BYTES + 2.0 * s.nodes())
    }),
    plain("ib_mft", &["ib_node_id", "valid_from"], &["ib_multicast_tables"], STATE_OF_ITS_TIME, |s| {
        s.ports() / 40.0 * STATES_A_YEAR * STATE_BYTES
    }),
    plain(
        "ib_multicast_group",
        &["fabric_id", "mgid", "valid_from"],
        &["ib_multicast_groups", "ib_multicast_marks"],
        STATE_OF_ITS_TIME,
        |s| s.fabrics() * 10.0 * STATES_A_YEAR * STATE_BYTES,
    ),
    plain("run", &["id"], &["jobs"], Job("id"), |s| jobs(700.0, s.nodes())),
    plain("run_alias", &["key"], &["jobs"], WITH_JOB, |s| jobs(200.0, s.nodes())),
    plain("run_claim", &["job_id", "node_id"], &["jobs"], WITH_JOB, |s| jobs(400.0, s.nodes())),
    plain("rank_claim", &["job_id", "rank", "start_time", "node_id"], &["job_ranks"], WITH_ROWS, |s| {
        s.ranks() * JOBS_A_YEAR * 450.0
    }),
    plain(
        "rank_gpu",
        &["job_id", "rank", "node_id", "start_time", "gpu_id", "partition_id", "evidence"],
        &["job_ranks"],
        WITH_ROWS,
        // Two rows of a rank that is on a GPU: the driver lists it, and it has the device open.
        |s| s.ranks() * JOBS_A_YEAR * 2.0 * 250.0,
    ),
    plain("job_comm", &["job_id", "rank", "epoch", "library", "comm"], &["job_comms"], WITH_ROWS, NONE),
    plain("job_setting", &["job_id", "name", "value", "node_id"], &["job_settings"], WITH_JOB, |s| {
        jobs(2400.0, s.nodes())
    }),
    plain("job_judgement", &["job_id"], &[], WITH_JOB, |s| jobs(6000.0, s.nodes())),
    plain("job_verdict", &["job_id", "kind", "subject"], &[], WITH_JOB, |s| jobs(1800.0, s.nodes())),
    plain("job_final", &["job_id"], &[], WITH_JOB, |s| jobs(1300.0, s.nodes())),
    plain("job_node_final", &["job_id", "place"], &[], WITH_JOB, |s| s.ranks() * JOBS_A_YEAR * RANK_FINAL),
    plain("job_final_wanted", &["job_id"], &[], Done, NONE),
    plain("report_post", &["job_id"], &[], WITH_JOB, NONE),
    plain(
        "mpi_open_call",
        &["job_id", "rank", "library", "thread", "node_id"],
        &["mpi_open_calls"],
        WITH_ROWS,
        |s| s.ranks() * JOBS_A_YEAR * 250.0,
    ),
    plain("mpi_rank_scheduling", &["job_id", "rank", "epoch"], &["mpi_scheduling"], WITH_ROWS, |s| {
        s.ranks() * JOBS_A_YEAR * 340.0
    }),
    plain("row_rules", &["instance", "source", "valid_from"], &["coverage"], STATE_OF_ITS_TIME, |s| {
        s.nodes() * STATES_A_YEAR * KEY_BYTES
    }),
    plain("self_stat_series", &["name", "source", "label", "instance"], &["self_stats"], KEY, |s| {
        s.nodes() * ALL_VALUES * KEY_BYTES
    }),
    plain("detail_request", &["id"], &[], Bounded("30 days"), NONE),
    plain("detail_request_node", &["request_id", "node_id"], &[], Bounded("30 days"), NONE),
    plain("batch_ledger", &["spool_id"], &[], Forever("a batch that comes again is to be known"), |s| {
        2.0 * s.nodes() * KEY_BYTES
    }),
    plain(
        "batch_quarantine",
        &["spool_id", "sequence"],
        &[],
        Bounded("the newest 1,000, at most 256 MiB"),
        NONE,
    ),
    plain(
        "record_quarantine",
        &["day", "sender", "reason", "kind"],
        &[],
        Bounded("30 days, at most 10,000"),
        NONE,
    ),
    plain("node_bar", &["id"], &[], Forever("people bar nodes seldom"), |s| s.nodes() * 0.1 * KEY_BYTES),
    plain("node_certificate", &["node", "serial"], &[], Bounded("400 days"), |s| s.nodes() * 4.0 * KEY_BYTES),
    plain("sender_clock", &["sender_id"], &[], Replaced, NONE),
    plain("clock_span", &["sender_id", "span"], &[], Bounded("the newest 1,024 of a sender"), |s| {
        s.nodes() * STATES_A_YEAR * KEY_BYTES
    }),
    plain("server_clock", &["server"], &[], Replaced, NONE),
    plain("crawler_term", &["id"], &[], Bounded("the newest 1,000 of a fabric"), NONE),
    plain("clock_check", &["one"], &[], Replaced, NONE),
    plain("retention_policy", &["hypertable"], &[], Replaced, NONE),
    plain("export_target", &["id"], &[], Replaced, NONE),
    plain("export_late", &["id"], &[], Done, NONE),
    plain("minute_state", &["one"], &[], Replaced, NONE),
    plain("minute_late", &["kind", "id", "since"], &[], Done, NONE),
    plain("block_wanted", &["time", "kind", "id"], &[], Done, NONE),
    plain("packed_state", &["readings"], &[], Replaced, NONE),
    plain("link_share_state", &["one"], &[], Replaced, NONE),
    plain("link_share_late", &["time"], &[], Done, NONE),
    plain("thinned_chunk", &["chunk"], &[], Bounded("as long as its chunk"), NONE),
    plain("schema_objects", &["name"], &[], Replaced, NONE),
    plain("schema_migrations", &["version"], &[], Replaced, NONE),
];
