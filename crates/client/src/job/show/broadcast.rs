//! Broadcasts of a job: what the slowest ranks got a second, and whose PCIe link is a limit.

use crate::text::{ABSENT, Table, bytes, clean, count, folded, percent, seconds, thousands};
use throughline_api::broadcast::JobBroadcast;

/// Ranks that are listed: the slowest. All are in the JSON document and on the pages.
const ROWS: usize = 4;
/// From this share on an adapter's PCIe link is said to be nearly full.
const FULL_SHARE: f64 = 0.8;

/// The section; empty where the job has no broadcast.
pub(super) fn text(broadcast: &JobBroadcast, width: usize) -> String {
    let ranks = &broadcast.ranks;
    if ranks.rank.is_empty() {
        return String::new();
    }
    // Ranks that received nothing are those that only sent.
    let got = |at: &usize| ranks.received_high_bytes.get(*at).is_some_and(|bytes| *bytes > 0);
    let rate = |at: usize| ranks.high_bytes_per_second.get(at).copied().flatten();
    let mut order: Vec<usize> = (0..ranks.rank.len()).filter(got).collect();
    order.sort_by(|one, other| rate(*one).unwrap_or(f64::MAX).total_cmp(&rate(*other).unwrap_or(f64::MAX)));
    let rates: Vec<f64> = order.iter().filter_map(|at| rate(*at)).collect();
    let mut text = String::new();
    if let (Some(slowest), Some(fastest)) = (rates.first(), rates.last()) {
        let head = format!(
            "{} received; the slowest got {} a second inside, the fastest {}",
            count(order.len() as u64, "rank"),
            whole_bytes(*slowest),
            whole_bytes(*fastest),
        );
        text.push_str(&(folded(&head, width).join("\n") + "\n"));
    }
    let headings =
        ["<RANK", "HOST", "<CALLS", "<SENT AS ROOT", "<RECEIVED", "<TIME", "<RECEIVED A SECOND", "KNOWN"];
    let mut table = Table::new(&headings);
    for at in order.into_iter().take(ROWS) {
        let between = |low: String, high: String| if low == high { low } else { format!("{low} to {high}") };
        let of = |column: &[i64]| bytes(column.get(at).copied().unwrap_or(0).unsigned_abs());
        let per_second = |column: &[Option<f64>]| {
            column.get(at).copied().flatten().map_or(ABSENT.to_owned(), |rate| whole_bytes(rate) + "/s")
        };
        table.row(vec![
            ranks.rank.get(at).map_or(ABSENT.to_owned(), ToString::to_string),
            ranks.host.get(at).cloned().flatten().unwrap_or_else(|| ABSENT.to_owned()),
            thousands(ranks.calls.get(at).copied().unwrap_or(0).unsigned_abs()),
            of(&ranks.sent_bytes),
            between(of(&ranks.received_low_bytes), of(&ranks.received_high_bytes)),
            seconds(ranks.elapsed_seconds.get(at).copied().unwrap_or(0.0)),
            between(per_second(&ranks.low_bytes_per_second), per_second(&ranks.high_bytes_per_second)),
            ranks.kind.get(at).cloned().unwrap_or_default(),
        ]);
    }
    text.extend(table.text().lines().map(|line| clean(line, width) + "\n"));
    for line in adapters(broadcast) {
        text.push_str(&(folded(&line, width).join("\n") + "\n"));
    }
    text
}

/// Adapters whose PCIe link is slower than their ports, or nearly full.
fn adapters(broadcast: &JobBroadcast) -> Vec<String> {
    let mut lines = Vec::new();
    for (host, adapter) in
        broadcast.hosts.iter().flat_map(|host| host.adapters.iter().map(|one| (&host.host, one)))
    {
        let Some(pcie) = &adapter.pcie else { continue };
        let share = pcie.out_share.into_iter().chain(pcie.in_share).fold(0.0, f64::max);
        let is_narrow = pcie.ports_bytes_per_second.is_some_and(|ports| ports > pcie.bytes_per_second);
        if !is_narrow && share < FULL_SHARE {
            continue;
        }
        let narrow = match pcie.ports_bytes_per_second.filter(|_| is_narrow) {
            Some(ports) => format!(", less than its ports' {}/s", bytes(ports.unsigned_abs())),
            None => String::new(),
        };
        lines.push(format!(
            "PCIe of {} on {host} carries {}/s{narrow}; at least {} of it is used.",
            adapter.device,
            bytes(pcie.bytes_per_second.unsigned_abs()),
            percent(Some(share)),
        ));
    }
    let more = lines.len().saturating_sub(ROWS);
    lines.truncate(ROWS);
    if more > 0 {
        lines.push(format!("PCIe of {} more is so.", count(more as u64, "adapter")));
    }
    lines
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rates of links
fn whole_bytes(rate: f64) -> String {
    bytes(rate.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::broadcast::{BroadcastAdapter, BroadcastHost, BroadcastRanks, Pcie};

    fn broadcast() -> JobBroadcast {
        let pcie = Pcie {
            bytes_per_second: 16_000_000_000,
            ports_bytes_per_second: Some(25_000_000_000),
            out_share: Some(0.3),
            in_share: Some(0.5),
        };
        let adapter =
            BroadcastAdapter { device: "mlx5_0".into(), pcie: Some(pcie), ..BroadcastAdapter::default() };
        JobBroadcast {
            hosts: vec![BroadcastHost { host: "n2".into(), adapters: vec![adapter] }],
            ranks: BroadcastRanks {
                rank: vec![0, 1, 2],
                host: vec![Some("n1".into()), Some("n2".into()), None],
                calls: vec![10; 3],
                sent_bytes: vec![10_000, 0, 0],
                received_low_bytes: vec![0, 10_000, 5_000],
                received_high_bytes: vec![0, 10_000, 10_000],
                kind: vec!["modelled".into(), "modelled".into(), "bound".into()],
                elapsed_seconds: vec![1.0, 2.0, 1.0],
                low_bytes_per_second: vec![Some(0.0), Some(5_000.0), Some(5_000.0)],
                high_bytes_per_second: vec![Some(0.0), Some(5_000.0), Some(10_000.0)],
            },
            ..JobBroadcast::default()
        }
    }

    #[test]
    fn the_slowest_ranks_come_first_and_roots_are_left_out() {
        let text = text(&broadcast(), 200);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "  2 ranks received; the slowest got 5.0 kB a second inside, the fastest 10.0 kB"
        );
        assert!(lines[2].trim_start().starts_with("1  n2") && lines[2].ends_with("modelled"), "{text}");
        assert!(lines[3].contains("5.0 kB to 10.0 kB") && lines[3].ends_with("bound"), "{text}");
        assert_eq!(
            lines[4],
            "  PCIe of mlx5_0 on n2 carries 16.0 GB/s, less than its ports' 25.0 GB/s; at least 50.0 % of it is used."
        );
        assert_eq!(super::text(&JobBroadcast::default(), 200), "");
    }
}
