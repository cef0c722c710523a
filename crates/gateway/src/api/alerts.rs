//! `/alerts`: what Alertmanager or Grafana post when an alert fires; detail is requested of the job, node or link that it names,
//! as the one who posts, within the quotas.

use super::request::ApiRequest;
use super::{Api, answer, detail_requests};
use crate::api_error::ApiError;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_api::detail::{AlertsTaken, DetailRequested, DetailRequests};
use throughline_query::at_primary;
use throughline_query::detail::{self, RequestScope};
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::{AlertLabels, AlertSubject, DetailReason, NewDetail, alert_subjects, request_detail};

/// Alerts of one notification that are looked at: Alertmanager groups them, and a switch that dies has all its links along.
const ALERTS_MAX: usize = 64;

/// Longest label that is looked at: keys of jobs and names of nodes are shorter.
const LABEL_BYTES_MAX: usize = 1000;

/// What ranks report after their end still is the job's.
const AFTER_END_MS: i64 = 2000;

/// A notification, in what Alertmanager (webhook version 4) and Grafana have in common.
#[derive(Debug, Deserialize)]
struct Notification {
    alerts: Vec<Alert>,
}

#[derive(Debug, Deserialize)]
struct Alert {
    /// firing, resolved.
    status: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Alert {
    fn label(&self, names: &[&str]) -> Option<&str> {
        let found = names.iter().find_map(|name| self.labels.get(*name))?;
        Some(found.as_str())
            .filter(|text| !text.is_empty() && text.len() <= LABEL_BYTES_MAX && !text.contains('\0'))
    }

    /// What it names. The labels are those of our own alerts: of a link `instance` is who reads the fabric, and a scraped instance has
    /// a port behind its name.
    fn names(&self) -> AlertLabels {
        let port = self.label(&["port"]).and_then(|port| port.parse().ok());
        let link = self.label(&["guid"]).map(str::to_owned).zip(port);
        let names: &[&str] = if link.is_some() { &["node", "host"] } else { &["node", "host", "instance"] };
        let node = self.label(names).map(|text| match text.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name.to_owned(),
            _ => text.to_owned(),
        });
        AlertLabels { job_key: self.label(&["job_key"]).map(str::to_owned), node, link }
    }
}

/// `GET /alerts`: what alerts had requested.
pub async fn list(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let limit = request.limit()?;
    request.done()?;
    let requests = at_primary(
        api.query(async |client| Ok(detail::requests(client, RequestScope::Alerts, None, limit).await?)),
    );
    let requests = detail_requests::visible(requests.await?, &request);
    answer::json(&DetailRequests { requests }, &request.headers)
}

/// `POST /alerts`.
pub async fn take(
    State(api): State<Arc<Api>>,
    request: ApiRequest,
    body: Bytes,
) -> Result<Response, ApiError> {
    request.done()?;
    let notification: Notification = serde_json::from_slice(&body).map_err(|error| {
        let remedy = "let Alertmanager or Grafana post it, with its usual payload (docs/RECORDER.md, Alerts)";
        ApiError::parameter("body", format!("this is no notification of alerts: {error}"), remedy)
    })?;
    let triggers = &api.detail.triggers;
    if !triggers.on_alert {
        let remedy = "the administrator switches it on with detail.on_alert in server.toml";
        return Err(ApiError::forbidden("alerts have no detail requested here", remedy));
    }
    let firing = notification.alerts.iter().filter(|alert| alert.status == "firing");
    let (mut taken, mut done) = (AlertsTaken::default(), Vec::new());
    for alert in firing.take(ALERTS_MAX) {
        let labels = alert.names();
        let subjects =
            at_primary(api.query(async |client| Ok(alert_subjects(client, &labels).await?))).await?;
        if subjects.is_empty() {
            taken.unknown += 1;
        }
        for subject in subjects {
            if subject.is_known || done.contains(&subject.subject) {
                taken.repeated += 1;
                continue;
            }
            done.push(subject.subject);
            let new = new_detail(&request, &subject, triggers.last.as_millis());
            match detail_requests::write(&api, async |client| {
                request_detail(client, &new, &triggers.limits).await
            })
            .await?
            {
                Ok(id) => {
                    tracing::info!(request = id, name = subject.name, "detail is requested for an alert");
                    taken.requested.push(DetailRequested { id, from_ms: new.from, to_ms: new.to });
                }
                Err(refusal) => {
                    api.detail.metrics.add((crate::refusals::DETAIL, refusal.reason), &REQUESTS_REJECTED, 1);
                    taken.refused.push(format!("{}: {refusal}", subject.name));
                }
            }
        }
    }
    answer::json(&taken, &request.headers)
}

fn new_detail(request: &ApiRequest, of: &AlertSubject, last_ms: u128) -> NewDetail {
    let last = i64::try_from(last_ms).unwrap_or(i64::MAX);
    let to = of.end.map_or(request.now, |end| (milliseconds(end) + AFTER_END_MS).min(request.now));
    // A job that ran for less is in it whole.
    let from = of.start.map_or(i64::MIN, milliseconds).max(to.saturating_sub(last));
    NewDetail {
        requested_by: request.user(),
        turn: None,
        reason: DetailReason::Alert,
        subject: of.subject,
        from,
        to,
        resolution: 0.0,
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_names_a_job_a_node_or_a_link_by_its_labels() {
        let names = |labels: &[(&str, &str)]| {
            let labels =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Alert { status: "firing".into(), labels }.names()
        };
        let some = |text: &str| Some(text.to_owned());
        let job = names(&[("job_key", "slurm:1.0@7"), ("instance", "n17:9461")]);
        assert_eq!((job.job_key, job.node), (some("slurm:1.0@7"), some("n17")));
        let link = names(&[("guid", "0x0000000000000001"), ("port", "3"), ("instance", "crawler:9462")]);
        assert_eq!(link.node, None);
        assert_eq!(link.link, Some(("0x0000000000000001".to_owned(), 3)));
        assert_eq!(names(&[("severity", "warning"), ("port", "x"), ("guid", "y")]), AlertLabels::default());
    }
}
