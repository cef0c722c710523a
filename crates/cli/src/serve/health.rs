//! What `/healthz` of `serve` reports: the database away, read-only or its disk full, reads that fail, its replica away or behind,
//! nothing stored, upkeep stuck, reading roles that are missing or were altered.
//!
//! A task observes the database and the metrics of the roles; the page itself queries nothing and waits for nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use throughline_api::status::ReplicaState;
use throughline_collector::OwnClock;
use throughline_daemon::{Condition, Health, SelfMetrics};
use throughline_query::{Pool, ReadPath, jobs};
use throughline_sample::catalogue::{COMMITS, READER_ROLES_MISSING, READER_SETTINGS_RESET, SOURCE_UP};
use throughline_sample::row_rules::DEFAULT;
use throughline_store::{Database, DiskSpace, reader_role_statements};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

/// How often the database is looked at: one trivial statement.
const INTERVAL: Duration = Duration::from_secs(3);

/// How often it is read and written as the roles do, by new sessions: those that are open may go on where no other one begins.
const READ_INTERVAL: Duration = Duration::from_secs(30);

/// How long it may take to answer that.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long upkeep may fail before the page is failing and not only degraded: a round of it may take 600 s.
const UPKEEP_LIMIT: Duration = Duration::from_secs(900);

/// How long it is shown that settings of a reading role were reset.
const RESET_SHOWN: Duration = Duration::from_secs(3600);

/// With less than this free, a private database's disk will soon be full.
const LOW_BYTES: u64 = 1 << 30;

/// Which roles this server has.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// It takes batches.
    pub collect: bool,
    /// It answers readers.
    pub query: bool,
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
    clock: OwnClock,
    observed: Arc<Mutex<DatabaseObservation>>,
}

/// What the last look found.
#[derive(Debug)]
struct DatabaseObservation {
    /// Why the database does not answer; `None` once it did.
    away: Option<String>,
    /// Why readers get no answer, although it does.
    reads: Option<String>,
    /// Why it takes no batches, although it answers.
    writes: Option<String>,
    space: Option<DiskSpace>,
    commits: f64,
    last_commit: Instant,
    upkeep_failing_since: Option<Instant>,
    resets: f64,
    last_reset: Option<Instant>,
}

/// The sessions by which the database is looked at.
#[derive(Default)]
struct ProbeSessions {
    reader: Option<Client>,
    writer: Option<Client>,
}

impl ServeHealth {
    /// Nothing observed yet, so the database counts as away.
    pub fn new(database: Database, read: ReadPath, metrics: SelfMetrics, roles: Roles) -> Self {
        let observed = DatabaseObservation {
            away: Some("not connected yet".to_owned()),
            reads: None,
            writes: None,
            space: None,
            commits: 0.0,
            last_commit: Instant::now(),
            upkeep_failing_since: None,
            resets: 0.0,
            last_reset: None,
        };
        let (clock, observed) = (OwnClock::default(), Arc::new(Mutex::new(observed)));
        Self { database, read, metrics, roles, clock, observed }
    }

    /// Shows what role collect finds its own clock to be.
    #[must_use]
    pub fn with_clock(self, clock: OwnClock) -> Self {
        Self { clock, ..self }
    }

