//! The full resolution of a job, fetched by itself where nodes still have it: the database has rows of a rank once a
//! minute, and what is shown in shorter steps is to be what was, not a mean.

use super::progress::Progress;
use crate::text::{count, whole_second};
use crate::{Answer, Server};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_api::detail::{DetailNode, DetailRequest, DetailRequested, DetailRequests};

/// Recorders have an hour, and the server takes no longer time at once.
const RECORDED_MS: i64 = 3_600_000;
/// Between now and the oldest that a recorder still has when the request arrives.
const MARGIN_MS: i64 = 30_000;
/// The coarsest resolution of a request.
const COARSEST_MS: i64 = 60_000;
/// From one row of a rank to the next, and a little more.
const ROW_MS: i64 = 65_000;
/// Ranks report bins of 0.1 s.
const BIN_MS: i64 = 100;
/// How long an answer is waited for, and until the first node has begun.
const WAIT: Duration = Duration::from_secs(60);
const BEGIN: Duration = Duration::from_secs(3);
/// Between two looks at what has arrived.
const PAUSE: Duration = Duration::from_millis(200);
/// Earlier requests that are looked at.
const EARLIER: &str = "20";

/// What is wanted: from when to when, milliseconds since 1970, the length of a step, and when the job began.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub from_ms: i64,
    pub to_ms: i64,
    pub step_ms: i64,
    pub start_ms: Option<i64>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Up to when all nodes' bins are there.
    pub until_ms: Option<i64>,
    /// For people.
    pub text: String,
}

/// Fetches, and waits. Whatever is refused or does not come in time is said, and is no failure: there are the rows of a minute.
pub fn fetch(server: &Server, key: &str, wanted: Wanted) -> Fetched {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    // A bin that ends with the time is in it. What a first bin has more than a row is known where that row is behind the first.
    let to = wanted.to_ms.saturating_add(BIN_MS).min(now);
    let from = (wanted.from_ms - ROW_MS)
        .max(wanted.start_ms.unwrap_or(0))
        .max(now - RECORDED_MS + MARGIN_MS)
        .max(to - RECORDED_MS);
    let coarse = "steps are those of the database, of a minute or more of a rank";
    if from >= to {
        return text(format!("Nodes keep their record for an hour: {coarse}."));
    }
    let resolution = resolution(wanted.step_ms);
    let request = earlier(server, key, (from, to), resolution)
        .map_or_else(|| made(server, key, (from, to), resolution), Ok);
    match request {
        Ok(request) => outcome(&request, wanted, (from, to), coarse),
        Err(error) => text(format!("The nodes' record was not fetched ({error}): {coarse}.")),
    }
}

fn text(text: String) -> Fetched {
    Fetched { until_ms: None, text }
}

/// The bins that steps can be made of: milliseconds of a request, 0 for all.
fn resolution(step_ms: i64) -> i64 {
    let divides = |of: &i64| step_ms % of == 0 && *of <= step_ms;
    [COARSEST_MS, 30_000, 20_000, 10_000, 5_000, 2_000, 1_000].into_iter().find(divides).unwrap_or(0)
}

/// An earlier request that brought as much from all nodes.
fn earlier(server: &Server, key: &str, (from, to): (i64, i64), resolution: i64) -> Option<DetailRequest> {
    let listed: DetailRequests = server.get(&["jobs", key, "detail"], &[("limit", EARLIER)]).ok()?;
    let has_all = |request: &DetailRequest| {
        let bin_ms = (request.resolution_seconds * 1e3) as i64;
        request.reason != "live"
            && request.from_ms <= from
            && request.to_ms >= to
            && (bin_ms <= BIN_MS || (resolution > 0 && resolution % bin_ms == 0))
            && !request.nodes.is_empty()
            && request.nodes.iter().all(is_done)
    };
    listed.requests.into_iter().find(has_all)
}

fn is_done(node: &DetailNode) -> bool {
    node.state == "done"
}

