//! `job record`: fetches the full resolution of a job, which stays on its nodes for an hour, into the database.

use super::name::find;
use crate::Server;
use crate::pause::until_stopped;
use crate::text::{Table, clean, columns, count, thousands};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_api::detail::{DetailNode, DetailRequest, DetailRequested, DetailRequests};
use throughline_daemon::{ExitStatus, Failure};
use throughline_sample::{from_rfc3339, to_rfc3339};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job record last                        its last ten minutes, all records
  throughline job record last --last 2m --wait       and wait until they are there
  throughline job record 4711 --resolution 1s --from 2026-11-25T12:00:00Z --to 2026-11-25T12:10:00Z
  throughline job record last --list                 what was requested of it, and what came

Nodes keep an hour or 512 MB (docs/RECORDER.md). What was fetched stays in the database for a day: `job export --step` and
`job trace` read it, and the job's page. Requests are within quotas ([detail] of server.toml).

Exit status with --wait: 0 all is there, 1 a node refused, lost some of it or did not answer in time.";

/// Time between two looks at what has arrived.
const PAUSE: Duration = Duration::from_millis(300);

/// Options of `job record`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Which job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// The last so much before now, or before the job's end: 90s, 10m, 1h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = milliseconds)]
    last: i64,
    /// From this time on (RFC 3339), in place of --last
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<String>,
    /// Up to before this time [default: now, or the job's end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<String>,
    /// Of counters that only grow the last within such a time: 100ms, 1s [default: all records]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    resolution: Option<i64>,
    /// Wait at most so many seconds until it is there
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<u64>,
    /// List earlier requests; requests nothing
    #[arg(long, conflicts_with_all = ["last", "from", "to", "resolution", "wait"])]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A number with ms, s, m or h.
fn milliseconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no duration as 100ms, 90s, 10m or 1h");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: i64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|time| *time > 0).ok_or_else(wrong)
}

fn time(text: &str) -> Result<String, String> {
    let known = from_rfc3339(text).map(|_| text.to_owned());
    known.ok_or_else(|| format!("{text:?} is no time as 2026-11-25T12:00:00Z"))
}

/// Requests, and waits where that is wanted.
///
/// # Errors
/// No such job, refused by a quota, or not all is there in time (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    if options.list {
        let listed: DetailRequests = server.get(&["jobs", &key, "detail"], &[])?;
        let text = if options.json { serde_json::to_string(&listed)? + "\n" } else { list(&listed) };
        return print(&text);
    }
    let made = request(server, &key, options)?;
    let Some(seconds) = options.wait else {
        let text = if options.json {
            serde_json::to_string(&made)? + "\n"
        } else {
            format!(
                "Request {} of {} from {} to {}.\n`throughline job record {} --list` shows what has arrived.\n",
                made.id,
                key,
                moment(made.from_ms),
                moment(made.to_ms),
                options.job
            )
        };
        return print(&text);
    };
    let done = wait(server, &key, made.id, Duration::from_secs(seconds))?;
    let text = if options.json { serde_json::to_string(&done)? + "\n" } else { outcome(&done) };
    print(&text)?;
    if done.nodes.iter().all(|node| node.state == "done") {
        return Ok(ExitCode::SUCCESS);
    }
    let why = match done.is_open {
        true => format!("request {} is not finished after {seconds} s; --list shows how far it is", done.id),
        false => format!("request {}: not all of it is there; the remarks say why", done.id),
    };
    Err(Failure::new(ExitStatus::Failed, why).into())
}

fn request(server: &Server, key: &str, options: &Options) -> anyhow::Result<DetailRequested> {
    let (last, resolution) =
        (((options.last + 999) / 1000).to_string(), options.resolution.unwrap_or(0).to_string());
    let mut query = vec![("last_seconds", last.as_str()), ("resolution_ms", resolution.as_str())];
    query.extend(options.from.as_deref().map(|from| ("from", from)));
    query.extend(options.to.as_deref().map(|to| ("to", to)));
    Ok(server.post(&["jobs", key, "detail"], &query)?)
}

