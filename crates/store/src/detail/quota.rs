//! How much detail may be requested: by everybody together and by each user, so that detail on demand does not become what is
//! always stored.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Transaction;

use super::{DetailSubject, NewDetail};
use crate::error::Error;
use crate::turns::Turn;

/// `[detail]` of server.toml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailLimits {
    /// Whether anything may be requested.
    pub is_enabled: bool,
    /// Nodes that are answering at a time.
    pub nodes: u64,
    /// Requests of an hour, by everybody and by one user.
    pub requests: [u64; 2],
    /// Records of a day, by everybody and by one user.
    pub records: [u64; 2],
    /// Longest time of one request.
    pub span: Duration,
    /// After so long what has not arrived is given up.
    pub wait: Duration,
    /// Jobs that are shown live at a time.
    pub live_jobs: u64,
}

impl Default for DetailLimits {
    fn default() -> Self {
        Self {
            is_enabled: true,
            nodes: 256,
            requests: [120, 30],
            records: [50_000_000, 10_000_000],
            span: Duration::from_secs(3600),
            wait: Duration::from_secs(300),
            live_jobs: 8,
        }
    }
}

/// Why a request is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailRefusal {
    /// One word for metrics: off, nodes, requests, records, span, unknown, live.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// The key of the configuration whose limit is reached.
    pub limit: Option<&'static str>,
}

impl fmt::Display for DetailRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl DetailRefusal {
    /// All reasons.
    pub const REASONS: [&'static str; 7] = ["off", "nodes", "requests", "records", "span", "unknown", "live"];

    fn over(reason: &'static str, key: &'static str, message: String, otherwise: &str) -> Self {
        let remedy = format!("{otherwise}, or let the administrator raise {key} in server.toml");
        Self { reason, message, remedy, limit: Some(key) }
    }

    fn without_ranks() -> Self {
        let message = "no node has reported ranks of this job".to_owned();
        let remedy = "an agent must run on its nodes while it runs".to_owned();
        Self { reason: "unknown", message, remedy, limit: None }
    }

    fn off() -> Self {
        Self {
            reason: "off",
            message: "detail on demand is switched off here".to_owned(),
            remedy: "`throughline-agent recorder` reads it on the node; the administrator switches it on with detail.enabled \
                     in server.toml"
                .to_owned(),
            limit: Some("detail.enabled"),
        }
    }
}

/// The part of everybody's requests and records that the server may use for what it requests by itself: people have the rest.
const AUTOMATIC_DIVISOR: u64 = 2;

/// What is requested now and was of late, by everybody and by one user.
#[derive(Clone, Copy, Default)]
struct QuotaUsage {
    nodes: u64,
    requests: [u64; 2],
    records: [u64; 2],
    /// Requests and records that the server requested by itself, where this request is one: the second ones above are then those in
    /// turns of the same owner, or of the same sender, whichever are more.
    automatic: Option<[u64; 2]>,
}

impl DetailLimits {
    /// Records that one request may bring from a node: a job of one node may use what its user has for a day.
    pub(super) fn records_of_node(&self) -> u64 {
        self.records[1]
    }

    /// Whether a request of so many nodes is within the quotas.
    pub(super) async fn check(
        &self,
        transaction: &Transaction<'_>,
        new: &NewDetail,
        nodes: usize,
    ) -> Result<Result<(), DetailRefusal>, Error> {
        if !self.is_enabled {
            return Ok(Err(DetailRefusal::off()));
        }
        if nodes == 0 {
            return Ok(Err(DetailRefusal::without_ranks()));
        }
        let span = u64::try_from(new.to.saturating_sub(new.from)).unwrap_or(0) / 1000;
        if span > self.span.as_secs() {
            let message =
                format!("{span} s are requested, and {} s is the most at once", self.span.as_secs());
            return Ok(Err(DetailRefusal::over(
                "span",
                "detail.span_seconds_max",
                message,
                "request a shorter time",
            )));
        }
        let used = match new.turn {
            None => used(transaction, &new.requested_by).await?,
            Some(turn) => used_in_turn(transaction, turn).await?,
        };
        Ok(self.within(&used, nodes as u64))
    }

