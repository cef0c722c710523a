//! Where ranks of jobs are, and the ports of the fabric that they use; cached for a while, unless traffic names others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::Client;

use super::traffic::{Amount, Key};
use super::window::Places;
use super::{Micros, WINDOW, moment};
use crate::error::Error;

const WHAT: &str = "reading places of ranks for shares of links";

/// How long places are cached: ranks of a job are where they are, but their ports may become known later.
const FRESH: Micros = 60_000_000;

/// Places by job, as of a window.
#[derive(Debug, Default)]
pub(super) struct KnownPlaces(HashMap<i64, (Micros, Arc<Places>)>);

impl KnownPlaces {
    /// Places of the jobs of this traffic in the window that ends at `end`. Ranks of a job start one after the other, so a
    /// job is read again while some of its ranks are not known yet.
    pub async fn get(
        &mut self,
        client: &Client,
        traffic: &HashMap<Key, Amount>,
        end: Micros,
    ) -> Result<HashMap<i64, Arc<Places>>, Error> {
        self.0.retain(|_, (at, _)| (*at..*at + FRESH).contains(&end));
        let jobs: HashSet<i64> = traffic.keys().map(|key| key.job).collect();
        let known: HashMap<i64, (&Places, HashSet<i64>)> = jobs
            .iter()
            .filter_map(|job| self.0.get(job).map(|(_, places)| (*job, places)))
            .map(|(job, places)| (job, (&**places, places.node_of.values().copied().collect())))
            .collect();
        let is_known = |key: &Key| {
            let places = known.get(&key.job);
            places.is_some_and(|(of, nodes)| of.node_of.contains_key(&key.peer) && nodes.contains(&key.node))
        };
        let wanted: HashSet<i64> = traffic.keys().filter(|key| !is_known(key)).map(|key| key.job).collect();
        if !wanted.is_empty() {
            let mut wanted: Vec<i64> = wanted.into_iter().collect();
            wanted.sort_unstable();
            for (job, places) in read(client, &wanted, end).await? {
                self.0.insert(job, (end, Arc::new(places)));
            }
        }
        let known = |job: i64| Some((job, self.0.get(&job)?.1.clone()));
        Ok(jobs.into_iter().filter_map(known).collect())
    }
}

async fn read(client: &Client, jobs: &[i64], end: Micros) -> Result<HashMap<i64, Places>, Error> {
    let mut all: HashMap<i64, Places> = jobs.iter().map(|job| (*job, Places::default())).collect();
    let ranks = format!(
        "SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id FROM internal.job_rank
         WHERE job_id = ANY($1) AND start_time <= {} AND node_id IS NOT NULL ORDER BY job_id, rank, start_time DESC",
        moment(end)
    );
    for row in client.query(&ranks, &[&jobs]).await.map_err(Error::sql(WHAT))? {
        if let Some(places) = all.get_mut(&row.get(0)) {
            places.node_of.insert(row.get(1), row.get(2));
        }
    }
    // Those that ran in the window; a port for each rank that uses it is one.
    let ran = format!(
        "r.job_id = ANY($1) AND r.start_time <= {} AND (r.end_time IS NULL OR r.end_time > {}) AND r.node_id IS NOT NULL",
        moment(end),
        moment(end - WINDOW)
    );
    let ports = format!(
        "SELECT DISTINCT job_id, node_id, port_id FROM internal.job_rank_ports r WHERE {ran} AND port_id IS NOT NULL ORDER BY 1, 2, 3"
    );
    for row in client.query(&ports, &[&jobs]).await.map_err(Error::sql(WHAT))? {
        if let Some(places) = all.get_mut(&row.get(0)) {
            places.ports_of.entry(row.get(1)).or_default().push(row.get(2));
        }
    }
    Ok(all)
}