fn wait(server: &Server, key: &str, id: i64, limit: Duration) -> anyhow::Result<DetailRequest> {
    let until = Instant::now() + limit;
    let number = id.to_string();
    loop {
        let found: DetailRequests = server.get(&["jobs", key, "detail"], &[("id", &number)])?;
        let Some(request) = found.requests.into_iter().next() else {
            let why = format!("the server knows no request {id} any more");
            return Err(Failure::new(ExitStatus::Failed, why).into());
        };
        if !request.is_open || Instant::now() >= until || until_stopped(PAUSE)? {
            return Ok(request);
        }
    }
}

fn moment(milliseconds: i64) -> String {
    to_rfc3339(milliseconds.saturating_mul(1_000_000))
        .get(..19)
        .map_or_else(String::new, |text| format!("{text}Z"))
}

/// What came of a request.
fn outcome(request: &DetailRequest) -> String {
    let mut table = Table::new(&["NODE", "STATE", "<RECORDS", "RECORDED FROM", "REMARK"]);
    for node in &request.nodes {
        table.row(vec![
            node.host.clone(),
            node.state.clone(),
            thousands(node.records.unsigned_abs()),
            node.recorded_from_ms.map_or_else(|| "-".to_owned(), moment),
            remark(node),
        ]);
    }
    let width = columns();
    let head = format!(
        "{} of {} from {} to {}\n\n",
        count(request.records.unsigned_abs(), "record"),
        count(request.nodes.len() as u64, "node"),
        moment(request.from_ms),
        moment(request.to_ms)
    );
    table.text().lines().fold(head, |text, line| text + &clean(line, width) + "\n")
}

fn remark(node: &DetailNode) -> String {
    let damaged = (node.damaged > 0)
        .then(|| format!("{} of its recorder are damaged", count(node.damaged.unsigned_abs(), "spot")));
    let all: Vec<String> = node.remark.clone().into_iter().chain(damaged).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

fn list(listed: &DetailRequests) -> String {
    if listed.requests.is_empty() {
        return "Nothing was requested of this job.\n".to_owned();
    }
    let mut table =
        Table::new(&["<REQUEST", "WHEN", "WHY", "<NODES", "<RECORDS", "STATE", "BY", "FROM", "TO"]);
    for one in &listed.requests {
        table.row(vec![
            one.id.to_string(),
            moment(one.requested_ms),
            one.reason.replace('_', " "),
            one.nodes.len().to_string(),
            thousands(one.records.unsigned_abs()),
            state(one),
            one.requested_by.clone().unwrap_or_else(|| "another reader".to_owned()),
            moment(one.from_ms),
            moment(one.to_ms),
        ]);
    }
    let width = columns();
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// The one state of all nodes, or how many have which.
fn state(request: &DetailRequest) -> String {
    let mut states: Vec<(&str, usize)> = Vec::new();
    for node in &request.nodes {
        match states.iter_mut().find(|(state, _)| *state == node.state) {
            Some((_, count)) => *count += 1,
            None => states.push((&node.state, 1)),
        }
    }
    match states.as_slice() {
        [(one, _)] => (*one).to_owned(),
        several => {
            several.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        let all = [("100ms", 100), ("90s", 90_000), ("10m", 600_000), ("1h", 3_600_000)];
        for (text, expected) in all {
            assert_eq!(milliseconds(text), Ok(expected));
        }
        for wrong in ["10", "0s", "-1s", "soon", "1d", "99999999999999999h"] {
            assert!(milliseconds(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn nodes_are_listed_with_what_became_of_them() {
        let node = |host: &str, state: &str, remark: Option<&str>| DetailNode {
            host: host.into(),
            state: state.into(),
            records: 1200,
            remark: remark.map(str::to_owned),
            ..DetailNode::default()
        };
        let nodes = vec![node("n1", "done", None), node("n2", "refused", Some("the recorder is off"))];
        let request = DetailRequest { id: 3, records: 2400, nodes, ..DetailRequest::default() };
        let text = outcome(&request);
        assert!(text.contains("2,400 records of 2 nodes") && text.contains("the recorder is off"), "{text}");
        assert_eq!(state(&request), "1 done, 1 refused");
        let listed = DetailRequests { requests: vec![request] };
        assert!(list(&listed).lines().nth(1).unwrap().contains("2,400"), "{}", list(&listed));
    }
}
