//! The lines at the end of the page: what is worth knowing of a job, each a sentence with its numbers.
//!
//! A sentence is there only if there is data for it, and says no more than the data does.

use super::Report;
use super::operations::name;
use super::ranks::RankTotal;
use super::{link_shares, links};
use crate::job::as_of;
use crate::job::whole::ReferenceTime;
use crate::job::{mean, part};
use crate::text::{bytes, count, percent, seconds, size_class, thousands, used};
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_api::jobs::{AsOf, Operation, Pair};

/// Most sentences.
const FINDINGS_MAX: usize = 10;
/// Ranks differ by chance: below this difference of MPI shares nobody is called unequal.
const UNEQUAL_SHARE: f64 = 0.05;
/// What a difference of shares must be in a rank's own time: below it, starting up is all that differs.
const UNEQUAL_SECONDS: f64 = 1.0;
/// Time inside MPI of all ranks below which nothing is said of how ranks or messages spend it.
const EVIDENCE_SECONDS: f64 = 1.0;
/// Calls of a rank, in the mean, below which nothing is said of that either.
const EVIDENCE_CALLS: u64 = 10;
/// A job that lasted so long without any call has bypassed the shim, or computes without end.
const WITHOUT_CALLS_SECONDS: f64 = 10.0;
/// Longer after its end a job's calls may have expired: rows are kept for a week unless configured. Milliseconds.
const CALLS_KEPT_MS: u128 = 86_400_000;
/// A rank that sends so many times the mean is reported.
const UNEQUAL_BYTES: f64 = 1.5;
/// Largest message that counts as small: below it the time is latency, not bandwidth, on every fabric of today.
const SMALL_BYTES: u64 = 1024;
/// A share of calls or time from which small messages are reported.
const SMALL_SHARE: f64 = 0.25;
/// Operations that only wait for others to complete.
const COMPLETION: [&str; 10] =
    ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome", "probe", "iprobe"];

/// The sentences, the most general first.
pub fn of(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(incomplete(report));
    found.extend(lost(report));
    found.extend(tool_inside(report));
    found.extend(bypassed(report, SystemTime::now()));
    found.extend(unmeasured(report));
    found.extend(mpi_share(report));
    found.extend(heaviest(report));
    found.extend(heaviest_size(report));
    found.extend(algorithm(report));
    found.extend(dated(unequal(report), report, report.ranks_as_of.as_ref()));
    found.extend(link_shares::crowded(&report.job.job_key, &report.link_shares));
    found.extend(hottest(report));
    found.extend(dated(busiest(report), report, report.traffic_as_of.as_ref()));
    found.extend(dated(between_nodes(report), report, report.traffic_as_of.as_ref()));
    found.extend(waiting(report));
    found.extend(dated(region(report), report, report.regions_as_of.as_ref()));
    found.extend(dated(senders(report), report, report.ranks_as_of.as_ref()));
    found.extend(small(report));
    found.extend(longest(report));
    found.truncate(FINDINGS_MAX);
    found
}

fn lost(report: &Report) -> Option<String> {
    let lost = report.job.ranks_lost;
    (lost > 0).then(|| {
        format!(
            "{} ended without MPI_Finalize: what {} did in the last push interval may be missing.",
            count(lost, "rank"),
            if lost == 1 { "it" } else { "they" }
        )
    })
}

/// A rank leaves its totals for the next agent where it can; `unseen` are those without any totals found.
fn incomplete(report: &Report) -> Option<String> {
    let ranks = report.identity.ranks_incomplete;
    (ranks > 0).then(|| {
        format!(
            "{} ended while no agent ran there: the totals are not final, what {} did since the last push is missing.",
            count(ranks, "rank"),
            if ranks == 1 { "it" } else { "they" }
        )
    })
}

