//! What the role query refuses, counted by reason; each reason is logged once and then at debug level.

use crate::api_error::ApiError;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{CONNECTIONS_REJECTED, Metric, REQUESTS_REJECTED};

/// The part of the server whose self-metrics these are.
const SOURCE: &str = "query";

/// The same of requests for detail.
pub(crate) const DETAIL: &str = "detail";

/// Why a request is refused, as a word for the counter and as an answer.
pub type AccessError = (&'static str, Box<ApiError>);

/// Counts refusals. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Refusals {
    metrics: SelfMetrics,
    answer: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Refusals {
    /// Counts in these metrics.
    #[must_use]
    pub fn new(metrics: SelfMetrics) -> Refusals {
        Refusals { metrics, answer: Arc::default() }
    }

    /// A request was refused.
    pub fn count(&self, reason: &'static str, peer: &dyn Display) {
        self.add(reason, peer, &REQUESTS_REJECTED, "a request was refused");
    }

    /// A connection was.
    pub fn connection(&self, reason: &'static str, peer: &dyn Display) {
        self.add(reason, peer, &CONNECTIONS_REJECTED, "a connection to the role query was refused");
    }

    fn add(&self, reason: &'static str, peer: &dyn Display, metric: &'static Metric, what: &str) {
        self.metrics.add((SOURCE, reason), metric, 1);
        let is_first = self.answer.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        if is_first {
            tracing::warn!(reason, %peer, "{what}; further ones for this reason are counted and logged at debug level");
        } else {
            tracing::debug!(reason, %peer, "{what}");
        }
    }
}
