//! Keeping the folder within its bound: thinning the oldest segments, then dropping them.
//!
//! A part of the writing side; decides what goes, and leaves removal itself to [`Flusher::tidy`].

use crate::flush::{FlushError, Flusher, failed};
use crate::format::{ENTRY_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_entry, thin};
use crate::names::segment_name;
use crate::salvage::salvage;
use crate::state::{PendingEntry, Segment, SharedState};
use crate::storage::read_whole;
use crate::{FOREIGN_SEGMENT_BYTES_MAX, SEGMENTS_MAX};

impl Flusher {
    /// Thins, then drops, until the folder stays within its bound with this batch and one rewritten segment.
    pub fn free_space_for(&mut self, shared: &SharedState, batch: &[PendingEntry]) -> Result<(), FlushError> {
        let need: u64 = batch.iter().map(|p| (p.payload.len() + ENTRY_HEADER_BYTES) as u64).sum::<u64>()
            + SEGMENT_HEADER_BYTES as u64;
        // Each round thins one segment (each only once) or drops one, so this ends.
        loop {
            let (candidate, over) = {
                let state = shared.lock();
                let spare = state.segments.iter().map(|s| s.len).max().unwrap_or(0);
                let over = state.disk_bytes() + need + spare > shared.config.disk_bytes_max
                    || state.segments.len() >= SEGMENTS_MAX;
                let candidate = state.segments.iter().find(|s| !s.active && !s.thinned).cloned();
                (candidate.filter(|_| state.segments.len() < SEGMENTS_MAX), over)
            };
            if !over {
                self.tidy(shared);
                return Ok(());
            }
            match candidate {
                Some(segment) => {
                    if let Err(error) = self.thin_segment(shared, &segment) {
                        tracing::warn!(%error, "thinning a segment of the full spool failed: it is dropped");
                        self.drop_segment(shared, segment.index);
                    }
                }
                None => {
                    let oldest = shared.lock().segments.front().map(|s| (s.index, s.active));
                    match oldest {
                        Some((_, true)) => self.close_active(shared),
                        Some((index, false)) => self.drop_segment(shared, index),
                        None => return Ok(()),
                    }
                }
            }
            self.tidy(shared);
        }
    }

    fn drop_segment(&self, shared: &SharedState, index: u64) {
        let mut state = shared.lock();
        if let Some(at) = state.segments.iter().position(|s| s.index == index)
            && let Some(segment) = state.segments.remove(at)
        {
            state.counts.dropped_disk_entries += segment.remaining(state.acked);
            state.doomed.push(index);
        }
    }

    /// Rewrites a segment without every second cumulative entry of each stream and without what is
    /// acknowledged. The copy is on disk before the original goes.
    fn thin_segment(&mut self, shared: &SharedState, segment: &Segment) -> Result<(), FlushError> {
        let acked = shared.lock().acked;
        let file =
            self.storage.open(&segment_name(segment.index)).map_err(failed("open a segment to thin it"))?;
        let bytes = read_whole(file.as_ref(), FOREIGN_SEGMENT_BYTES_MAX)
            .map_err(failed("read a segment to thin it"))?;
        let bytes = &bytes[..bytes.len().min(usize::try_from(segment.len).unwrap_or(usize::MAX))];
        let mut entries = salvage(bytes, segment.salt).0;
        entries.retain(|entry| entry.sequence > acked);
        let keep = thin(&entries.iter().map(|e| e.class).collect::<Vec<_>>());
        let header = SegmentHeader { spool_id: segment.spool_id, index: self.next_index, thinned: true };
        self.next_index += 1;
        let mut copy = Segment {
            index: header.index,
            salt: header.salt(),
            thinned: true,
            entries: 0,
            damaged: false,
            damage_counted_to: 0,
            ..segment.clone()
        };
        let mut out = header.encode().to_vec();
        let mut first = None;
        for (entry, _) in entries.iter().zip(&keep).filter(|(_, keep)| **keep) {
            let payload = &bytes[entry.payload.clone()];
            encode_entry(&mut out, copy.salt, entry.sequence, entry.class, entry.appended_ns, payload);
            copy.entries += 1;
            copy.last = entry.sequence;
            if first.is_none() {
                first = Some(entry);
            }
        }
        copy.len = out.len() as u64;
        let Some(first) = first else {
            // Nothing readable or all acknowledged.
            self.drop_segment(shared, segment.index);
            return Ok(());
        };
        (copy.first, copy.oldest_ns) = (first.sequence, first.appended_ns);
        let name = segment_name(copy.index);
        let written = self.write_file(&name, &out);
        if written.is_err() {
            shared.lock().doomed.push(copy.index);
        }
        written.map_err(failed("write a thinned segment"))?;
        let mut state = shared.lock();
        state.counts.thinned_disk_entries += entries.len() as u64 - copy.entries;
        state.counts.damaged_entries += segment.remaining(acked).saturating_sub(entries.len() as u64);
        state.remove_file(segment);
        if let Some(place) = state.segments.iter_mut().find(|s| s.index == segment.index) {
            *place = copy;
        } else {
            state.doomed.push(copy.index); // Acknowledged meanwhile.
        }
        Ok(())
    }
}
