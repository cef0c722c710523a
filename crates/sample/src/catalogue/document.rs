//! The catalogue as a document: `docs/METRICS.md`.

use super::exporter::{EXPORTER_SERIES, SWITCH_POSSIBLE_RATE};
use super::infiniband::{HCA_UPLINK_INFO, HCA_UPLINK_LABELS, SWITCH_UPLINK_INFO, SWITCH_UPLINK_LABELS};
use super::job_series::{ACCOUNT_SECONDS, OPEN_CALL_SERIES};
use super::link_series::LINK_SERIES;
use super::{Kind, Table, Width};
use std::fmt::Write;

const HEADING: &str = "# Metrics

Every metric of Throughline, from the catalogue in `crates/sample/src/catalogue`. This file is written by
`cargo xtask metrics`; a test compares it with the catalogue.

A metric's short name is its SQL column and JSON key; its Prometheus name is prefix + name, with `_total` for a
counter. A value that could not be read is NULL or absent, never 0. *Wraps at 63 bits* means that the stored
value starts again at 0 there; *saturates at 16 bits* means that the device's counter stops at its
largest value there. The database has NULL for such a reading and names the counter in `saturated`. Prometheus, scraped or
read back, has the largest value, and beside the counter of a fabric port a series prefix + name + `_saturated`, which is 1
as long as the counter stands at its end and absent otherwise. A label that a metric has besides those of its table is in the
column of its meaning; in the view `self_stats` the column `label` has its value. `dlid_mapping_errors` is `dli_mapping_errors` in Prometheus, as
infiniband_exporter spells it.
";

/// Series of value 1 whose labels describe what is there, for joins in queries. Only those of the fabric, which rules
/// join with, are in the catalogue; the daemons name the others.
const INFO: [(&str, &[&str], &str); 10] = [
    (SWITCH_UPLINK_INFO, &SWITCH_UPLINK_LABELS, "Both ends of the cable of a switch's port."),
    (HCA_UPLINK_INFO, &HCA_UPLINK_LABELS, "Both ends of the cable of an adapter's port."),
    (
        "node_infiniband_info",
        &["device", "board_id", "firmware_version", "hca_type", "node_guid"],
        "An InfiniBand adapter of a host.",
    ),
    (
        "throughline_gpu_info",
        &["gpu", "index", "name", "pci", "domain"],
        "A GPU of a node; `domain` is its NVLink domain over several nodes, empty where it is in none.",
    ),
    (
        "throughline_gpu_partition_info",
        &["gpu", "index", "name", "partition"],
        "A partition (MIG) of a GPU; `gpu` is the GPU.",
    ),
    (
        "throughline_nvlink_info",
        &["gpu", "link", "remote_type", "remote_gpu", "remote_link"],
        "Where an NVLink leads to.",
    ),
    (
        "throughline_job_info",
        &["job_key", "scheduler", "user", "command", "world_size"],
        "An MPI job with ranks on a node now.",
    ),
    (
        "throughline_rank_gpu_info",
        &["job_key", "rank", "gpu", "partition", "evidence"],
        "A GPU that a rank uses now; of a partition (MIG) `gpu` is the whole. `evidence` is driver, or device where the driver's list of processes can't be read.",
    ),
    ("throughline_source_info", &["source", "state"], "What a source of an agent is doing."),
    ("throughline_build_info", &["version"], "Version of a daemon."),
];

/// The whole catalogue as Markdown.
#[must_use]
pub fn to_markdown() -> String {
    let mut text = String::from(HEADING);
    for table in Table::ALL {
        let labels = table.labels().join("`, `");
        // Writing to a String can't fail.
        let _ = writeln!(text, "\n## `{}`\n", table.name());
        let _ = match table.prometheus_prefixes() {
            [] => writeln!(text, "Not exposed to Prometheus.\n"),
            prefixes => writeln!(text, "Prometheus: `{}…` with labels `{labels}`.\n", prefixes.join("…`, `")),
        };
        text.push_str("| name | number | kind | unit | width | meaning | origin |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
        for metric in table.metrics() {
            let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
            let width = match (metric.kind, metric.width) {
                (Kind::Gauge, _) => String::from("-"),
                (Kind::Counter, Width::Wraps(bits)) => format!("wraps at {bits} bits"),
                (Kind::Counter, Width::Saturates(0)) => String::from("saturates"),
                (Kind::Counter, Width::Saturates(bits)) => format!("saturates at {bits} bits"),
            };
            let (name, id, unit) = (metric.name, metric.id, metric.unit.name());
            let (help, origin) = (metric.help, metric.origin);
            let label = metric.label.map_or_else(String::new, |label| format!(" Label `{label}`."));
            let _ =
                writeln!(text, "| `{name}` | {id} | {kind} | {unit} | {width} | {help}{label} | {origin} |");
        }
    }
    text.push_str("\n## Info series\n\nOf value 1; only in Prometheus, for joins.\n\n");
    text.push_str("| name | labels | meaning |\n| --- | --- | --- |\n");
    for (name, labels, meaning) in INFO {
        let _ = writeln!(text, "| `{name}` | `{}` | {meaning} |", labels.join("`, `"));
    }
    text.push_str("\n## MPI calls that go on\n\nGauges on an agent's page, measured; calls that have gone on for a second or more.\n\n");
    text.push_str("| name | labels | meaning |\n| --- | --- | --- |\n");
    for series in OPEN_CALL_SERIES {
        let _ = writeln!(text, "| `{}` | `{}` | {} |", series.name, series.labels.join("`, `"), series.help);
    }
    let account = &ACCOUNT_SECONDS;
    text.push_str("\n## Where the time of ranks went\n\nA counter on an agent's page, measured, as long as the job runs there: docs/ACCOUNT.md.\n\n");
    text.push_str("| name | labels | meaning |\n| --- | --- | --- |\n");
    let _ =
        writeln!(text, "| `{}_total` | `{}` | {} |", account.name, account.labels.join("`, `"), account.help);
    text.push_str(
        "\n## Contributors of links\n\nCounters on the page of the server that makes shares of links (role upkeep). At most 8 \
         contributors of a direction of a link with at least 1 % of its bytes, and at most 2,000 in all; quiet ones go after \
         ten minutes. They begin at 0 when the role moves to another server.\n\n| name | labels | meaning |\n| --- | --- | --- |\n",
    );
    for series in LINK_SERIES {
        let _ = writeln!(
            text,
            "| `{}_total` | `{}` | {} |",
            series.name,
            series.labels.join("`, `"),
            series.help
        );
    }
    text.push_str(
        "\n## Series of infiniband_exporter 0.10\n\nGauges on the crawler's page besides counters and ",
    );
    text.push_str("uplinks, for dashboards and rules made for that exporter; ");
    let _ = writeln!(text, "`{}` is ours.\n", SWITCH_POSSIBLE_RATE.name);
    text.push_str("| name | labels | meaning |\n| --- | --- | --- |\n");
    for series in EXPORTER_SERIES {
        let _ = writeln!(text, "| `{}` | `{}` | {} |", series.name, series.labels.join("`, `"), series.help);
    }
    text
}