/// Whether there is enough to compare ranks or messages by; start-up is most of what came before.
fn is_evidence(report: &Report) -> bool {
    let calls = report.ranks.iter().map(|rank| rank.calls).fold(0, u64::saturating_add);
    report.job.mpi_seconds().is_some_and(|inside| inside >= EVIDENCE_SECONDS)
        && calls >= EVIDENCE_CALLS.saturating_mul(report.ranks.len() as u64)
}

/// `12.3 % of the ranks' time`: times of all sentences and of the table have this one basis.
fn of_whole(report: &Report, inside: f64) -> Option<String> {
    let whole = ReferenceTime::of(&report.job)?;
    Some(format!("{} {}", percent(part(inside, whole.seconds)), whole.name))
}

fn setting<'a>(report: &'a Report, name: &str) -> Option<&'a str> {
    report.settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
}

/// A tool that is part of the program: what it wraps can't be counted.
fn tool_inside(report: &Report) -> Option<String> {
    setting(report, "pmpi_tool").map(|functions| {
        format!(
            "A tool of PMPI is linked into the program: its own {functions} come before the shim, and calls of them are not counted. \
             Build the tool as a shared library, and link or preload that."
        )
    })
}

/// Ranks that began MPI and do nothing with it. Not of a job that ended so long ago that its totals may have expired.
fn bypassed(report: &Report, now: SystemTime) -> Option<String> {
    let lasted = match (&report.job.as_of, report.job.end_ms) {
        // Its agents say so themselves, and up to when.
        (Some(at), None) if at.behind.is_empty() => {
            #[allow(clippy::cast_precision_loss)] // milliseconds
            report.job.start_ms.map(|start| (at.time_ms - start) as f64 / 1e3)
        }
        (_, None) => None,
        (_, Some(_)) => report.job.lasted_seconds(),
    };
    let lasted = lasted.filter(|lasted| *lasted >= WITHOUT_CALLS_SECONDS)?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let is_over = |end: i64| u128::from(end.unsigned_abs()) + CALLS_KEPT_MS < now;
    let has_none = report.operations.is_empty()
        && report.regions.is_empty()
        && report.traffic.is_empty()
        && report.open_calls.is_empty()
        && report.job.ranks > 0
        && setting(report, "pmpi_tool").is_none()
        && !report.job.end_ms.is_some_and(is_over);
    has_none.then(|| {
        format!(
            "No MPI call of its {} was counted in {}{}: functions that a program looks up in the library itself (dlsym, as MPI.jl, \
             ctypes and cffi do) bypass the shim.",
            count(report.job.ranks, "rank"),
            seconds(lasted),
            as_of::suffix(report.job.as_of.as_ref()),
        )
    })
}

/// A sentence made from figures of ranks, with their time where that is not the one of the job's sums.
fn dated(sentence: Option<String>, report: &Report, at: Option<&AsOf>) -> Option<String> {
    let when = as_of::unless_same(at, report.job.as_of.as_ref());
    sentence.map(|sentence| format!("{}{when}.", sentence.trim_end_matches('.')))
}

/// The wire matrix was requested, and the ranks report why it is missing, or that a selection of layers leaves it out.
fn unmeasured(report: &Report) -> Option<String> {
    if let Some(because) = setting(report, "wire") {
        return Some(format!("The wire matrix was requested and is missing: {because}."));
    }
    let layers = setting(report, "pml")?;
    let remedy = if layers.starts_with('^') {
        "Take monitoring off that list.".to_owned()
    } else {
        format!("Add it: --mca pml {layers},monitoring.")
    };
    Some(format!(
        "The wire matrix was requested and is missing: the setting pml = {layers} leaves out Open MPI's monitoring layer. {remedy}"
    ))
}

