//! Who looks at jobs, as `job show` and a page do: the live request, until its figures are there, and then the job.

use std::time::{Duration, Instant};
use throughline_api::jobs::JobDetail;
use throughline_api::live::JobLive;
use throughline_benches::site::now;
use throughline_client::{Error, Server, Settings};
use tokio::task::JoinHandle;

/// Who look.
pub const VIEWERS: usize = 20;

/// So long figures of now are waited for, as by the commands.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// From one look of a viewer to the next.
const EACH: Duration = Duration::from_secs(5);

/// One look.
struct Look {
    /// Until the job was read, seconds.
    took: f64,
    /// Whether figures of all nodes were there in time.
    is_whole: bool,
    /// How old they were then, seconds.
    age: Option<f64>,
}

/// Looks of several viewers.
#[derive(Default)]
pub struct Looks(Vec<Look>);

impl Looks {
    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds others.
    pub fn extend(&mut self, others: Looks) {
        self.0.extend(others.0);
    }

    /// Which share had figures of all nodes, and all that was read, within so many seconds.
    pub fn share_within(&self, seconds: f64) -> f64 {
        let in_time = self.0.iter().filter(|look| look.is_whole && look.took <= seconds).count();
        in_time as f64 / self.0.len().max(1) as f64
    }

    /// Prints how long they took, and how old figures were.
    pub fn print(&self, what: &str) {
        let percentiles = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let at = |share: f64| {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an index
                let index = (share * (values.len().saturating_sub(1)) as f64).round() as usize;
                values.get(index).copied().unwrap_or(f64::NAN)
            };
            format!("median {:.2} s, 95 % {:.2} s, longest {:.2} s", at(0.5), at(0.95), at(1.0))
        };
        let took = percentiles(self.0.iter().map(|look| look.took).collect());
        let ages = percentiles(self.0.iter().filter_map(|look| look.age).collect());
        let whole = self.0.iter().filter(|look| look.is_whole).count();
        println!("{what}: {} ({whole} with all nodes): {took}; figures then: {ages} old", self.count());
    }
}

fn server(url: &str) -> anyhow::Result<Server> {
    let settings = Settings { server: url.to_owned(), token: None, token_source: None, ca_file: None };
    Server::new(settings).map_err(|error| anyhow::anyhow!("{error}"))
}

/// Viewers of these jobs, each of one, who look on and on for a while.
pub fn look(url: &str, jobs: &[String], time: Duration) -> Vec<JoinHandle<anyhow::Result<Looks>>> {
    viewers(url, jobs, Some(time), EACH)
}

/// The same, each of whom looks once within a while.
pub fn look_once(url: &str, jobs: &[String], within: Duration) -> Vec<JoinHandle<anyhow::Result<Looks>>> {
    viewers(url, jobs, None, within)
}

fn viewers(
    url: &str,
    jobs: &[String],
    time: Option<Duration>,
    spread: Duration,
) -> Vec<JoinHandle<anyhow::Result<Looks>>> {
    let viewer = |number: usize| {
        let (url, key) = (url.to_owned(), jobs[number % jobs.len()].clone());
        let pause = spread.mul_f64(number as f64 / VIEWERS as f64);
        tokio::task::spawn_blocking(move || {
            let server = server(&url)?;
            std::thread::sleep(pause);
            let (begun, mut looks) = (Instant::now(), Looks::default());
            loop {
                let at = Instant::now();
                looks.0.push(one(&server, &key)?);
                if time.is_none_or(|time| begun.elapsed() >= time) {
                    return Ok(looks);
                }
                std::thread::sleep(EACH.saturating_sub(at.elapsed()));
            }
        })
    };
    (0..VIEWERS).map(viewer).collect()
}

/// What all of them saw.
pub async fn gathered(viewers: Vec<JoinHandle<anyhow::Result<Looks>>>) -> anyhow::Result<Looks> {
    let mut all = Looks::default();
    for viewer in viewers {
        all.extend(viewer.await??);
    }
    Ok(all)
}

fn one(server: &Server, key: &str) -> anyhow::Result<Look> {
    let begun = Instant::now();
    let mut live = server.post::<JobLive>(&["jobs", key, "live"], &[])?.value;
    let is_whole = |live: &JobLive| live.absent_nodes == 0 && live.as_of_ms.is_some();
    while !is_whole(&live) && begun.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
        live = server.get(&["jobs", key, "live"], &[])?;
    }
    let _: JobDetail = server.get(&["jobs", key], &[])?;
    let age = live.as_of_ms.map(|time| (now().unwrap_or(0) / 1_000_000 - time) as f64 / 1e3);
    Ok(Look { took: begun.elapsed().as_secs_f64(), is_whole: is_whole(&live), age })
}

/// Why a job is not shown live; `None` where it is.
pub async fn refusal(url: &str, key: &str) -> anyhow::Result<Option<String>> {
    let (url, key) = (url.to_owned(), key.to_owned());
    let answer = tokio::task::spawn_blocking(move || {
        let server = server(&url)?;
        Ok::<_, anyhow::Error>(match server.post::<JobLive>(&["jobs", &key, "live"], &[]) {
            Ok(_) => None,
            Err(Error::Api { error, .. }) => Some(error.text()),
            Err(error) => return Err(error.into()),
        })
    });
    answer.await?
}
