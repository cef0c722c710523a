//! What `/healthz` of `serve` reports: the database away or its disk full, its replica away or behind, nothing stored, upkeep
//! stuck.
//!
//! A task observes the database and the metrics of the roles; the page itself queries nothing and waits for nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use throughline_api::status::ReplicaState;
use throughline_daemon::{Condition, Health, SelfMetrics};
use throughline_query::ReadPath;
use throughline_sample::catalogue::{COMMITS, SOURCE_UP};
use throughline_sample::row_rules::DEFAULT;
use throughline_store::{Database, DiskSpace};
use tokio_util::sync::CancellationToken;

/// How often the database is looked at: one trivial statement.
const INTERVAL: Duration = Duration::from_secs(3);

/// How long it may take to answer that.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long upkeep may fail before the page is failing and not only degraded: a round of it may take 600 s.
const UPKEEP_LIMIT: Duration = Duration::from_secs(900);

/// With less than this free, a private database's disk will soon be full.
const LOW_BYTES: u64 = 1 << 30;

/// Which roles this server has.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// It takes batches.
    pub collect: bool,
    /// It keeps the database within its retention.
    pub upkeep: bool,
}

/// The health of `serve`; cheap to clone.
#[derive(Clone, Debug)]
pub struct ServeHealth {
    database: Database,
    read: ReadPath,
    metrics: SelfMetrics,
    roles: Roles,
    observed: Arc<Mutex<DatabaseObservation>>,
}

/// What the last look found.
#[derive(Debug)]
struct DatabaseObservation {
    /// Why the database does not answer; `None` once it did.
    away: Option<String>,
    space: Option<DiskSpace>,
    commits: f64,
    last_commit: Instant,
    upkeep_failing_since: Option<Instant>,
}

impl ServeHealth {
    /// Nothing observed yet, so the database counts as away.
    pub fn new(database: Database, read: ReadPath, metrics: SelfMetrics, roles: Roles) -> Self {
        let observed = DatabaseObservation {
            away: Some("not connected yet".to_owned()),
            space: None,
            commits: 0.0,
            last_commit: Instant::now(),
            upkeep_failing_since: None,
        };
        Self { database, read, metrics, roles, observed: Arc::new(Mutex::new(observed)) }
    }

