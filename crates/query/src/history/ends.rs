//! Ends of series whose source stopped reading on purpose: Prometheus' mark stands where its daemon's page lost them.
//!
//! Without it a query finds the last sample for as long as Prometheus looks back, five minutes, and takes it for now.

use super::{HistoryError, HistoryQuery, Place, Samples};
use crate::pauses;
use std::collections::HashMap;
use throughline_sample::catalogue::Table;
use tokio_postgres::Client;

/// Prometheus' mark of the end of a series (`value.StaleNaN`).
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// The mark.
pub(super) fn mark() -> f64 {
    f64::from_bits(STALE)
}

/// When the source of a family's series stopped in a range, milliseconds since 1970, by daemon.
#[derive(Debug, Default)]
pub(super) struct Ends(HashMap<String, Vec<i64>>);

impl Ends {
    /// Only what reads the GPUs' performance monitors gives way to others.
    pub async fn read(client: &Client, request: &HistoryQuery<'_>) -> Result<Self, HistoryError> {
        match &request.family.place {
            Place::Column { metric, .. } if metric.table == Table::GpuPmCounters => {
                let range = (request.range.from, request.range.to);
                Ok(Self(request.in_time(pauses::begun(client, "cupti", range)).await?))
            }
            _ => Ok(Self::default()),
        }
    }

    /// Adds the marks of a daemon's series.
    pub fn put(&self, sender: Option<&str>, samples: &mut Samples) {
        for time in sender.and_then(|sender| self.0.get(sender)).into_iter().flatten() {
            samples.end(*time, mark());
        }
    }
}