/// A new request, once it is finished or nobody waits for it any more.
fn made(
    server: &Server,
    key: &str,
    (from, to): (i64, i64),
    resolution: i64,
) -> Result<DetailRequest, crate::Error> {
    let texts = [from.to_string(), to.to_string(), resolution.to_string()];
    let query = [("from", texts[0].as_str()), ("to", &texts[1]), ("resolution_ms", &texts[2])];
    let made: Answer<DetailRequested> = server.post(&["jobs", key, "detail"], &query)?;
    let id = made.value.id.to_string();
    let begin = Instant::now();
    let mut progress = Progress::new("node", 0);
    loop {
        let found: DetailRequests = server.get(&["jobs", key, "detail"], &[("id", &id)])?;
        let Some(request) = found.requests.into_iter().next() else { return Ok(DetailRequest::default()) };
        let answered = request.nodes.iter().filter(|node| node.done_ms.is_some()).count();
        progress.at(answered, request.nodes.len());
        let has_begun = request.nodes.iter().any(|node| node.state != "waiting");
        let limit = if has_begun { WAIT } else { BEGIN };
        if !request.is_open || begin.elapsed() >= limit {
            return Ok(request);
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a request brought.
fn outcome(request: &DetailRequest, wanted: Wanted, (from, to): (i64, i64), coarse: &str) -> Fetched {
    let without: Vec<&DetailNode> = request.nodes.iter().filter(|node| !is_done(node)).collect();
    let is_nothing = request.nodes.is_empty() || without.len() == request.nodes.len();
    let why = without.first().map(|node| match &node.remark {
        Some(remark) => format!("{}: {remark}", node.host),
        None => format!("{} did not answer in time", node.host),
    });
    if is_nothing {
        return text(format!(
            "No node sent its record ({}): {coarse}.",
            why.unwrap_or_else(|| "there is none".to_owned())
        ));
    }
    let bin = (request.resolution_seconds).max(BIN_MS as f64 / 1e3);
    let gone = request.nodes.iter().filter_map(|node| node.recorded_from_ms).max().unwrap_or(from).max(from);
    let mut said = format!(
        "Fetched from the nodes: {} of {}, bins of {bin} s",
        count(request.records.unsigned_abs(), "record"),
        count((request.nodes.len() - without.len()) as u64, "node"),
    );
    // A job's first bin ends a little behind its start.
    if gone > wanted.from_ms + 2 * BIN_MS {
        said.push_str(&format!(", from {} on; before, {coarse}", whole_second(gone)));
    }
    if let Some(why) = why {
        let more = if without.len() > 1 { format!(" and {} more", without.len() - 1) } else { String::new() };
        said.push_str(&format!(". Not from all ({why}{more}): of their ranks {coarse}"));
    }
    Fetched { until_ms: without.is_empty().then_some(to), text: said + "." }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_parts_of_steps() {
        let of = [100, 500, 1_000, 1_500, 3_000, 10_000, 90_000, 86_400_000].map(resolution);
        assert_eq!(of, [0, 0, 1_000, 0, 1_000, 10_000, 30_000, 60_000]);
    }

    #[test]
    fn what_did_not_come_is_said() {
        let node = |host: &str, state: &str| DetailNode {
            host: host.into(),
            state: state.into(),
            ..DetailNode::default()
        };
        let wanted = Wanted { from_ms: 1_000, to_ms: 61_000, step_ms: 100, start_ms: Some(1_000) };
        let outcome = |nodes: Vec<DetailNode>| {
            let request = DetailRequest { records: 1200, nodes, ..DetailRequest::default() };
            outcome(&request, wanted, (1_000, 61_000), "steps are long")
        };
        let all = outcome(vec![node("n1", "done")]);
        assert_eq!(all.text, "Fetched from the nodes: 1,200 records of 1 node, bins of 0.1 s.");
        assert_eq!(all.until_ms, Some(61_000));
        let part = outcome(vec![node("n1", "done"), node("n2", "refused")]);
        assert!(part.until_ms.is_none() && part.text.contains("n2 did not answer"), "{part:?}");
        let none = outcome(vec![node("n1", "waiting")]);
        assert!(
            none.text.starts_with("No node sent its record") && none.text.ends_with("steps are long."),
            "{none:?}"
        );
    }
}