    /// Looks again and again until `stop`.
    pub async fn watch(self, stop: CancellationToken) {
        let (mut sessions, mut read_due) = (ProbeSessions::default(), Instant::now());
        let (mut reads, mut writes) = (None, None);
        loop {
            let is_due = Instant::now() >= read_due;
            if is_due {
                sessions = ProbeSessions::default();
                read_due = Instant::now() + READ_INTERVAL;
            }
            let away = in_time(self.probe(&mut sessions.reader)).await;
            if away.is_some() {
                sessions = ProbeSessions::default();
            } else {
                // What failed is looked at each time.
                if self.roles.query && (is_due || reads.is_some()) {
                    reads = in_time(self.read_jobs()).await;
                }
                if self.roles.collect {
                    writes = in_time(self.probe_writes(&mut sessions.writer)).await;
                }
            }
            self.note(away, self.database.disk_space(), Instant::now());
            self.note_access(reads.clone(), writes.clone());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn probe(&self, client: &mut Option<Client>) -> Result<(), String> {
        let session = match client.take() {
            Some(session) => session,
            None => self.database.connect_reader().await.map_err(|error| error.to_string())?,
        };
        throughline_store::probe(&session).await.map_err(|error| error.to_string())?;
        *client = Some(session);
        Ok(())
    }

    /// Reads as the pages do, by a session of its own: a job that does not exist, which costs little however many there are. Of
    /// the primary: what a replica answers, [`ReadPath`] observes.
    async fn read_jobs(&self) -> Result<(), String> {
        let pool = Pool::new(self.database.clone(), 1, ANSWER_LIMIT);
        let client = pool.get(ANSWER_LIMIT).await.map_err(|error| error.to_string())?;
        let Some(session) = client.client() else { return Ok(()) };
        jobs::by_id(session, 0).await.map_err(|error| error.to_string())?;
        client.release().await;
        Ok(())
    }

    /// Whether a session of the writer may write.
    async fn probe_writes(&self, client: &mut Option<Client>) -> Result<(), String> {
        let session = match client.take() {
            Some(session) => session,
            None => self.database.connect().await.map_err(|error| error.to_string())?,
        };
        let is_read_only =
            throughline_store::is_read_only(&session).await.map_err(|error| error.to_string())?;
        *client = Some(session);
        if is_read_only {
            return Err("it is read-only: a standby, or default_transaction_read_only is on".to_owned());
        }
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
        let resets = self.metrics.get("readers", &READER_SETTINGS_RESET).unwrap_or(0.0);
        if resets > observed.resets {
            observed.last_reset = Some(now);
        }
        observed.resets = resets;
    }

    fn note_access(&self, reads: Option<String>, writes: Option<String>) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        (observed.reads, observed.writes) = (reads, writes);
    }

    /// What the database says of those who read and write, while it answers.
    fn access_conditions(&self, observed: &DatabaseObservation, now: Instant) -> Vec<Condition> {
        let (place, mut conditions) = (self.database.place(), Vec::new());
        if let Some(cause) = &observed.reads {
            conditions.push(Condition::failing(format!("query: reads of {place} fail: {cause}")));
        }
        if let Some(cause) = &observed.writes {
            let text = format!(
                "collector: database {place} takes no batches: {cause}; they wait in the spools of agents and crawlers"
            );
            conditions.push(Condition::degraded(text));
        }
        if self.metrics.get("readers", &READER_ROLES_MISSING).is_some_and(|missing| missing > 0.0) {
            let statements = reader_role_statements(self.database.user()).join("; ");
            conditions.push(Condition::degraded(format!(
                "database {place}: roles that only read are missing, and its owner may make none: let the administrator run {statements}"
            )));
        }
        let reset = observed.last_reset.map(|last| now.saturating_duration_since(last));
        if let Some(since) = reset.filter(|since| *since < RESET_SHOWN) {
            conditions.push(Condition::degraded(format!(
                "database {place}: a reading role had altered its settings or password, which were reset {} min ago; the \
                 event reader.reset and the log name them",
                since.as_secs() / 60
            )));
        }
        conditions
    }

    fn conditions_at(&self, now: Instant) -> Vec<Condition> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut conditions = Vec::new();
        if let Some(cause) = &observed.away {
            conditions.push(Condition::failing(format!("database {}: {cause}", self.database.place())));
        }
        if observed.away.is_none() {
            conditions.extend(self.access_conditions(&observed, now));
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
        if let Some(fault) = self.clock.fault() {
            conditions.push(Condition::failing(format!("clock: {fault}")));
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

/// Why it failed; `None` where it was done in time.
async fn in_time(work: impl Future<Output = Result<(), String>>) -> Option<String> {
    match tokio::time::timeout(ANSWER_LIMIT, work).await {
        Ok(done) => done.err(),
        Err(_) => Some(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
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
        let roles = Roles { collect: true, query: true, upkeep: true };
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

    #[tokio::test]
    async fn reads_that_fail_and_a_database_that_takes_no_batches_are_named() {
        let database = throughline_store::testing::database().await;
        let owner = database.connect().await.unwrap();
        let (health, _) = health();
        let health = ServeHealth { database: database.clone(), ..health };
        let looked = async || {
            let reads = in_time(health.read_jobs()).await;
            let writes = in_time(health.probe_writes(&mut None)).await;
            health.note(in_time(health.probe(&mut None)).await, None, Instant::now());
            health.note_access(reads, writes);
            found(&health, Instant::now())
        };
        assert_eq!(looked().await, []);
        // The login and the smallest statement work, and no read does.
        owner.batch_execute("REVOKE USAGE ON SCHEMA internal FROM throughline_query").await.unwrap();
        let said = looked().await;
        assert!(
            matches!(&said[..], [(Level::Failing, text)] if text.contains("reads of") && text.contains("42501")),
            "{said:?}"
        );
        owner.batch_execute("GRANT USAGE ON SCHEMA internal TO throughline_query").await.unwrap();
        let name = database.name();
        owner
            .batch_execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"))
            .await
            .unwrap();
        let said = looked().await;
        assert!(
            matches!(&said[..], [(Level::Degraded, text)] if text.contains("takes no batches: it is read-only")),
            "{said:?}"
        );
    }

    #[test]
    fn roles_of_readers_that_are_missing_or_were_altered_are_named() {
        let (health, metrics) = health();
        let start = Instant::now();
        metrics.add("readers", &READER_SETTINGS_RESET, 0);
        metrics.set("readers", &READER_ROLES_MISSING, 2.0);
        health.note(None, None, start);
        let [(Level::Degraded, text)] = &found(&health, start)[..] else {
            panic!("{:?}", found(&health, start))
        };
        assert!(text.contains("CREATE ROLE throughline_read LOGIN") && text.contains(" TO x"), "{text}");
        metrics.set("readers", &READER_ROLES_MISSING, 0.0);
        metrics.add("readers", &READER_SETTINGS_RESET, 3);
        health.note(None, None, start);
        let [(Level::Degraded, text)] = &found(&health, start)[..] else {
            panic!("{:?}", found(&health, start))
        };
        assert!(text.contains("reset 0 min ago"), "{text}");
        let later = start + RESET_SHOWN;
        metrics.add("collector", &COMMITS, 1);
        health.note(None, None, later);
        assert_eq!(found(&health, later), []);
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
