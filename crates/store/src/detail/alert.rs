//! What an alert names and detail exists for: a job, a node, or a link with the jobs that have the most bytes on it.

use std::time::SystemTime;

use tokio_postgres::Client;

use super::DetailSubject;
use crate::error::Error;

/// Jobs of a link: those with the most bytes on it.
const JOBS_OF_LINK: i64 = 4;

/// Labels of an alert. What is left out names nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertLabels {
    /// A job's key.
    pub job_key: Option<String>,
    /// A node with an agent.
    pub node: Option<String>,
    /// GUID of the node of a link's end, and its port.
    pub link: Option<(String, i32)>,
}

/// Something that an alert names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertSubject {
    /// What detail is of.
    pub subject: DetailSubject,
    /// A job's key, a node's name, or GUID and port of a link's end.
    pub name: String,
    /// When the job began.
    pub start: Option<SystemTime>,
    /// When it ended.
    pub end: Option<SystemTime>,
    /// An alert had it requested less than ten minutes ago: notifications are repeated.
    pub is_known: bool,
}

/// What these labels name.
///
/// # Errors
/// The database's.
pub async fn alert_subjects(client: &Client, labels: &AlertLabels) -> Result<Vec<AlertSubject>, Error> {
    const SQL: &str = "
        WITH link_job AS (
            SELECT s.job_id FROM internal.link_shares s JOIN internal.ib_port_key p ON p.id = s.port_id JOIN internal.ib_node_key n ON n.id = p.ib_node_id
            WHERE n.guid = $3 AND p.port = $4 AND s.job_id IS NOT NULL AND s.time > now() - interval '5 minutes'
            GROUP BY s.job_id ORDER BY sum(s.bytes) DESC LIMIT $5
        )
        SELECT j.id, NULL::bigint, j.key, j.start_time, j.end_time,
               EXISTS (SELECT 1 FROM internal.detail_request d WHERE d.job_id = j.id AND d.reason = 'alert'
                         AND d.requested_at > now() - interval '10 minutes'),
               NULL::bigint[]
        FROM internal.run j WHERE j.key = $1 OR j.id IN (SELECT job_id FROM link_job)
        UNION ALL
        SELECT NULL, k.id, k.name, NULL, NULL,
               EXISTS (SELECT 1 FROM internal.detail_request d JOIN internal.detail_request_node n ON n.request_id = d.id
                       WHERE d.job_id IS NULL AND d.reason = 'alert' AND d.requested_at > now() - interval '10 minutes'
                         AND n.node_id = k.id),
               NULL::bigint[]
        FROM internal.node_key k WHERE k.name = $2
        UNION ALL
        SELECT NULL, NULL, n.guid || '/' || p.port, NULL, NULL,
               EXISTS (SELECT 1 FROM internal.detail_request d WHERE d.ib_port_ids && ARRAY[l.port_a_id, l.port_b_id] AND d.reason = 'alert'
                         AND d.requested_at > now() - interval '10 minutes'),
               ARRAY[l.port_a_id, l.port_b_id]
        FROM internal.ib_link l JOIN internal.ib_port_key p ON p.id IN (l.port_a_id, l.port_b_id) JOIN internal.ib_node_key n ON n.id = p.ib_node_id
        WHERE n.guid = $3 AND p.port = $4 AND l.valid_to IS NULL";
    let (guid, port) = labels.link.as_ref().map(|(guid, port)| (guid.as_str(), *port)).unzip();
    let rows = client.query(SQL, &[&labels.job_key, &labels.node, &guid, &port, &JOBS_OF_LINK]).await;
    let rows = rows.map_err(Error::sql("looking for what an alert names"))?;
    let subject = |row: &tokio_postgres::Row| {
        let (job, node): (Option<i64>, Option<i64>) = (row.get(0), row.get(1));
        let link: Option<[i64; 2]> =
            row.get::<_, Option<Vec<i64>>>(6).and_then(|ports| ports.try_into().ok());
        let subject = job.map(DetailSubject::Job).or(node.map(DetailSubject::Node));
        let subject = subject.or(link.map(DetailSubject::Link))?;
        let (name, start, end, is_known) = (row.get(2), row.get(3), row.get(4), row.get(5));
        Some(AlertSubject { subject, name, start, end, is_known })
    };
    Ok(rows.iter().filter_map(subject).collect())
}