fn mpi_share(report: &Report) -> Option<String> {
    let (inside, observed) = (report.job.mpi_seconds()?, report.job.observed_seconds()?);
    if report.job.is_threaded() {
        return Some(format!(
            "Threads spent {} in MPI, several of a rank at the same time: shares below are of that, not of the {} that the ranks \
             ran.",
            seconds(inside),
            seconds(observed),
        ));
    }
    let share = report.job.mpi_time_share()?;
    let mut shares: Vec<f64> = report.ranks.iter().filter_map(|rank| rank.mpi_time_share).collect();
    shares.sort_by(f64::total_cmp);
    let range = match (shares.first(), shares.last()) {
        (Some(least), Some(most)) if shares.len() > 1 => {
            let when = as_of::unless_same(report.ranks_as_of.as_ref(), report.job.as_of.as_ref());
            format!("; between {} and {} by rank{when}", percent(Some(*least)), percent(Some(*most)))
        }
        _ => String::new(),
    };
    Some(format!(
        "MPI took {} of the ranks' time: {} of {} summed over {}{range}.",
        percent(Some(share)),
        seconds(inside.min(observed)),
        seconds(observed),
        count(report.ranks.len() as u64, "rank"),
    ))
}

fn heaviest(report: &Report) -> Option<String> {
    let first = report.operations.first().filter(|first| first.elapsed_seconds > 0.0)?;
    let second = report.operations.get(1).filter(|second| second.elapsed_seconds > 0.0);
    let whole = ReferenceTime::of(&report.job)?;
    let share = |operation: &Operation| percent(part(operation.elapsed_seconds, whole.seconds));
    let next = second
        .map_or(String::new(), |second| format!("; {} follows with {}", second.operation, share(second)));
    Some(format!(
        "{} is the heaviest operation: {} {} in {}, {} each{next}.",
        first.operation,
        share(first),
        whole.name,
        count(first.calls, "call"),
        seconds(mean(first.elapsed_seconds, first.calls)?),
    ))
}

fn heaviest_size(report: &Report) -> Option<String> {
    let sizes = report.operations.iter().filter(|operation| !is_completion(operation));
    let sizes = sizes.flat_map(|operation| operation.sizes.iter().map(move |size| (operation, size)));
    let (operation, size) = sizes
        .filter(|(_, size)| size.size_class_bytes > 0)
        .max_by(|one, other| one.1.elapsed_seconds.total_cmp(&other.1.elapsed_seconds))?;
    Some(format!(
        "The heaviest messages are those of {} up to {}: {}, {}, {}, {} each.",
        operation.operation,
        size_class(size.size_class_bytes),
        of_whole(report, size.elapsed_seconds)?,
        count(size.calls, "call"),
        bytes(size.bytes),
        seconds(mean(size.elapsed_seconds, size.calls)?),
    ))
}

fn algorithm(report: &Report) -> Option<String> {
    let known = |operation: &&Operation| operation.algorithms.iter().any(|one| !one.algorithm.is_empty());
    let operation = report.operations.iter().find(known)?;
    let heaviest = operation.algorithms.iter().find(|one| !one.algorithm.is_empty())?;
    let calls: u64 = operation.algorithms.iter().map(|one| one.calls).sum();
    // The table has shares of its time: calls are numbers here, lest two shares of one algorithm differ.
    Some(format!(
        "{} ran as {} in {} of {}.",
        operation.operation,
        name(heaviest),
        thousands(heaviest.calls),
        count(calls, "call")
    ))
}

