//! Counters of the largest contributors of links, for Prometheus: cumulative sums of the windows that this process made, within
//! a bound on the number of series. Quiet series go, and the largest take the place of the smallest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use throughline_daemon::{Expose, Page};
use throughline_sample::catalogue::{LINK_BYTES, LINK_JOB_BYTES, LINK_UNMONITORED_BYTES};
use throughline_store::LinkContribution;

/// Contributors of one direction of a link.
pub const OF_A_LINK: i64 = 8;

/// Series of contributors in all. A scrape of 2,000 lines is some 400 kB.
const SERIES_MAX: usize = 2000;

/// A series that did not grow for so long is removed: longer than an alert looks back.
const QUIET: Duration = Duration::from_secs(600);

/// The series; clones share them.
#[derive(Clone, Debug, Default)]
pub struct LinkSeries(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    contributors: BTreeMap<Key, Sum>,
    /// What the ports of these counted, by GUID and port.
    ports: BTreeMap<(String, i32), u64>,
}

/// Labels of a contributor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    guid: String,
    port: i32,
    contributor: String,
    job: Option<String>,
    job_key: Option<String>,
    user: Option<String>,
    operation: Option<String>,
    name: Option<String>,
    known: String,
}

impl Key {
    fn of(one: &LinkContribution) -> Key {
        Key {
            guid: one.guid.clone(),
            port: one.port,
            contributor: one.contributor.clone(),
            job: one.job.clone(),
            job_key: one.job_key.clone(),
            user: one.user.clone(),
            operation: one.operation.clone(),
            name: one.name.clone(),
            known: one.known.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    bytes: u64,
    /// The window in which it last grew, and by how much.
    grown: SystemTime,
    by: u64,
}

impl LinkSeries {
    /// Adds contributions in the order of time; returns how many found no room.
    pub fn add(&self, made: &[LinkContribution]) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.chunk_by(|one, next| one.time == next.time).map(|window| state.add(window)).sum()
    }
}

impl State {
    fn add(&mut self, window: &[LinkContribution]) -> u64 {
        let Some(now) = window.first().map(|one| one.time) else { return 0 };
        let is_quiet = |sum: &Sum| now.duration_since(sum.grown).is_ok_and(|since| since > QUIET);
        self.contributors.retain(|_, sum| !is_quiet(sum));
        let (ports, contributors): (Vec<_>, Vec<_>) =
            window.iter().partition(|one| one.contributor == "rest");
        let mut new = Vec::new();
        for one in contributors {
            match self.contributors.get_mut(&Key::of(one)) {
                Some(sum) => {
                    *sum = Sum { bytes: sum.bytes.saturating_add(one.bytes), grown: now, by: one.bytes };
                }
                None => new.push(one),
            }
        }
        let left_out = self.admit(&new, now);
        let shown = self.contributors.keys().map(|key| (key.guid.clone(), key.port)).collect::<Vec<_>>();
        self.ports.retain(|port, _| shown.binary_search(port).is_ok());
        for one in ports {
            let port = (one.guid.clone(), one.port);
            if shown.binary_search(&port).is_ok() {
                let sum = self.ports.entry(port).or_default();
                *sum = sum.saturating_add(one.counted);
            }
        }
        left_out
    }

