//! Where readers are answered: by the primary, or by a read replica for as long as it is there and near enough.
//!
//! How far a replica is behind is measured by positions of the write-ahead log: the primary's are noted with the time at
//! which it had them, and the replica lags since the first one that it has not replayed. So neither clock matters, and a
//! replica that receives nothing any more lags although it has replayed all that it has.
//!
//! A replica that is away or too far behind is left for the primary, which is logged once and counted, and taken again by
//! itself. While the primary is away the replica answers, however far it is behind.

mod lag;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use throughline_api::status::{Replica as ReplicaStatus, ReplicaState};
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{REPLICA_FALLBACKS, REPLICA_LAG_SECONDS};
use throughline_store::{Database, Error, ReplicationRole, replication_role};
use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use lag::Positions;

/// How often both are looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long either may take to answer: a reader should not wait longer for the other.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// The part of the process in metrics.
const SOURCE: &str = "query";

tokio::task_local! {
    static AT_PRIMARY: ();
}

/// Where readers are answered; cheap to clone.
#[derive(Clone, Debug)]
pub struct ReadPath {
    primary: Database,
    replica: Option<Arc<Replica>>,
}

#[derive(Debug)]
struct Replica {
    database: Database,
    lag_max: Duration,
    observed: watch::Sender<ReplicaObservation>,
    fallbacks: AtomicU64,
    metrics: SelfMetrics,
}

/// What was last observed of the replica.
#[derive(Clone, Debug, PartialEq)]
struct ReplicaObservation {
    state: ReplicaState,
    /// `None` where it is not known: before the first look, and while either is away.
    lag: Option<Duration>,
    reason: Option<String>,
}

impl From<Database> for ReadPath {
    fn from(primary: Database) -> ReadPath {
        ReadPath { primary, replica: None }
    }
}

impl ReadPath {
    /// Readers go to a replica that is at most `lag_max` behind.
    #[must_use]
    pub fn with_replica(
        primary: Database,
        replica: Database,
        lag_max: Duration,
        metrics: SelfMetrics,
    ) -> ReadPath {
        metrics.add(SOURCE, &REPLICA_FALLBACKS, 0);
        let reason = Some("not looked at yet".to_owned());
        let observed = ReplicaObservation { state: ReplicaState::Away, lag: None, reason };
        let (observed, fallbacks) = (watch::Sender::new(observed), AtomicU64::new(0));
        let replica = Replica { database: replica, lag_max, observed, fallbacks, metrics };
        ReadPath { primary, replica: Some(Arc::new(replica)) }
    }

    /// The database that is written to.
    #[must_use]
    pub fn primary(&self) -> &Database {
        &self.primary
    }

    /// The replica, if it is to be used now. Counts a request that would have gone there.
    pub(crate) fn replica(&self) -> Option<&Database> {
        let replica = self.replica.as_deref()?;
        if AT_PRIMARY.try_with(|()| ()).is_ok() || !replica.is_used() {
            replica.fallbacks.fetch_add(1, Relaxed);
            replica.metrics.add(SOURCE, &REPLICA_FALLBACKS, 1);
            return None;
        }
        Some(&replica.database)
    }

    /// Whether requests that begin now go to a replica.
    #[must_use]
    pub fn uses_replica(&self) -> bool {
        self.replica.as_deref().is_some_and(Replica::is_used)
    }

    /// The replica does not answer: readers go to the primary until it was looked at again.
    pub(crate) fn lost(&self, why: &str) {
        if let Some(replica) = &self.replica {
            replica.note(ReplicaObservation {
                state: ReplicaState::Away,
                lag: None,
                reason: Some(why.to_owned()),
            });
        }
    }

    /// Ends once the replica is away; never without one.
    pub async fn replica_lost(&self) {
        let Some(replica) = &self.replica else { return std::future::pending().await };
        let mut observed = replica.observed.subscribe();
        // Fails only without its sender, which the replica has.
        _ = observed.wait_for(|observed| observed.state == ReplicaState::Away).await;
    }

    /// What is known of the replica; `None` without one.
    #[must_use]
    pub fn status(&self) -> Option<ReplicaStatus> {
        let replica = self.replica.as_deref()?;
        let observed = replica.observed.borrow().clone();
        Some(ReplicaStatus {
            place: replica.database.place().to_owned(),
            state: observed.state,
            lag_seconds: observed.lag.map(|lag| lag.as_secs_f64()),
            lag_seconds_max: replica.lag_max.as_secs_f64(),
            reason: observed.reason,
            fallbacks: replica.fallbacks.load(Relaxed),
        })
    }

    /// Looks at both again and again until `stop`; returns at once without a replica.
    pub async fn watch(self, stop: CancellationToken) {
        let Some(replica) = self.replica.clone() else { return };
        let (mut primary, mut standby) =
            (Probe::new(self.primary.clone()), Probe::new(replica.database.clone()));
        let mut positions = Positions::default();
        loop {
            // The primary first: what the replica has then is not older than what is compared.
            let head = primary.position().await;
            let requested = Instant::now();
            if let Ok(ReplicationRole::Primary { position }) = head {
                positions.note(position, requested);
            }
            let found = standby.position().await;
            replica.note(replica.judge(head.is_ok(), found, &positions, Instant::now()));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }
}

/// Does the work with the primary only, whatever the replica's state.
pub async fn at_primary<T>(work: impl Future<Output = T>) -> T {
    AT_PRIMARY.scope((), work).await
}

impl Replica {
    fn is_used(&self) -> bool {
        self.observed.borrow().state == ReplicaState::Used
    }

