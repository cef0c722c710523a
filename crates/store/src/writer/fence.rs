//! Keeps two crawlers of a fabric from being written for the same time. Which one has the term is decided in
//! `terms`; here a transaction's batches are held against it.

use throughline_sample::wire::Batch;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use super::keys::Keys;
use super::rows::newest_time;
use super::{Content, Entry, WriteError, failed};
use crate::terms::{Fence, WriteInterval, claim};

/// What the crawlers of a transaction are about to write, claimed as far as nobody else has it.
pub(super) struct Writes {
    fabrics: Vec<i64>,
    /// UTC microseconds.
    oldest: i64,
}

/// The terms as one transaction sees them.
pub(super) struct FencedTerms(Fence);

impl Writes {
    /// In transactions of their own: a term must be visible to every other writer before rows rely on it.
    pub async fn claim(client: &mut Client, entries: &[&Entry], keys: &Keys) -> Result<Writes, WriteError> {
        let mut writes = Writes { fabrics: Vec::new(), oldest: i64::MAX };
        let mut stretches: Vec<(i64, WriteInterval)> = Vec::new();
        for entry in entries {
            let Content::Batch(batch) = &entry.content else { continue };
            let Some((fabric, moment)) = crawled(batch, keys) else { continue };
            if !writes.fabrics.contains(&fabric) {
                writes.fabrics.push(fabric);
            }
            writes.oldest = writes.oldest.min(moment);
            let crawler = crawler_of(entry.spool_id, batch);
            let is_reading = !batch.ib_ports.is_empty() || !batch.ib_nodes.is_empty();
            match stretches.iter_mut().find(|(of, stretch)| *of == fabric && stretch.crawler == crawler) {
                Some((_, stretch)) => {
                    stretch.oldest = stretch.oldest.min(moment);
                    stretch.newest = stretch.newest.max(moment);
                    stretch.is_reading |= is_reading;
                }
                None => {
                    let stretch = WriteInterval { crawler, oldest: moment, newest: moment, is_reading };
                    stretches.push((fabric, stretch));
                }
            }
        }
        for (fabric, stretch) in stretches {
            claim(client, fabric, stretch).await.map_err(failed("claiming a crawler's term"))?;
        }
        Ok(writes)
    }

    /// The terms that hold for these batches; nobody else's begins before the transaction ends.
    pub async fn fence(&self, transaction: &Transaction<'_>) -> Result<FencedTerms, WriteError> {
        let fence = Fence::read(transaction, &self.fabrics, self.oldest).await;
        Ok(FencedTerms(fence.map_err(failed("reading the crawlers' terms"))?))
    }
}

impl FencedTerms {
    /// Whether this batch was read by a crawler while another one had the term.
    pub fn leaves_out(&self, spool: Uuid, batch: &Batch, keys: &Keys) -> bool {
        let crawler = crawler_of(spool, batch);
        crawled(batch, keys).is_some_and(|(fabric, moment)| self.0.forbids(fabric, crawler, moment))
    }
}

/// The crawler that read a batch: entries that were refused once come from another spool than its own.
fn crawler_of(spool: Uuid, batch: &Batch) -> Uuid {
    let named = batch.fabric.as_ref().and_then(|fabric| Uuid::from_slice(&fabric.crawler).ok());
    named.unwrap_or(spool)
}

/// The fabric of a crawler's batch and the UTC microseconds of the newest thing in it. A batch belongs to one
/// sweep or one discovery, so it is judged as a whole. `None` for an agent's, and for one without anything.
fn crawled(batch: &Batch, keys: &Keys) -> Option<(i64, i64)> {
    // What was requested is a copy of what the crawler read in its own term.
    if !batch.node.is_empty() || batch.detail.is_some() {
        return None;
    }
    let found = batch.ib_nodes.iter().map(|node| node.generation);
    let marks = batch.ib_topology_marks.iter().map(|mark| mark.time);
    let newest = newest_time(batch).into_iter().chain(found).chain(marks).max()?;
    Some((keys.fabric(batch).ok()?, newest.div_euclid(1000)))
}