    /// Makes series of new contributors, the largest first, in place of smaller ones where there is no room.
    fn admit(&mut self, new: &[&LinkContribution], now: SystemTime) -> u64 {
        let room = SERIES_MAX.saturating_sub(self.contributors.len());
        let mut victims: Vec<(u64, Key)> = Vec::new();
        if new.len() > room {
            let by = |sum: &Sum| if sum.grown == now { sum.by } else { 0 };
            victims = self.contributors.iter().map(|(key, sum)| (by(sum), key.clone())).collect();
            victims.sort();
        }
        let (mut victims, mut left_out) = (victims.into_iter(), 0);
        for one in new {
            if self.contributors.len() >= SERIES_MAX {
                // Twice as large: two of about the same size must not take each other's place in turns.
                let Some((_, key)) = victims.next().filter(|(by, _)| by.saturating_mul(2) < one.bytes) else {
                    left_out += 1;
                    continue;
                };
                self.contributors.remove(&key);
            }
            self.contributors.insert(Key::of(one), Sum { bytes: one.bytes, grown: now, by: one.bytes });
        }
        left_out
    }
}

impl Expose for LinkSeries {
    fn expose(&self, page: &mut Page) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, sum) in &state.contributors {
            let port = key.port.to_string();
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            let (job, operation, job_key) = (text(&key.job), text(&key.operation), text(&key.job_key));
            let (user, name) = (text(&key.user), text(&key.name));
            if key.contributor == "job" {
                let labels = [
                    ("guid", key.guid.as_str()),
                    ("port", &port),
                    ("job", &job),
                    ("operation", &operation),
                    ("job_key", &job_key),
                    ("user", &user),
                    ("known", &key.known),
                ];
                page.counter(LINK_JOB_BYTES.name, LINK_JOB_BYTES.help, &labels, sum.bytes);
            } else {
                let labels = [
                    ("guid", key.guid.as_str()),
                    ("port", &port),
                    ("contributor", &key.contributor),
                    ("name", &name),
                    ("known", &key.known),
                ];
                page.counter(LINK_UNMONITORED_BYTES.name, LINK_UNMONITORED_BYTES.help, &labels, sum.bytes);
            }
        }
        for ((guid, port), bytes) in &state.ports {
            let labels = [("guid", guid.as_str()), ("port", &port.to_string())];
            page.counter(LINK_BYTES.name, LINK_BYTES.help, &labels, *bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use throughline_daemon::Format;

    fn one(second: u64, port: i32, contributor: &str, who: &str, bytes: u64) -> LinkContribution {
        let is_job = contributor == "job";
        LinkContribution {
            time: UNIX_EPOCH + Duration::from_secs(second),
            guid: "0xa1".into(),
            port,
            contributor: contributor.into(),
            job: is_job.then(|| who.into()),
            job_key: is_job.then(|| format!("slurm:{who}.0@1000")),
            user: is_job.then(|| "alice".into()),
            operation: is_job.then(|| "alltoall".into()),
            name: (!is_job).then(|| who.into()),
            known: if is_job { "modelled" } else { "unreported" }.into(),
            bytes,
            counted: 1000,
        }
    }

    fn text(series: &LinkSeries) -> String {
        let mut page = Page::default();
        series.expose(&mut page);
        page.encode(Format::Text)
    }

    #[test]
    fn sums_of_windows_with_what_they_are_of() {
        let series = LinkSeries::default();
        for second in [10, 20] {
            let window = [
                one(second, 5, "job", "4711", 620),
                one(second, 5, "host", "n07", 360),
                one(second, 5, "rest", "", 20),
                // No contributor is known: nothing to divide.
                one(second, 6, "rest", "", 1000),
            ];
            assert_eq!(series.add(&window), 0);
        }
        let text = text(&series);
        for line in [
            "throughline_link_job_transmit_bytes_total{guid=\"0xa1\",port=\"5\",job=\"4711\",operation=\"alltoall\",\
             job_key=\"slurm:4711.0@1000\",user=\"alice\",known=\"modelled\"} 1240",
            "throughline_link_unmonitored_transmit_bytes_total{guid=\"0xa1\",port=\"5\",contributor=\"host\",\
             name=\"n07\",known=\"unreported\"} 720",
            "throughline_link_transmit_bytes_total{guid=\"0xa1\",port=\"5\"} 2000",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("port=\"6\""), "{text}");
    }

    #[test]
    fn quiet_series_go_with_their_port() {
        let series = LinkSeries::default();
        series.add(&[one(10, 5, "job", "1", 620), one(10, 5, "rest", "", 380)]);
        series.add(&[one(610, 6, "job", "2", 620), one(610, 6, "rest", "", 380)]);
        assert!(text(&series).contains("port=\"5\""));
        series.add(&[one(620, 6, "job", "2", 620), one(620, 6, "rest", "", 380)]);
        assert!(!text(&series).contains("port=\"5\"") && text(&series).contains("port=\"6\""));
    }

    #[test]
    fn the_number_of_series_is_bounded_and_the_largest_stay() {
        let series = LinkSeries::default();
        let first: Vec<_> = (0..2500).map(|port| one(10, port, "job", "1", 10_000 - port as u64)).collect();
        assert_eq!(series.add(&first), 500);
        let lines = |text: &str| text.lines().filter(|line| line.starts_with("throughline_link_job")).count();
        assert_eq!(lines(&text(&series)), SERIES_MAX);
        // Those of before go on, a much larger one takes the place of the smallest, one of about the same size does not.
        let mut second: Vec<_> = first[..2000].to_vec();
        second.iter_mut().for_each(|one| one.time += Duration::from_secs(10));
        second.push(one(20, 9000, "job", "2", 90_000));
        second.push(one(20, 9001, "job", "2", 9_000));
        second.sort_by_key(|one| std::cmp::Reverse(one.bytes));
        assert_eq!(series.add(&second), 1);
        let text = text(&series);
        assert_eq!(lines(&text), SERIES_MAX);
        assert!(
            text.contains("port=\"9000\"")
                && !text.contains("port=\"9001\"")
                && !text.contains("port=\"1999\"")
        );
    }
}