    fn within(&self, used: &QuotaUsage, nodes: u64) -> Result<(), DetailRefusal> {
        if nodes > self.nodes {
            let message = format!("the job has {nodes} nodes, and {} may answer at a time", self.nodes);
            return Err(DetailRefusal::over(
                "nodes",
                "detail.nodes_max",
                message,
                "read it on a node with `throughline-agent recorder`",
            ));
        }
        if used.nodes + nodes > self.nodes {
            let message = format!("{} nodes are answering, and {} may at a time", used.nodes, self.nodes);
            return Err(DetailRefusal::over("nodes", "detail.nodes_max", message, "try again in a minute"));
        }
        if let Some(automatic) = used.automatic {
            return self.within_what_is_left(used, automatic);
        }
        let keys = ["detail.requests_per_hour", "detail.user_requests_per_hour"];
        for ((key, used), limit) in keys.into_iter().zip(used.requests).zip(self.requests) {
            if used >= limit {
                let message = format!("{used} requests were made in the last hour, the limit {key}");
                return Err(DetailRefusal::over("requests", key, message, "try again later"));
            }
        }
        let keys = ["detail.records_per_day", "detail.user_records_per_day"];
        for ((key, used), limit) in keys.into_iter().zip(used.records).zip(self.records) {
            if used >= limit {
                let message = format!(
                    "{used} records were fetched since this time yesterday, the limit {key} is {limit}"
                );
                return Err(DetailRefusal::over("records", key, message, "try again later"));
            }
        }
        Ok(())
    }

    /// Whether the server may request more by itself: an owner, and a sender, may have as much as is still free. However many flood
    /// it, the next one then finds as much as each of them has.
    fn within_what_is_left(&self, used: &QuotaUsage, automatic: [u64; 2]) -> Result<(), DetailRefusal> {
        for (reason, key, what, used, automatic, limit) in [
            (
                "requests",
                "detail.requests_per_hour",
                "requests of the last hour",
                used.requests,
                automatic[0],
                self.requests[0],
            ),
            (
                "records",
                "detail.records_per_day",
                "records of the last day",
                used.records,
                automatic[1],
                self.records[0],
            ),
        ] {
            let [all, own] = used;
            let free = (limit / AUTOMATIC_DIVISOR).saturating_sub(automatic).min(limit.saturating_sub(all));
            if own >= free {
                let message = format!(
                    "{own} {what} were for jobs of this owner or node, and {free} are left for others"
                );
                return Err(DetailRefusal::over(reason, key, message, "try again later"));
            }
        }
        Ok(())
    }

    /// Whether one more job, of so many nodes, may be shown live.
    pub(super) async fn check_live(
        &self,
        transaction: &Transaction<'_>,
        nodes: usize,
    ) -> Result<Result<(), DetailRefusal>, Error> {
        if !self.is_enabled {
            return Ok(Err(DetailRefusal::off()));
        }
        if nodes == 0 {
            return Ok(Err(DetailRefusal::without_ranks()));
        }
        let query =
            "SELECT count(*) FROM internal.detail_request WHERE reason = 'live' AND expires_at > now()";
        let row = transaction.query_one(query, &[]).await.map_err(Error::sql("counting live jobs"))?;
        Ok(self.within_live(unsigned(row.get(0))))
    }