    /// Looks again and again until `stop`.
    pub async fn watch(self, stop: CancellationToken) {
        let mut client = None;
        loop {
            let probe = tokio::time::timeout(ANSWER_LIMIT, self.probe(&mut client)).await;
            let away = match probe {
                Ok(Ok(())) => None,
                Ok(Err(cause)) => Some(cause),
                Err(_) => Some(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
            };
            if away.is_some() {
                client = None;
            }
            self.note(away, self.database.disk_space(), Instant::now());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn probe(&self, client: &mut Option<tokio_postgres::Client>) -> Result<(), String> {
        let session = match client.take() {
            Some(session) => session,
            None => self.database.connect_reader().await.map_err(|error| error.to_string())?,
        };
        throughline_store::probe(&session).await.map_err(|error| error.to_string())?;
        *client = Some(session);
        Ok(())
    }

    fn note(&self, away: Option<String>, space: Option<DiskSpace>, now: Instant) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.metrics.get("collector", &COMMITS).unwrap_or(0.0);
        if commits > observed.commits || away.is_some() {
            // While the database is away that is the reason, and afterwards the time begins anew.
            observed.last_commit = now;
        }
        let upkeep_fails = self.metrics.get("upkeep", &SOURCE_UP) == Some(0.0);
        let since = observed.upkeep_failing_since.unwrap_or(now);
        observed.upkeep_failing_since = upkeep_fails.then_some(since);
        (observed.commits, observed.away, observed.space) = (commits, away, space);
    }

    fn conditions_at(&self, now: Instant) -> Vec<Condition> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut conditions = Vec::new();
        if let Some(cause) = &observed.away {
            conditions.push(Condition::failing(format!("database {}: {cause}", self.database.place())));
        }
        if let Some(space) = &observed.space {
            let free = format!("{} MB free in {}", space.free_bytes >> 20, space.folder.display());
            let remedy = "free some, or shorten [retention] in server.toml";
            if space.is_full() {
                conditions.push(Condition::failing(format!("database: its disk is full: {free}; {remedy}")));
            } else if space.free_bytes < LOW_BYTES {
                conditions.push(Condition::degraded(format!("database: {free}; {remedy}")));
            }
        }
        if let Some(replica) = self.read.status().filter(|replica| replica.state != ReplicaState::Used) {
            let why = replica.reason.unwrap_or_default();
            let text = format!("replica {}: {why}; readers use the primary", replica.place);
            conditions.push(Condition::degraded(text));
        }
        let silent = now.saturating_duration_since(observed.last_commit);
        // It stores its own metrics, whatever arrives: without any it is stuck.
        if self.roles.collect && silent > DEFAULT.largest_gap() {
            conditions.push(Condition::failing(format!(
                "collector: nothing was stored for {} s, not even its own metrics; its log has the reason",
                silent.as_secs()
            )));
        }
        if let Some(since) = observed.upkeep_failing_since.filter(|_| self.roles.upkeep) {
            let failing = now.saturating_duration_since(since);
            let text = format!("upkeep: fails for {} s; its log has the reason", failing.as_secs());
            let is_stuck = failing > UPKEEP_LIMIT;
            conditions.push(if is_stuck { Condition::failing(text) } else { Condition::degraded(text) });
        }
        conditions
    }
}

impl Health for ServeHealth {
    fn conditions(&self) -> Vec<Condition> {
        self.conditions_at(Instant::now())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_daemon::Level;

    fn health() -> (ServeHealth, SelfMetrics) {
        let metrics = SelfMetrics::default();
        let database = Database::from_url("host=/nonexistent user=x dbname=x").unwrap();
        let roles = Roles { collect: true, upkeep: true };
        (ServeHealth::new(database.clone(), database.into(), metrics.clone(), roles), metrics)
    }

    fn found(health: &ServeHealth, now: Instant) -> Vec<(Level, String)> {
        health.conditions_at(now).into_iter().map(|condition| (condition.level, condition.text)).collect()
    }

    #[test]
    fn a_database_that_is_away_or_full_is_named() {
        let (health, _) = health();
        let now = Instant::now();
        assert!(
            matches!(&found(&health, now)[..], [(Level::Failing, text)] if text.contains("not connected"))
        );
        health.note(None, None, now);
        assert_eq!(found(&health, now), []);
        let space = |free_bytes| Some(DiskSpace { folder: "/srv/db".into(), free_bytes });
        health.note(None, space(900 << 20), now);
        assert!(matches!(&found(&health, now)[..], [(Level::Degraded, text)] if text.contains("900 MB")));
        health.note(None, space(5 << 20), now);
        let [(Level::Failing, text)] = &found(&health, now)[..] else { panic!("{:?}", found(&health, now)) };
        assert!(text.contains("5 MB free in /srv/db") && text.contains("[retention]"), "{text}");
    }

    #[test]
    fn a_replica_that_readers_do_not_use_is_named_and_stops_nothing() {
        let (health, metrics) = health();
        let nowhere = || Database::from_url("host=/nonexistent user=x dbname=x").unwrap();
        let read = ReadPath::with_replica(nowhere(), nowhere(), Duration::from_secs(30), metrics);
        let health = ServeHealth { read, ..health };
        health.note(None, None, Instant::now());
        let found = found(&health, Instant::now());
        let [(Level::Degraded, text)] = &found[..] else { panic!("{found:?}") };
        assert!(text.contains("not looked at yet") && text.contains("use the primary"), "{text}");
    }

    #[test]
    fn a_collector_that_stores_nothing_and_an_upkeep_that_fails_are_named() {
        let (health, metrics) = health();
        let start = Instant::now();
        health.note(None, None, start);
        metrics.add("collector", &COMMITS, 1);
        metrics.set("upkeep", &SOURCE_UP, 0.0);
        health.note(None, None, start + Duration::from_secs(50));
        let at = |seconds| found(&health, start + Duration::from_secs(seconds));
        assert!(matches!(&at(100)[..], [(Level::Degraded, text)] if text.contains("upkeep: fails for 50 s")));
        let [(Level::Failing, stored), (Level::Degraded, _)] = &at(126)[..] else { panic!("{:?}", at(126)) };
        assert!(stored.contains("nothing was stored for 76 s"), "{stored}");
        assert_eq!(at(960).iter().filter(|(level, _)| *level == Level::Failing).count(), 2);
        // Both go on.
        metrics.add("collector", &COMMITS, 1);
        metrics.set("upkeep", &SOURCE_UP, 1.0);
        health.note(None, None, start + Duration::from_secs(960));
        assert_eq!(at(960), []);
    }
}
