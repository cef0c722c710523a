//! What the emulated demo prints: who runs where, whose bytes are on the fullest cables, and what to look at. Pure text.

use super::plan::Plan;
use super::{Cast, read};
use crate::table::{percent, rate, table};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};
use throughline_api::link_shares::{DirectionShares, LinkShares};
use throughline_client::text::clean;

/// Windows of the last half minute are summed.
const RANGE: Duration = Duration::from_secs(60);
/// Directions and contributors that are shown.
const SHOWN: usize = 6;
const CONTRIBUTORS: usize = 4;

/// Who runs where.
#[must_use]
pub fn cast(plan: &Plan, cast: &Cast) -> String {
    let hosts = plan.hosts();
    let name = |place: &usize| plan.nodes[hosts[*place]].name.as_str();
    let names = |places: &[usize]| places.iter().map(name).collect::<Vec<_>>().join(" ");
    let rows = [
        ("alltoall, 32 KiB a block", names(&cast.first)),
        ("allreduce, 16 KiB", names(&cast.second)),
        ("a sender without MPI", format!("{} > {}", name(&cast.stranger.0), name(&cast.stranger.1))),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, where_)| vec![what.to_owned(), where_]).collect();
    table(&["what", "hosts"], &rows)
}

/// Directions of cables that carried traffic in the last minute, the fullest first.
///
/// # Errors
/// The server can't be reached.
pub async fn shares(address: SocketAddr, plan: &Plan) -> anyhow::Result<Vec<Direction>> {
    let plan = plan.clone();
    let read = tokio::task::spawn_blocking(move || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (from, to) = (now.saturating_sub(RANGE).as_millis() as i64, now.as_millis() as i64);
        read::shares(&read::client(address)?, &plan, from, to)
    });
    Ok(fullest(read.await??))
}

/// One direction of a cable, and how the API names its link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// `GUID.PORT` of end a.
    pub link: String,
    /// Whose bytes.
    pub shares: DirectionShares,
}

/// All directions with windows, the fullest first.
fn fullest(links: Vec<LinkShares>) -> Vec<Direction> {
    let both =
        links.into_iter().flat_map(|link| [link.ab, link.ba].map(|shares| (link.link.clone(), shares)));
    let mut all: Vec<Direction> = both.map(|(link, shares)| Direction { link, shares }).collect();
    all.retain(|direction| direction.shares.windows > 0);
    let used = |direction: &Direction| direction.shares.utilisation.unwrap_or(0.0);
    all.sort_by(|a, b| used(b).total_cmp(&used(a)));
    all
}

/// The fullest directions with whose bytes they carried.
#[must_use]
pub fn table_of(directions: &[Direction]) -> String {
    let rows: Vec<Vec<String>> = directions
        .iter()
        .take(SHOWN)
        .map(|Direction { shares, .. }| {
            let counted =
                shares.counted_bytes.unwrap_or(0) as f64 / (shares.counted_windows.max(1) as f64 * 10.0);
            let whose: Vec<String> = shares
                .contributors
                .iter()
                .take(CONTRIBUTORS)
                .map(|part| {
                    let share = part.figures.share.map_or("?".to_owned(), percent);
                    format!("{share} {} ({})", clean(&part.label, 60), part.figures.kind)
                })
                .collect();
            vec![
                format!("{} > {}", clean(&shares.from.name, 24), clean(&shares.to.name, 24)),
                rate(counted),
                shares.utilisation.map_or("-".to_owned(), percent),
                whose.join(", "),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "no shares of links yet: they are made for windows of 10 s".to_owned();
    }
    table(&["link, last minute", "sent", "used", "whose bytes"], &rows)
}

/// What to look at, with the fullest link as the example.
#[must_use]
pub fn suggestions(server: SocketAddr, program: &Path, fullest: &Direction) -> String {
    format!(
        "Look:\n  \
         http://{server}/ in a browser: fabric map; choose the link {from} > {to}\n\
         Try in another terminal:\n  \
         {program} link {link} --server http://{server}\n  \
         {program} job list --server http://{server}\n  \
         curl -s http://{server}/api/v1/fabric/{fabric}/links/{link}/shares\n",
        from = clean(&fullest.shares.from.name, 40),
        to = clean(&fullest.shares.to.name, 40),
        link = fullest.link,
        fabric = super::read::FABRIC,
        program = program.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::link_shares::{LinkContributor, LinkEnd, ShareFigures};

    fn direction(from: &str, used: f64, windows: u64) -> DirectionShares {
        let figures =
            ShareFigures { share: Some(0.62), kind: "measured".to_owned(), ..ShareFigures::default() };
        let label = "alltoall of job 4711".to_owned();
        DirectionShares {
            from: LinkEnd { name: from.to_owned(), ..LinkEnd::default() },
            windows,
            counted_windows: windows,
            counted_bytes: Some(25_000_000),
            utilisation: Some(used),
            contributors: vec![LinkContributor { label, figures, ..LinkContributor::default() }],
            ..DirectionShares::default()
        }
    }

    #[test]
    fn the_fullest_direction_comes_first_and_an_idle_one_not_at_all() {
        let link = |ab, ba| LinkShares { link: "0x1.2".to_owned(), ab, ba, ..LinkShares::default() };
        let links = vec![
            link(direction("leaf001", 0.2, 1), direction("idle", 0.0, 0)),
            link(direction("leaf002", 0.97, 1), direction("spine001", 0.5, 1)),
        ];
        let directions = fullest(links);
        let names: Vec<&str> =
            directions.iter().map(|direction| direction.shares.from.name.as_str()).collect();
        assert_eq!(names, ["leaf002", "spine001", "leaf001"]);
        let text = table_of(&directions);
        assert!(text.contains("62 % alltoall of job 4711 (measured)") && text.contains("97 %"), "{text}");
        assert!(text.contains("2.5 MB/s"), "{text}");
        let server = SocketAddr::from(([127, 0, 0, 1], 9460));
        let suggested = suggestions(server, Path::new("throughline"), &directions[0]);
        assert!(suggested.contains("throughline link 0x1.2 --server http://127.0.0.1:9460"), "{suggested}");
        assert!(table_of(&[]).contains("windows of 10 s"));
    }
}