/// The rank whose share of time inside MPI is farthest from the middle of all.
fn unequal(report: &Report) -> Option<String> {
    if !is_evidence(report) {
        return None;
    }
    let mut ranks: Vec<(f64, &RankTotal)> =
        report.ranks.iter().filter_map(|rank| Some((rank.mpi_time_share?, rank))).collect();
    if ranks.len() < 2 {
        return None;
    }
    ranks.sort_by(|one, other| one.0.total_cmp(&other.0));
    let median = ranks[ranks.len() / 2].0;
    let (least, most) = (ranks[0], ranks[ranks.len() - 1]);
    let (share, rank) = if median - least.0 >= most.0 - median { least } else { most };
    let place = rank.host.as_deref().map_or(String::new(), |host| format!(" on {host}"));
    if (share - median).abs() < UNEQUAL_SHARE {
        return Some(format!(
            "The ranks are alike: the most unequal one, {}{place}, spends {} of its time in MPI, the middle one {}.",
            rank.rank,
            percent(Some(share)),
            percent(Some(median)),
        ));
    }
    let differs_seconds = (share - median).abs() * rank.observed_seconds.unwrap_or_default();
    if differs_seconds < UNEQUAL_SECONDS {
        return None;
    }
    let hint =
        if share < median { "the others may be waiting for it" } else { "it may be waiting for the others" };
    Some(format!(
        "Rank {}{place} is the most unequal: {} of its time in MPI, the middle rank {}; {hint}.",
        rank.rank,
        percent(Some(share)),
        percent(Some(median)),
    ))
}

fn hottest(report: &Report) -> Option<String> {
    let link = report.links.as_ref()?.first()?;
    let way = if link.direction == "out" { "outwards" } else { "inwards" };
    let name = links::name(link);
    match (link.p95_utilisation, link.max_utilisation) {
        // A share above all of it is no share: of the link the table has what there is to say.
        (Some(p95), Some(_)) if p95 > 1.0 => None,
        (Some(p95), Some(max)) if max > 1.0 => Some(format!(
            "The hottest link of its nodes was {name}, {way}: {} or less of its speed in 95 % of the time; at most all of it (a \
             counter was read late).",
            used(Some(p95)),
        )),
        (Some(p95), Some(max)) => Some(format!(
            "The hottest link of its nodes was {name}, {way}: at most {} of its speed, and {} or less in 95 % of the time.",
            used(Some(max)),
            used(Some(p95)),
        )),
        _ => Some(format!(
            "The busiest link of its nodes was {name}, {way}: at most {}/s, and {}/s or less in 95 % of the time; its speed is not known.",
            bytes(links::amount(link.max_bytes_per_second?)),
            bytes(links::amount(link.p95_bytes_per_second?)),
        )),
    }
}

fn busiest(report: &Report) -> Option<String> {
    let traffic =
        report.traffic.iter().find(|traffic| traffic.kind == "logical").or(report.traffic.first())?;
    let of_all = |pair: &Pair| {
        #[allow(clippy::cast_precision_loss)] // a share
        percent(part(pair.bytes as f64, traffic.bytes as f64))
    };
    let first = traffic.busiest.first().filter(|pair| pair.bytes > 0)?;
    let place = match first.same_node {
        Some(true) => ", both on one node",
        Some(false) => ", on different nodes",
        None => "",
    };
    let rest: Vec<String> = traffic
        .busiest
        .iter()
        .skip(1)
        .filter(|pair| pair.bytes > 0)
        .map(|pair| format!("{} to {} ({})", pair.from, pair.to, bytes(pair.bytes)))
        .collect();
    let rest = if rest.is_empty() { String::new() } else { format!("; then {}", rest.join(" and ")) };
    Some(format!(
        "The busiest pair is rank {} to {}: {} in {}, {} of all traffic{place}{rest}.",
        first.from,
        first.to,
        bytes(first.bytes),
        count(first.messages, "message"),
        of_all(first),
    ))
}

fn between_nodes(report: &Report) -> Option<String> {
    if report.job.nodes < 2 {
        return None;
    }
    let traffic = report.traffic.iter().find(|traffic| traffic.kind == "wire").or(report.traffic.first())?;
    #[allow(clippy::cast_precision_loss)] // a share
    let share = part(traffic.between_nodes_bytes as f64, traffic.bytes as f64)?;
    let what =
        if traffic.kind == "wire" { "that the library sent" } else { "that the program meant for others" };
    Some(format!(
        "{} of the bytes {what} went between nodes: {} of {}, over {}.",
        percent(Some(share)),
        bytes(traffic.between_nodes_bytes),
        bytes(traffic.bytes),
        count(traffic.pairs, "pair of ranks").replace("pair of rankss", "pairs of ranks"),
    ))
}

