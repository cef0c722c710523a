//! Where ranks of jobs are, and the ports of the fabric that they use; cached for a while.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Client;

use super::window::Places;
use super::{Micros, WINDOW, moment};
use crate::Error;

const WHAT: &str = "reading places of ranks for shares of links";

/// How long places are cached: ranks of a job are where they are, but become known one after the other.
const FRESH: Micros = 60_000_000;

/// Places by job, as of a window.
#[derive(Debug, Default)]
pub(super) struct KnownPlaces(HashMap<i32, (Micros, Arc<Places>)>);

impl KnownPlaces {
    /// Places of these jobs in the window that ends at `end`.
    pub async fn get(
        &mut self,
        client: &Client,
        jobs: &[i32],
        end: Micros,
    ) -> Result<HashMap<i32, Arc<Places>>, Error> {
        self.0.retain(|_, (at, _)| (*at..*at + FRESH).contains(&end));
        let unknown: Vec<i32> = jobs.iter().copied().filter(|job| !self.0.contains_key(job)).collect();
        if !unknown.is_empty() {
            for (job, places) in read(client, &unknown, end).await? {
                self.0.insert(job, (end, Arc::new(places)));
            }
        }
        let known = |job: &i32| Some((*job, self.0.get(job)?.1.clone()));
        Ok(jobs.iter().filter_map(known).collect())
    }
}

async fn read(client: &Client, jobs: &[i32], end: Micros) -> Result<HashMap<i32, Places>, Error> {
    let mut all: HashMap<i32, Places> = jobs.iter().map(|job| (*job, Places::default())).collect();
    let ranks = format!(
        "SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id FROM job_rank
         WHERE job_id = ANY($1) AND start_time <= {} AND node_id IS NOT NULL ORDER BY job_id, rank, start_time DESC",
        moment(end)
    );
    for row in client.query(&ranks, &[&jobs]).await.map_err(Error::sql(WHAT))? {
        if let Some(places) = all.get_mut(&row.get(0)) {
            places.node_of.insert(row.get(1), row.get(2));
        }
    }
    // Those that ran in the window; a port for each rank that uses it is one.
    let ports = format!(
        "SELECT DISTINCT job_id, node_id, port_id FROM job_rank_ports
         WHERE job_id = ANY($1) AND start_time <= {} AND (end_time IS NULL OR end_time > {})
           AND node_id IS NOT NULL AND port_id IS NOT NULL ORDER BY 1, 2, 3",
        moment(end),
        moment(end - WINDOW)
    );
    for row in client.query(&ports, &[&jobs]).await.map_err(Error::sql(WHAT))? {
        if let Some(places) = all.get_mut(&row.get(0)) {
            places.ports_of.entry(row.get(1)).or_default().push(row.get(2));
        }
    }
    Ok(all)
}
