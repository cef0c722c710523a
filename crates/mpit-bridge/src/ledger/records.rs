//! Records of traffic, made of a job's cells.

use super::{CALLS_SOURCE, JobHere, MESSAGES_SOURCE, OTHER, RankId};
use crate::layouts::Layouts;
use crate::operations::operation_name;
use crate::traffic_cells::{CellKey, Kind, LineKey, Sums};
use std::collections::HashMap;
use throughline_sample::catalogue::{TRAFFIC_BYTES, TRAFFIC_MESSAGES};
use throughline_sample::wire::{MpiNodeTraffic, MpiPeerCell};

impl JobHere {
    /// A record for each operation, kind and direction with cells that changed, and how many cells are in them; `has_all`: of all cells,
    /// whether they changed or not.
    pub(super) fn records(
        &mut self,
        job_key: &str,
        now: i64,
        has_all: bool,
        layouts: &mut Layouts,
    ) -> (Vec<MpiNodeTraffic>, usize) {
        let ids: Vec<RankId> = self.ranks.keys().copied().collect();
        ids.into_iter().for_each(|id| self.lay_out(id, None, layouts));
        // How many cells of each line changed, of all.
        let mut counts: HashMap<LineKey, (usize, usize)> = HashMap::new();
        for (key, cell) in &self.cells {
            let (changed, all) = counts.entry(key.line()).or_default();
            *changed += usize::from(cell.now != cell.sent);
            *all += 1;
        }
        counts.retain(|_, (changed, all)| {
            if has_all {
                *changed = *all;
            }
            *changed > 0
        });
        let is_whole: HashMap<LineKey, bool> = counts
            .into_iter()
            .map(|(line, (changed, all))| (line, self.wholes.entry(line).or_default().is_next(changed, all)))
            .collect();
        let mut cells: Vec<(CellKey, Sums)> = Vec::new();
        for (key, cell) in &mut self.cells {
            if cell.now != cell.sent || is_whole.get(&key.line()) == Some(&true) {
                cell.sent = cell.now;
                cells.push((*key, cell.now));
            }
        }
        cells.sort_unstable_by_key(|(key, _)| *key);
        // A row's time is part of its key, in microseconds.
        let now = if cells.is_empty() { now.max(self.since) } else { now.max(self.since + 1000) };
        let records = cells.chunk_by(|(a, _), (b, _)| a.line() == b.line()).filter_map(|cells| {
            let (key, _) = cells.first()?;
            Some(MpiNodeTraffic {
                time: now,
                epoch: self.epoch,
                job_key: job_key.to_owned(),
                since: self.since,
                operation: operation_name(key.operation).unwrap_or(OTHER).to_owned(),
                kind: key.kind.name().to_owned(),
                direction: if key.is_read { "receive" } else { "transmit" }.to_owned(),
                source: if key.kind == Kind::Measured { MESSAGES_SOURCE } else { CALLS_SOURCE }.to_owned(),
                cells: cells.iter().map(|(key, sums)| peer_cell(key.peer, *sums)).collect(),
                is_whole: is_whole.get(&key.line()) == Some(&true),
            })
        });
        let records = records.collect();
        self.since = now;
        (records, cells.len())
    }
}

fn peer_cell(peer: u32, sums: Sums) -> MpiPeerCell {
    let (bytes, messages) =
        (TRAFFIC_BYTES.width.reduce(sums.bytes), TRAFFIC_MESSAGES.width.reduce(sums.messages));
    MpiPeerCell { peer, bytes, messages }
}