fn is_completion(operation: &Operation) -> bool {
    COMPLETION.contains(&operation.operation.as_str())
}

fn waiting(report: &Report) -> Option<String> {
    let waits: Vec<&Operation> =
        report.operations.iter().filter(|operation| is_completion(operation)).collect();
    let inside: f64 = waits.iter().map(|operation| operation.elapsed_seconds).sum();
    let calls: u64 = waits.iter().map(|operation| operation.calls).sum();
    if calls == 0 {
        return None;
    }
    // Of all that is begun and completed later, what was pending longest.
    let pending = report.operations.iter().filter_map(|operation| Some((operation, operation.wait_seconds?)));
    let pending = pending.max_by(|one, other| one.1.total_cmp(&other.1)).and_then(|(operation, wait)| {
        Some(format!(
            "; a request of {} was pending for {}",
            operation.operation,
            seconds(mean(wait, operation.calls)?)
        ))
    });
    Some(format!(
        "Waiting for requests and messages took {}: {} of {} calls of {}{}.",
        of_whole(report, inside)?,
        seconds(inside),
        thousands(calls),
        waits.iter().take(3).map(|operation| operation.operation.as_str()).collect::<Vec<_>>().join(", "),
        pending.unwrap_or_default(),
    ))
}

fn region(report: &Report) -> Option<String> {
    let first = report.regions.first()?;
    let inside = first.mpi_seconds?;
    // A part of a time that is of another moment would be none.
    let part = (report.regions_as_of == report.job.as_of).then(|| of_whole(report, inside)).flatten();
    Some(format!(
        "MPI in region {} took {}{} in {}.",
        first.region,
        part.map_or_else(String::new, |part| format!("{part}: ")),
        seconds(inside),
        count(first.visits, "visit"),
    ))
}

fn senders(report: &Report) -> Option<String> {
    let most = report.ranks.iter().max_by_key(|rank| rank.bytes).filter(|rank| rank.bytes > 0)?;
    let all: u64 = report.ranks.iter().map(|rank| rank.bytes).sum();
    #[allow(clippy::cast_precision_loss)] // a ratio
    let times = most.bytes as f64 / (all as f64 / report.ranks.len() as f64);
    if times < UNEQUAL_BYTES {
        return None;
    }
    Some(format!(
        "Rank {} sends the most: {}, {times:.1} times the mean of all ranks.",
        most.rank,
        bytes(most.bytes)
    ))
}

fn small(report: &Report) -> Option<String> {
    let all = report.job.mpi_seconds().filter(|_| is_evidence(report))?;
    let sizes = || {
        let sending = report.operations.iter().filter(|operation| operation.bytes > 0);
        sending.flat_map(|operation| &operation.sizes)
    };
    let (mut calls, mut small_calls, mut time) = (0u64, 0u64, 0.0);
    for size in sizes() {
        calls = calls.saturating_add(size.calls);
        if size.size_class_bytes <= SMALL_BYTES {
            small_calls = small_calls.saturating_add(size.calls);
            time += size.elapsed_seconds;
        }
    }
    let whole = of_whole(report, time)?;
    (part(time, all)? >= SMALL_SHARE).then(|| {
        format!(
            "Messages up to {} took {whole}, in {} of {} calls that send: latency matters here.",
            size_class(SMALL_BYTES),
            thousands(small_calls),
            thousands(calls),
        )
    })
}

fn longest(report: &Report) -> Option<String> {
    let calls =
        report.operations.iter().filter_map(|operation| Some((operation, operation.longest_seconds?)));
    let (operation, longest) = calls.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let usual = mean(operation.elapsed_seconds, operation.calls)?;
    Some(format!(
        "The longest call was one of {}: {}; the mean of its calls is {}.",
        operation.operation,
        seconds(longest),
        seconds(usual),
    ))
}

#[cfg(test)]
mod tests;
