//! NVLinks of a job's GPUs beside the messages of its ranks: the part that MPI can explain, and the rest.

use crate::text::{bytes, clean, count, folded, percent};
use throughline_api::gpu_traffic::{GpuTraffic, HostGpuTraffic};

/// Hosts on the page; all are in the JSON document.
const HOSTS_SHOWN: usize = 4;

/// A sentence for each host; empty where no GPU of the job has NVLinks.
pub fn text(traffic: &GpuTraffic, width: usize) -> String {
    let mut text = String::new();
    for host in traffic.hosts.iter().take(HOSTS_SHOWN) {
        text.push_str(
            &(folded(&format!("{}: {}", clean(&host.host, 64), said(host)), width).join("\n") + "\n"),
        );
    }
    let more = (traffic.hosts.len().saturating_sub(HOSTS_SHOWN)) as u64 + traffic.left_out;
    if more > 0 && !text.is_empty() {
        text.push_str(&format!("  and {}\n", count(more, "more host")));
    }
    text
}

fn said(host: &HostGpuTraffic) -> String {
    if let Some(why) = &host.unknown {
        return format!("nothing is said of its NVLinks, as {why}");
    }
    let Some(totals) = &host.totals else { return "its NVLinks were not read in this time".to_owned() };
    // Sums of counters.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let amount = |of: f64| bytes(of.max(0.0) as u64);
    let gpus = format!("{} of the job", count(host.gpus.len() as u64, "GPU"));
    let there = if host.domain.is_some() { "its NVLink domain" } else { "this host" };
    if totals.nvlink_bytes <= 0.0 {
        let mpi = amount(totals.mpi_bytes);
        return format!(
            "NVLinks carried nothing into the {gpus}; MPI sent {mpi} to ranks on them from this host"
        );
    }
    let shared = if totals.ranks_share_gpus {
        " Ranks share a GPU here: what they sent each other never left it, so that the rest is larger."
    } else {
        ""
    };
    format!(
        "NVLinks carried {} into the {gpus}. MPI from ranks of {there} can explain at most {} ({}); at least {} ({}) came otherwise: \
         other libraries (NCCL, for one), the program's own copies, other processes.{shared}",
        amount(totals.nvlink_bytes),
        amount(totals.explained_bytes),
        percent(totals.explained_share),
        amount(totals.residual_bytes),
        percent(Some(totals.residual_bytes / totals.nvlink_bytes)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::gpu_traffic::GpuTrafficTotals;

    #[test]
    fn the_explained_part_is_at_most_and_the_rest_at_least() {
        let totals = GpuTrafficTotals {
            seconds: 10.0,
            nvlink_bytes: 10e9,
            mpi_bytes: 4e9,
            explained_bytes: 4e9,
            residual_bytes: 6e9,
            explained_share: Some(0.4),
            ranks_share_gpus: false,
        };
        let host = |totals| HostGpuTraffic {
            host: "n1".into(),
            gpus: vec![0, 1],
            totals,
            ..HostGpuTraffic::default()
        };
        let traffic = |totals| GpuTraffic { hosts: vec![host(totals)], left_out: 2, ..GpuTraffic::default() };
        let text = |totals| text(&traffic(totals), 400);
        assert_eq!(
            text(Some(totals)),
            "  n1: NVLinks carried 10.0 GB into the 2 GPUs of the job. MPI from ranks of this host can explain at most 4.0 GB (40.0 %); \
             at least 6.0 GB (60.0 %) came otherwise: other libraries (NCCL, for one), the program's own copies, other processes.\n\
             \x20 and 2 more hosts\n"
        );
        assert!(text(None).starts_with("  n1: its NVLinks were not read"));
        assert_eq!(super::text(&GpuTraffic::default(), 80), "");
    }
}