    fn judge(
        &self,
        has_primary: bool,
        found: Result<ReplicationRole, Error>,
        positions: &Positions,
        now: Instant,
    ) -> ReplicaObservation {
        let away = |reason: String| ReplicaObservation {
            state: ReplicaState::Away,
            lag: None,
            reason: Some(reason),
        };
        let replayed = match found {
            Err(error) => return away(error.to_string()),
            Ok(ReplicationRole::Primary { .. }) => {
                return away(
                    "it is no standby: it was promoted, or database.read_url leads to a primary".to_owned(),
                );
            }
            Ok(ReplicationRole::Standby { position }) => position,
        };
        if !has_primary {
            let reason = Some("the primary is away, so how far it is behind is not known".to_owned());
            return ReplicaObservation { state: ReplicaState::Used, lag: None, reason };
        }
        let lag = positions.lag(replayed, now);
        if lag > self.lag_max {
            let (lag_seconds, most) = (lag.as_secs(), self.lag_max.as_secs());
            let reason = format!(
                "{lag_seconds} s behind the primary, more than database.read_lag_seconds_max = {most}"
            );
            return ReplicaObservation { state: ReplicaState::Behind, lag: Some(lag), reason: Some(reason) };
        }
        ReplicaObservation { state: ReplicaState::Used, lag: Some(lag), reason: None }
    }

    fn note(&self, observed: ReplicaObservation) {
        match observed.lag {
            Some(lag) => self.metrics.set(SOURCE, &REPLICA_LAG_SECONDS, lag.as_secs_f64()),
            None => self.metrics.unset(SOURCE, &REPLICA_LAG_SECONDS),
        }
        let (place, reason) = (self.database.place(), observed.reason.clone().unwrap_or_default());
        let before = self.observed.send_replace(observed.clone());
        let is_first = before.reason.as_deref() == Some("not looked at yet");
        match (before.state == ReplicaState::Used, observed.state == ReplicaState::Used) {
            (false, true) => tracing::info!(replica = place, "readers use the replica"),
            (true, false) => tracing::warn!(replica = place, reason, "readers use the primary"),
            (false, false) if is_first => tracing::warn!(replica = place, reason, "readers use the primary"),
            _ => {}
        }
    }
}

/// A connection by which a database is looked at.
struct Probe {
    database: Database,
    client: Option<Client>,
}

impl Probe {
    fn new(database: Database) -> Probe {
        Probe { database, client: None }
    }

    async fn position(&mut self) -> Result<ReplicationRole, Error> {
        let work = async {
            let client = match self.client.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => self.database.connect_reader().await?,
            };
            let role = replication_role(&client).await?;
            self.client = Some(client);
            Ok(role)
        };
        let found = tokio::time::timeout(ANSWER_LIMIT, work).await;
        found.unwrap_or_else(|_| Err(Error::late("looking at a database", ANSWER_LIMIT.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(lag_max: u64) -> ReadPath {
        let nowhere = || Database::from_url("host=/nonexistent user=x dbname=x").unwrap();
        let (lag_max, metrics) = (Duration::from_secs(lag_max), SelfMetrics::default());
        ReadPath::with_replica(nowhere(), nowhere(), lag_max, metrics)
    }

    #[tokio::test]
    async fn readers_use_the_replica_only_where_it_is_there_and_near() {
        let path = path(10);
        let replica = path.replica.clone().unwrap();
        assert!(path.replica().is_none(), "it was not looked at yet");
        let (start, mut positions) = (Instant::now(), Positions::default());
        positions.note(100, start);
        let at = |position| Ok(ReplicationRole::Standby { position });
        let judge = |has_primary, found, seconds| {
            let observed =
                replica.judge(has_primary, found, &positions, start + Duration::from_secs(seconds));
            replica.note(observed);
            path.status().unwrap()
        };
        let status = judge(true, at(100), 1);
        assert_eq!((status.state, status.lag_seconds), (ReplicaState::Used, Some(0.0)));
        assert_eq!(judge(true, at(99), 10).state, ReplicaState::Used);
        let status = judge(true, at(99), 11);
        assert_eq!((status.state, status.lag_seconds), (ReplicaState::Behind, Some(11.0)));
        assert!(status.reason.unwrap().contains("read_lag_seconds_max = 10"));
        assert_eq!(judge(false, at(99), 99).state, ReplicaState::Used, "there is no other");
        let status = judge(true, Ok(ReplicationRole::Primary { position: 200 }), 1);
        assert!(status.state == ReplicaState::Away && status.reason.unwrap().contains("no standby"));
        judge(true, at(100), 1);
        assert!(path.uses_replica() && path.replica().is_some());
        assert!(at_primary(async { path.replica().is_none() }).await);
        assert_eq!(replica.metrics.get(SOURCE, &REPLICA_LAG_SECONDS), Some(0.0));
        path.lost("gone");
        assert_eq!(replica.metrics.get(SOURCE, &REPLICA_LAG_SECONDS), None);
        path.replica_lost().await;
        assert_eq!(path.status().unwrap().fallbacks, 2);
        assert_eq!(replica.metrics.get(SOURCE, &REPLICA_FALLBACKS), Some(2.0));
    }

    #[test]
    fn without_a_replica_there_is_nothing_to_say() {
        let path = ReadPath::from(Database::from_url("host=/nonexistent user=x dbname=x").unwrap());
        assert!(path.status().is_none() && path.replica().is_none() && !path.uses_replica());
    }
}
