//! The table of links: host ports, NVLinks and fabric ports that a job's ranks used, while it ran.

use crate::text::{ABSENT, Table, bytes, clean, middle_cut, used};
use throughline_api::jobs::LinkPeak;

/// Most links on the page, the hottest first; all are in the JSON document.
const LINKS_SHOWN: usize = 10;

/// The table as lines.
pub fn text(links: &[LinkPeak], width: usize) -> String {
    let mut table = Table::new(&["LINK", "WAY", "<P95", "<MAX", "<OF SPEED P95", "<MAX", "<BYTES"]);
    for link in links.iter().take(LINKS_SHOWN) {
        table.row(vec![
            middle_cut(&clean(&name(link), 200), width.saturating_sub(60).max(16)),
            link.direction.clone(),
            rate(link.p95_bytes_per_second, link.p95_utilisation),
            rate(link.max_bytes_per_second, link.max_utilisation),
            used(link.p95_utilisation),
            used(link.max_utilisation),
            bytes(amount(link.bytes)),
        ]);
    }
    let is_beyond = |share: Option<f64>| share.is_some_and(|share| share > 1.0);
    let beyond =
        links.iter().take(LINKS_SHOWN).any(|l| is_beyond(l.p95_utilisation) || is_beyond(l.max_utilisation));
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    if links.len() > LINKS_SHOWN {
        text.push_str(&format!("  and {} directions of links with less\n", links.len() - LINKS_SHOWN));
    }
    if beyond {
        text.push_str("  above 100 %: a counter was read late, so that a step has bytes of the one before\n");
    }
    text
}

/// A rate; of more than the link can carry that it is more than its speed, for so much was not carried.
fn rate(rate: Option<f64>, share: Option<f64>) -> String {
    match (rate, share) {
        (Some(rate), Some(share)) if share > 1.0 => format!("> {}/s", bytes(amount(rate / share))),
        (Some(rate), _) => format!("{}/s", bytes(amount(rate))),
        (None, _) => ABSENT.to_owned(),
    }
}

/// `n1 mlx5_0 port 1`, `n1 GPU 0 link 3`; a fabric link is named by both of its ends.
pub fn name(link: &LinkPeak) -> String {
    match link.kind.as_str() {
        "fabric" => link.link.clone(),
        _ if link.is_shared => format!("{} {} (shared)", link.node, link.link),
        _ => format!("{} {}", link.node, link.link),
    }
}

/// A sum of bytes that was made of rates.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative, and rounded
pub fn amount(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_link_can_carry_is_explained() {
        let link = |share: f64| LinkPeak { max_utilisation: Some(share), ..LinkPeak::default() };
        let text = |links: &[LinkPeak]| super::text(links, 100);
        let uneven = text(&[link(0.2), link(2.43)]);
        assert!(uneven.ends_with("bytes of the one before\n"), "{uneven}");
        assert!(uneven.contains("> 100 %") && !uneven.contains("243"), "{uneven}");
        assert_eq!(rate(Some(192e6), Some(1.28)), "> 150.0 MB/s");
        assert_eq!(
            (rate(Some(120e6), Some(0.8)), rate(None, None)),
            ("120.0 MB/s".into(), ABSENT.to_owned())
        );
        assert!(!text(&[link(1.0)]).contains("above 100 %"));
    }
}
