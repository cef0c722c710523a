//! The table of a job's busiest links: how much of each is the job's own, and how much the others'.

use crate::link::NOT_REPORTED;
use crate::link::contributors::kind;
use crate::text::{Table, clean, middle_cut, percent, used};
use std::collections::{BTreeMap, BTreeSet};
use throughline_api::link_shares::{JobLink, LinkContributor};

/// Columns that the figures take beside the names and the kind.
const FIGURES_COLUMNS: usize = 42;

/// The table as lines.
pub fn text(job_key: &str, links: &[JobLink], width: usize) -> String {
    let mut table =
        Table::new(&["LINK", "<USED", "<PEAK", "<OWN PART", "KIND", "LARGEST OTHER", "<ITS PART"]);
    let kinds = links.iter().map(|link| kind(&link.own).len()).max().unwrap_or(0);
    let names = width.saturating_sub(FIGURES_COLUMNS + kinds) / 2;
    for link in links {
        let other = largest_other(job_key, link);
        table.row(vec![
            middle_cut(&clean(&link.name, 200), names.max(16)),
            used(link.utilisation),
            used(link.peak_utilisation),
            percent(link.own.share),
            kind(&link.own),
            other.map_or_else(String::new, |other| middle_cut(&clean(&other.label, 200), names.max(16))),
            other.map_or_else(String::new, |other| percent(other.figures.share)),
        ]);
    }
    let table = table.text();
    table.lines().chain(routing(links).as_deref()).map(|line| clean(line, width) + "\n").collect()
}

/// How the subnets of these links route: by name where they are several.
fn routing(links: &[JobLink]) -> Option<String> {
    let name = |link: &JobLink| link.routing.clone().unwrap_or_else(|| NOT_REPORTED.to_owned());
    let subnets: BTreeMap<&str, String> =
        links.iter().map(|link| (link.subnet.as_str(), name(link))).collect();
    let kinds: BTreeSet<&str> = subnets.values().map(String::as_str).collect();
    match kinds.len() {
        0 => None,
        1 => kinds.first().map(|kind| format!("routing {kind}")),
        _ => {
            let each = subnets.iter().map(|(subnet, kind)| format!("{kind} in {subnet}"));
            Some(format!("routing {}", each.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Who else has most of a link, if the job's operations are not all there is.
pub fn largest_other<'a>(job_key: &str, link: &'a JobLink) -> Option<&'a LinkContributor> {
    let is_other = |one: &&LinkContributor| {
        !matches!(one.contributor.as_str(), "other" | "rest") && one.job_key.as_deref() != Some(job_key)
    };
    link.contributors.iter().find(is_other)
}

/// From this part of its speed on a link is called full.
const FULL: f64 = 0.8;

/// Below this part of a full link a job is held up by others rather than by itself.
const SMALL: f64 = 0.5;

/// A sentence on the fullest link on which others have most, if one is full.
pub fn crowded(job_key: &str, links: &[JobLink]) -> Option<String> {
    let is_crowded = |link: &&JobLink| {
        link.utilisation.is_some_and(|share| share >= FULL)
            && link.own.share.is_some_and(|share| share < SMALL)
    };
    let link = links.iter().find(is_crowded)?;
    let other = largest_other(job_key, link).map_or_else(String::new, |other| {
        format!(", {} {} ({})", percent(other.figures.share), other.label, kind(&other.figures))
    });
    Some(format!(
        "{} was {} used: {} of that was this job's ({}){other}.",
        link.name,
        used(link.utilisation),
        percent(link.own.share),
        kind(&link.own)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::link_shares::ShareFigures;

    fn link(utilisation: f64, own: f64) -> JobLink {
        let figures = |share: f64, kind: &str| ShareFigures {
            share: Some(share),
            kind: kind.into(),
            ..ShareFigures::default()
        };
        let contributor = |label: &str, key: &str, share: f64| LinkContributor {
            contributor: "job".into(),
            label: label.into(),
            job_key: Some(key.into()),
            figures: figures(share, "measured"),
            ..LinkContributor::default()
        };
        JobLink {
            name: "leaf1[5] → spine1[1]".into(),
            utilisation: Some(utilisation),
            peak_utilisation: Some(1.0),
            own: figures(own, "modelled"),
            contributors: vec![
                contributor("allreduce of job 1 (bob)", "slurm:1", own),
                contributor("alltoall of job 2 (alice)", "slurm:2", 1.0 - own),
            ],
            ..JobLink::default()
        }
    }

    #[test]
    fn the_jobs_part_stands_beside_the_largest_others() {
        let text = text("slurm:1", &[link(0.971, 0.008)], 120);
        let row = text.lines().nth(1).unwrap();
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            cells,
            [
                "leaf1[5] → spine1[1]",
                "97.1 %",
                "100 %",
                "0.8 %",
                "modelled",
                "alltoall of job 2 (alice)",
                "99.2 %"
            ]
        );
    }

    #[test]
    fn how_subnets_route_stands_below() {
        let of = |subnet: &str, routing: Option<&str>| JobLink {
            subnet: subnet.into(),
            routing: routing.map(str::to_owned),
            ..link(0.5, 0.5)
        };
        let last = |links: &[JobLink]| text("slurm:1", links, 120).lines().last().map(str::to_owned);
        assert_eq!(last(&[of("0xa", None)]).as_deref(), Some("routing not reported"));
        let two = [of("0xa", Some("adaptive")), of("0xb", Some("static")), of("0xa", Some("adaptive"))];
        assert_eq!(last(&two).as_deref(), Some("routing adaptive in 0xa, static in 0xb"));
        assert_eq!(last(&two[2..]).as_deref(), Some("routing adaptive"));
    }

    #[test]
    fn a_full_link_of_others_is_worth_knowing() {
        assert_eq!(
            crowded("slurm:1", &[link(0.971, 0.008)]).unwrap(),
            "leaf1[5] → spine1[1] was 97.1 % used: 0.8 % of that was this job's (modelled), 99.2 % alltoall of job 2 \
             (alice) (measured)."
        );
        assert_eq!(crowded("slurm:1", &[link(0.5, 0.008), link(0.97, 0.9)]), None);
    }
}
