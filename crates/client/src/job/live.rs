//! The live request of commands that look at jobs that run: their nodes then send figures of each second, and what is read after that is
//! of now. All who look at a job share one request.
//!
//! Where there are no such figures a sentence on the standard error says why, and the command goes on with those that are stored.

use crate::text::{clean, count, whole_second};
use crate::{Error, Server};
use std::time::{Duration, Instant};
use throughline_api::as_of::NodeBehind;
use throughline_api::live::JobLive;

/// So long figures of now are waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two questions whether they are there.
const PAUSE: Duration = Duration::from_millis(200);
/// The request of a job that is looked at on and on is made again after this time: it holds for three times as long.
const AGAIN: Duration = Duration::from_secs(6);
/// Jobs of `job top` that are shown live: half of all that may be at a time, unless a site has other limits.
const TOP_JOBS: usize = 4;
/// Nodes without figures that are named.
const NODES_NAMED: usize = 3;

/// Looks at a job: returns once its figures are of now, or after [`PATIENCE`]. One that has ended has final ones.
pub fn look(server: &Server, key: &str) {
    for note in wait(server, &[key]) {
        eprintln!("throughline: {note}");
    }
}

/// The jobs that `job top` has first.
#[derive(Debug, Default)]
pub struct TopJobs {
    requested: Option<Instant>,
    /// What is to be said of those whose figures are not of now.
    pub notes: Vec<String>,
}

impl TopJobs {
    /// Makes the requests of the first of these jobs, as often as they need it; with `is_waiting` it waits until their figures are of now.
    pub fn look(&mut self, server: &Server, keys: &[String], is_waiting: bool) {
        if !is_waiting && self.requested.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        self.requested = Some(Instant::now());
        let keys: Vec<&str> = keys.iter().take(TOP_JOBS).map(String::as_str).collect();
        self.notes = match is_waiting {
            true => wait(server, &keys),
            false => keys.iter().filter_map(|key| request(server, key).err()).collect(),
        };
        self.notes.dedup();
    }
}

/// Requests, and waits until there are figures of all jobs; a sentence on each that has none.
fn wait(server: &Server, keys: &[&str]) -> Vec<String> {
    let until = Instant::now() + PATIENCE;
    let mut notes = Vec::new();
    let mut waiting = Vec::new();
    for key in keys {
        match request(server, key) {
            Ok(Some(live)) => waiting.push((*key, live)),
            Ok(None) => {}
            Err(note) => notes.push(note),
        }
    }
    loop {
        waiting.retain(|(_, live)| !is_there(live));
        if waiting.is_empty() {
            break;
        }
        if Instant::now() >= until {
            notes.extend(waiting.iter().map(|(_, live)| missing(live)));
            break;
        }
        std::thread::sleep(PAUSE);
        for (key, live) in &mut waiting {
            // A server that does not answer is named by what is read next.
            if let Ok(now) = server.get::<JobLive>(&["jobs", key, "live"], &[]) {
                *live = now;
            }
        }
    }
    notes
}

/// The request of a job; `None` where it has ended, or the server does not answer, which what is read next says.
fn request(server: &Server, key: &str) -> Result<Option<JobLive>, String> {
    match server.post::<JobLive>(&["jobs", key, "live"], &[]) {
        Ok(live) if live.value.has_ended => Ok(None),
        Ok(live) => Ok(Some(live.value)),
        // Nothing of its ranks is known.
        Err(Error::Api { error, .. }) if error.code == "not_found" => Ok(None),
        Err(Error::Api { error, .. }) => Err(stored(&error.text())),
        Err(Error::Denied { cause, remedy, .. }) => Err(stored(&format!("{cause}; {remedy}"))),
        Err(_) => Ok(None),
    }
}

fn is_there(live: &JobLive) -> bool {
    live.has_ended || live.nodes == 0 || (live.absent_nodes == 0 && live.as_of_ms.is_some())
}

fn stored(why: &str) -> String {
    format!("figures are the stored ones, not those of now: {}", clean(why, 500))
}

/// Which nodes have not sent their figures in time.
fn missing(live: &JobLive) -> String {
    let seconds = PATIENCE.as_secs();
    if live.as_of_ms.is_none() {
        return stored(&format!("none of {} answered within {seconds} s", count(live.nodes, "node")));
    }
    let node = |behind: &NodeBehind| {
        let name = clean(&behind.node, 64);
        behind.time_ms.map_or_else(
            || format!("{name} (nothing yet)"),
            |time| format!("{name} (as of {})", whole_second(time)),
        )
    };
    let mut named: Vec<String> = live.absent.iter().take(NODES_NAMED).map(node).collect();
    let more = live.absent_nodes.saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!(
        "{} of {} did not answer within {seconds} s, and have their newest figures in the sums: {}",
        live.absent_nodes,
        count(live.nodes, "node"),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_sentence() {
        let node = |node: &str, time_ms| NodeBehind { node: node.into(), time_ms };
        let none = JobLive { nodes: 2, absent_nodes: 2, ..JobLive::default() };
        assert_eq!(
            missing(&none),
            "figures are the stored ones, not those of now: none of 2 nodes answered within 3 s"
        );
        assert!(!is_there(&none));
        let absent =
            vec![node("n1", None), node("n2", Some(1_767_225_600_000)), node("n3", None), node("n4", None)];
        let some = JobLive { nodes: 622, absent_nodes: 7, as_of_ms: Some(1), absent, ..JobLive::default() };
        assert_eq!(
            missing(&some),
            "7 of 622 nodes did not answer within 3 s, and have their newest figures in the sums: n1 (nothing yet), \
             n2 (as of 2026-01-01T00:00:00Z), n3 (nothing yet), 4 more"
        );
        let all = JobLive { nodes: 3, as_of_ms: Some(1), ..JobLive::default() };
        assert!(is_there(&all) && !is_there(&some) && !is_there(&JobLive { as_of_ms: None, ..all }));
        assert!(is_there(&JobLive { has_ended: true, ..none }));
    }
}
