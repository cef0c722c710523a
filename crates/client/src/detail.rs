//! Requests for detail on demand from the command line: made, waited for and listed, whatever they are of.

use crate::pause::until_stopped;
use crate::text::{Table, clean, columns, count, thousands, whole_second};
use crate::{Answer, Server};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_api::detail::{DetailNode, DetailRequest, DetailRequested, DetailRequests};
use throughline_daemon::{ExitStatus, Failure};

/// Time between two looks at what has arrived.
const PAUSE: Duration = Duration::from_millis(300);

/// What is requested, or listed.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Where the API has it: `jobs`, its key and so on; `detail` is appended.
    pub path: &'a [&'a str],
    /// Its name in messages.
    pub name: &'a str,
    /// The command that lists what was requested of it.
    pub list: &'a str,
}

impl Subject<'_> {
    fn detail(&self) -> Vec<&str> {
        self.path.iter().copied().chain(["detail"]).collect()
    }
}

/// Lists earlier requests.
///
/// # Errors
/// See [`crate::Error`].
pub fn list_earlier(server: &Server, subject: Subject<'_>, is_json: bool) -> anyhow::Result<ExitCode> {
    let listed: Answer<DetailRequests> = server.answer(&subject.detail(), &[])?;
    print(&if is_json { listed.body + "\n" } else { list(&listed.value) })
}

/// Requests, and waits so many seconds where that is wanted.
///
/// # Errors
/// Refused by a quota, or not all is there in time (1); see [`crate::Error`].
pub fn request(
    server: &Server,
    subject: Subject<'_>,
    query: &[(&str, &str)],
    wait_seconds: Option<u64>,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let Answer { value: made, body }: Answer<DetailRequested> = server.post(&subject.detail(), query)?;
    let Some(seconds) = wait_seconds else {
        let text = if is_json {
            body + "\n"
        } else {
            format!(
                "Request {} of {} from {} to {}.\n`{}` shows what has arrived.\n",
                made.id,
                subject.name,
                whole_second(made.from_ms),
                whole_second(made.to_ms),
                subject.list
            )
        };
        return print(&text);
    };
    let (done, body) = wait(server, subject, made.id, Duration::from_secs(seconds))?;
    print(&if is_json { body + "\n" } else { outcome(&done) })?;
    if done.nodes.iter().all(|node| node.state == "done") {
        return Ok(ExitCode::SUCCESS);
    }
    let why = match done.is_open {
        true => format!("request {} is not finished after {seconds} s; --list shows how far it is", done.id),
        false => format!("request {}: not all of it is there; the remarks say why", done.id),
    };
    Err(Failure::new(ExitStatus::Failed, why).into())
}

/// The request once it is finished or the time is over, and the answer of the API that has it.
fn wait(
    server: &Server,
    subject: Subject<'_>,
    id: i64,
    limit: Duration,
) -> anyhow::Result<(DetailRequest, String)> {
    let until = Instant::now() + limit;
    let number = id.to_string();
    loop {
        let found: Answer<DetailRequests> = server.answer(&subject.detail(), &[("id", &number)])?;
        let Some(request) = found.value.requests.into_iter().next() else {
            let why = format!("the server knows no request {id} any more");
            return Err(Failure::new(ExitStatus::Failed, why).into());
        };
        if !request.is_open || Instant::now() >= until || until_stopped(PAUSE)? {
            return Ok((request, found.body));
        }
    }
}

/// What came of a request.
fn outcome(request: &DetailRequest) -> String {
    let mut table = Table::new(&["NODE", "STATE", "<RECORDS", "RECORDED FROM", "REMARK"]);
    for node in &request.nodes {
        table.row(vec![
            node.host.clone(),
            node.state.clone(),
            thousands(node.records.unsigned_abs()),
            node.recorded_from_ms.map_or_else(|| "-".to_owned(), whole_second),
            remark(node),
        ]);
    }
    let width = columns();
    let head = format!(
        "{} of {} from {} to {}\n\n",
        count(request.records.unsigned_abs(), "record"),
        count(request.nodes.len() as u64, "node"),
        whole_second(request.from_ms),
        whole_second(request.to_ms)
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
        return "Nothing was requested of it.\n".to_owned();
    }
    let mut table =
        Table::new(&["<REQUEST", "WHEN", "WHY", "<NODES", "<RECORDS", "STATE", "BY", "FROM", "TO"]);
    for one in &listed.requests {
        table.row(vec![
            one.id.to_string(),
            whole_second(one.requested_ms),
            one.reason.replace('_', " "),
            one.nodes.len().to_string(),
            thousands(one.records.unsigned_abs()),
            state(one),
            one.requested_by.clone().unwrap_or_else(|| "another reader".to_owned()),
            whole_second(one.from_ms),
            whole_second(one.to_ms),
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