    fn within_live(&self, jobs: u64) -> Result<(), DetailRefusal> {
        if jobs < self.live_jobs {
            return Ok(());
        }
        let message = format!("{jobs} other jobs are shown live, the most at a time");
        Err(DetailRefusal::over("live", "detail.live_jobs_max", message, "try again in half a minute"))
    }
}

async fn used(transaction: &Transaction<'_>, user: &str) -> Result<QuotaUsage, Error> {
    let query = "SELECT count(*) FILTER (WHERE n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at > now()), \
                    count(DISTINCT r.id) FILTER (WHERE r.requested_at > now() - interval '1 hour'), \
                    count(DISTINCT r.id) FILTER (WHERE r.requested_at > now() - interval '1 hour' AND r.requested_by = $1), \
                    coalesce(sum(n.records), 0)::bigint, \
                    coalesce(sum(n.records) FILTER (WHERE r.requested_by = $1), 0)::bigint \
                 FROM internal.detail_request r JOIN internal.detail_request_node n ON n.request_id = r.id \
                 WHERE r.requested_at > now() - interval '1 day' AND r.reason <> 'live'";
    let row =
        transaction.query_one(query, &[&user]).await.map_err(Error::sql("counting requests for detail"))?;
    let number = |column: usize| unsigned(row.get(column));
    let (requests, records) = ([number(1), number(2)], [number(3), number(4)]);
    Ok(QuotaUsage { nodes: number(0), requests, records, automatic: None })
}

/// In whose turn the server requests detail of a job: of its nodes that for which it requested least of late, so that none of them
/// can use up what is the job's.
pub(super) async fn best_turn(transaction: &Transaction<'_>, new: &NewDetail) -> Result<Option<Turn>, Error> {
    let (Some(turn), DetailSubject::Job(job)) = (new.turn, new.subject) else { return Ok(new.turn) };
    let query = "SELECT c.node_id FROM internal.run_claim c LEFT JOIN ( \
                    SELECT r.node_id, count(*) AS requests FROM internal.detail_request r \
                    WHERE r.requested_at > now() - interval '1 hour' GROUP BY r.node_id) u ON u.node_id = c.node_id \
                 WHERE c.job_id = $1 ORDER BY coalesce(u.requests, 0), c.node_id <> $2 LIMIT 1";
    let row = transaction.query_opt(query, &[&job, &turn.node_id]).await;
    let row = row.map_err(Error::sql("counting requests for detail by node"))?;
    Ok(Some(Turn { node_id: row.map_or(turn.node_id, |row| row.get(0)), ..turn }))
}

async fn used_in_turn(transaction: &Transaction<'_>, turn: Turn) -> Result<QuotaUsage, Error> {
    let query = "WITH request AS ( \
                    SELECT r.node_id, r.uid, r.requested_at > now() - interval '1 hour' AS is_recent, \
                        (SELECT coalesce(sum(n.records), 0) FROM internal.detail_request_node n WHERE n.request_id = r.id) AS records, \
                        (SELECT count(*) FROM internal.detail_request_node n WHERE n.request_id = r.id \
                            AND n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at > now()) AS open \
                    FROM internal.detail_request r WHERE r.requested_at > now() - interval '1 day' AND r.reason <> 'live') \
                 SELECT coalesce(sum(open), 0)::bigint, count(*) FILTER (WHERE is_recent), \
                    greatest(count(*) FILTER (WHERE is_recent AND node_id = $1), count(*) FILTER (WHERE is_recent AND uid = $2)), \
                    count(*) FILTER (WHERE is_recent AND node_id IS NOT NULL), coalesce(sum(records), 0)::bigint, \
                    greatest(coalesce(sum(records) FILTER (WHERE node_id = $1), 0), \
                        coalesce(sum(records) FILTER (WHERE uid = $2), 0))::bigint, \
                    coalesce(sum(records) FILTER (WHERE node_id IS NOT NULL), 0)::bigint \
                 FROM request";
    let row = transaction.query_one(query, &[&turn.node_id, &turn.uid]).await;
    let row = row.map_err(Error::sql("counting requests for detail"))?;
    let number = |column: usize| unsigned(row.get(column));
    let (requests, records) = ([number(1), number(2)], [number(4), number(5)]);
    Ok(QuotaUsage { nodes: number(0), requests, records, automatic: Some([number(3), number(6)]) })
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_a_limit_is_refused_with_the_key_and_what_to_do() {
        let limits =
            DetailLimits { nodes: 4, requests: [3, 2], records: [100, 50], ..DetailLimits::default() };
        let none = QuotaUsage::default;
        assert_eq!(limits.within(&none(), 4), Ok(()));
        let refused = |used: QuotaUsage, nodes| limits.within(&used, nodes).unwrap_err();
        for (refusal, reason, key) in [
            (refused(none(), 5), "nodes", "detail.nodes_max"),
            (refused(QuotaUsage { nodes: 2, ..none() }, 3), "nodes", "detail.nodes_max"),
            (refused(QuotaUsage { requests: [3, 0], ..none() }, 1), "requests", "detail.requests_per_hour"),
            (
                refused(QuotaUsage { requests: [2, 2], ..none() }, 1),
                "requests",
                "detail.user_requests_per_hour",
            ),
            (refused(QuotaUsage { records: [100, 0], ..none() }, 1), "records", "detail.records_per_day"),
            (
                refused(QuotaUsage { records: [60, 50], ..none() }, 1),
                "records",
                "detail.user_records_per_day",
            ),
        ] {
            assert_eq!((refusal.reason, refusal.limit), (reason, Some(key)));
            assert!(refusal.remedy.contains(key) && DetailRefusal::REASONS.contains(&reason), "{refusal}");
        }
    }

    #[test]
    fn the_ninth_job_is_refused_in_a_sentence() {
        let limits = DetailLimits::default();
        assert_eq!(limits.within_live(7), Ok(()));
        let refusal = limits.within_live(8).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "8 other jobs are shown live, the most at a time; try again in half a minute, or let the administrator raise \
             detail.live_jobs_max in server.toml"
        );
        assert!(DetailRefusal::REASONS.contains(&refusal.reason));
    }

    /// Requests that each of so many owners gets who request until they are refused, in turns, of 60 that the server may make.
    fn shares(owners: usize) -> Vec<u64> {
        let limits = DetailLimits::default();
        let mut used = vec![0; owners];
        loop {
            let before: u64 = used.iter().sum();
            for at in 0..owners {
                let all = used.iter().sum();
                let usage = QuotaUsage {
                    requests: [all, used[at]],
                    automatic: Some([all, 0]),
                    ..QuotaUsage::default()
                };
                used[at] += u64::from(limits.within(&usage, 1).is_ok());
            }
            if used.iter().sum::<u64>() == before {
                return used;
            }
        }
    }

    #[test]
    fn attack_29_what_the_server_requests_by_itself_leaves_as_much_to_the_next_owner() {
        assert_eq!(shares(1), [30]);
        assert_eq!(shares(3), [15; 3]);
        assert!(shares(10).iter().all(|requests| *requests >= 5), "{:?}", shares(10));
        assert!(shares(10).iter().sum::<u64>() <= 55, "an eleventh one has its share");
    }
}
