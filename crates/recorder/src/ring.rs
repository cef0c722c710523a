//! The ring itself: blocks into segments, the bounds of the folder, what is there at the start.
//!
//! Knows bytes and times, no records. Called by one thread at a time.

use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, SEGMENT_HEADER_BYTES, encode_segment, index_of, is_segment, payload_crc,
    segment_name,
};
use crate::{Config, Error, SEGMENTS_PER_SPAN, Stats};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use throughline_spool::{Storage, StorageFile};
use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

/// zstd's level (docs/decisions/2026-11-26-full-resolution-stays-on-the-node.md).
const LEVEL: i32 = 1;
/// Bytes (as a power of two) in which earlier readings of the same things are looked for. A second of 32 busy ranks takes
/// some 200 KB.
const WINDOW_LOG: u32 = 20;

/// What is known of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub index: u64,
    /// Up to the end of its last whole block.
    pub len: u64,
    /// Least and largest time of its records; no block, no times.
    pub span_ns: Option<(i64, i64)>,
    /// When its first and its last block were written.
    pub written_ns: Option<(i64, i64)>,
}

impl Segment {
    fn new(index: u64) -> Self {
        Self { index, len: SEGMENT_HEADER_BYTES as u64, span_ns: None, written_ns: None }
    }

    fn add(&mut self, block: &BlockHeader) {
        let (first, last) = self.span_ns.unwrap_or((block.first_ns, block.last_ns));
        self.span_ns = Some((first.min(block.first_ns), last.max(block.last_ns)));
        let begin = self.written_ns.map_or(block.written_ns, |(begin, _)| begin);
        self.written_ns = Some((begin, block.written_ns));
        self.len += block.total_bytes();
    }
}

/// Records for one block: an encoded `Batch`.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub bytes: Vec<u8>,
    pub records: u32,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// A segment that is written to.
struct ActiveSegment {
    file: Box<dyn StorageFile>,
    encoder: Encoder<'static>,
    made_ns: i64,
}

pub(crate) struct Ring {
    storage: Arc<dyn Storage>,
    config: Config,
    /// Oldest first; where there is an active one it is the last.
    pub segments: VecDeque<Segment>,
    active: Option<ActiveSegment>,
    next_index: u64,
    pub stats: Stats,
}

impl Ring {
    /// Finds out what is in the folder. The next block goes into a new segment.
    pub fn open(storage: Arc<dyn Storage>, config: Config) -> Result<Self, Error> {
        let mut ring = Self {
            storage,
            config,
            segments: VecDeque::new(),
            active: None,
            next_index: 0,
            stats: Stats::default(),
        };
        for index in indices(&*ring.storage).map_err(Error::Read)? {
            ring.next_index = index + 1;
            let file = ring.storage.open(&segment_name(index)).map_err(Error::Read)?;
            let scan = scan(&*file, index).map_err(Error::Read)?;
            if scan.damaged_bytes > 0 {
                ring.stats.damaged_blocks += 1;
                ring.stats.damaged_bytes += scan.damaged_bytes;
            }
            match scan.segment {
                Some(segment) if segment.span_ns.is_some() => ring.segments.push_back(segment),
                // Made, and nothing written to it.
                _ => ring.remove_file(index),
            }
        }
        ring.refresh();
        Ok(ring)
    }

    /// Writes a block. Where that fails the frame is dropped; everything is counted.
    pub fn append(&mut self, frame: &Frame, now_ns: i64) {
        self.forget(now_ns);
        let mut result = self.write(frame, now_ns);
        if result.as_ref().is_err_and(is_full) && !self.segments.is_empty() {
            self.stats.no_space_errors += 1;
            self.drop_oldest();
            result = self.write(frame, now_ns);
        }
        match result {
            Ok(written) => self.stats.written_bytes += written,
            Err(error) => {
                if is_full(&error) {
                    self.stats.no_space_errors += 1;
                } else {
                    self.stats.write_errors += 1;
                }
                self.stats.dropped_records += u64::from(frame.records);
            }
        }
        self.forget(now_ns);
        self.refresh();
    }

    /// The bytes written.
    fn write(&mut self, frame: &Frame, now_ns: i64) -> io::Result<u64> {
        if self.is_due(now_ns) {
            self.close();
        }
        let index = match self.active {
            Some(_) => self.next_index - 1,
            None => self.begin(now_ns)?,
        };
        let result = self.write_block(frame, now_ns, index);
        if result.is_err() {
            // The reader's stream would lack this block: what follows goes into a new segment.
            self.active = None;
            if self.segments.back().is_some_and(|segment| segment.span_ns.is_none()) {
                self.segments.pop_back();
                self.remove_file(index);
            }
        }
        result
    }

    fn write_block(&mut self, frame: &Frame, now_ns: i64, index: u64) -> io::Result<u64> {
        let (Some(active), Some(segment)) = (&mut self.active, self.segments.back_mut()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut bytes = vec![0; BLOCK_HEADER_BYTES];
        pack(&mut active.encoder, &frame.bytes, &mut bytes)?;
        let payload = &bytes[BLOCK_HEADER_BYTES..];
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge);
        let header = BlockHeader {
            payload_bytes: length(payload)?,
            raw_bytes: length(&frame.bytes)?,
            records: frame.records,
            payload_crc: payload_crc(index, payload),
            first_ns: frame.first_ns,
            last_ns: frame.last_ns,
            written_ns: now_ns,
        };
        bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode(index));
        active.file.write_at(&bytes, segment.len)?;
        segment.add(&header);
        Ok(bytes.len() as u64)
    }

    /// Whether the active segment has its share of the span or of the bytes, or the clock was set back.
    fn is_due(&self, now_ns: i64) -> bool {
        let (Some(active), Some(segment)) = (&self.active, self.segments.back()) else { return false };
        let share = self.config.age_max / SEGMENTS_PER_SPAN;
        segment.len >= self.config.bytes_max / u64::from(SEGMENTS_PER_SPAN)
            || now_ns < active.made_ns
            || now_ns - active.made_ns >= nanoseconds(share)
    }

    fn begin(&mut self, now_ns: i64) -> io::Result<u64> {
        let mut encoder = Encoder::new(LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        let index = self.next_index;
        let file = self.storage.create(&segment_name(index))?;
        self.next_index += 1;
        self.segments.push_back(Segment::new(index));
        self.active = Some(ActiveSegment { file, encoder, made_ns: now_ns });
        if let Some(active) = &self.active
            && let Err(error) = active.file.write_at(&encode_segment(index, now_ns), 0)
        {
            self.active = None;
            self.segments.pop_back();
            self.remove_file(index);
            return Err(error);
        }
        Ok(index)
    }

    /// Ends the active segment; it is safe from a power loss then.
    pub fn close(&mut self) {
        if let Some(active) = self.active.take() {
            let synced = active.file.sync_data().and_then(|()| self.storage.sync_dir());
            if synced.is_err() {
                self.stats.write_errors += 1;
            }
        }
    }

    /// Removes what is beyond the bounds.
    fn forget(&mut self, now_ns: i64) {
        let oldest_wanted = now_ns.saturating_sub(nanoseconds(self.config.age_max));
        loop {
            let bytes: u64 = self.segments.iter().map(|segment| segment.len).sum();
            let Some(oldest) = self.segments.front() else { return };
            let is_old = oldest.written_ns.is_some_and(|(_, last)| last < oldest_wanted);
            if !is_old && bytes <= self.config.bytes_max {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.segments.pop_front() {
            if self.segments.is_empty() {
                self.active = None;
            }
            self.remove_file(oldest.index);
        }
    }

    fn remove_file(&mut self, index: u64) {
        match self.storage.remove(&segment_name(index)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.stats.write_errors += 1,
            _ => {}
        }
    }

    fn refresh(&mut self) {
        self.stats.disk_bytes = self.segments.iter().map(|segment| segment.len).sum();
        self.stats.segments = self.segments.len() as u64;
        let written = |segment: &Segment| segment.written_ns;
        self.stats.oldest_ns = self.segments.iter().find_map(written).map(|(first, _)| first);
        self.stats.newest_ns = self.segments.iter().rev().find_map(written).map(|(_, last)| last);
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Appends `raw` to `out` as the next flushed piece of the stream.
fn pack(encoder: &mut Encoder<'_>, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut input = InBuffer::around(raw);
    let mut chunk = vec![0; zstd::zstd_safe::compress_bound(raw.len()).max(1024)];
    loop {
        let mut output = OutBuffer::around(&mut chunk[..]);
        let left = if input.pos() < raw.len() {
            encoder.run(&mut input, &mut output)?;
            1 // Flushed once all is taken.
        } else {
            encoder.flush(&mut output)?
        };
        out.extend_from_slice(output.as_slice());
        if left == 0 {
            return Ok(());
        }
    }
}

/// Indices of the segments in a folder, in their order.
pub(crate) fn indices(storage: &dyn Storage) -> io::Result<Vec<u64>> {
    let mut indices: Vec<u64> = storage.list()?.iter().filter_map(|name| index_of(name)).collect();
    indices.sort_unstable();
    Ok(indices)
}

/// What a file turned out to hold.
pub(crate) struct Scan {
    /// `None` where it is no segment.
    pub segment: Option<Segment>,
    /// Bytes behind its last whole block.
    pub damaged_bytes: u64,
}

/// Looks through a segment's headers. Of the payloads only the last one is checked: it may be torn; others are when they are
/// read.
pub(crate) fn scan(file: &dyn StorageFile, index: u64) -> io::Result<Scan> {
    let len = file.len()?;
    let mut head = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(&mut head, 0)?;
    if !is_segment(&head[..read], index) {
        return Ok(Scan { segment: None, damaged_bytes: len });
    }
    let mut segment = Segment::new(index);
    let mut before = segment.clone();
    let mut newest = None;
    let mut head = [0; BLOCK_HEADER_BYTES];
    while segment.len < len {
        let read = file.read_at(&mut head, segment.len)?;
        let Some(block) = BlockHeader::decode(&head[..read], index) else { break };
        if segment.len + block.total_bytes() > len {
            break;
        }
        before = segment.clone();
        newest = Some((segment.len, block));
        segment.add(&block);
    }
    if let Some((offset, block)) = newest
        && !payload_is_whole(file, index, offset, &block)?
    {
        segment = before;
    }
    Ok(Scan { damaged_bytes: len - segment.len, segment: Some(segment) })
}

fn payload_is_whole(
    file: &dyn StorageFile,
    index: u64,
    offset: u64,
    block: &BlockHeader,
) -> io::Result<bool> {
    let mut payload = vec![0; block.payload_bytes as usize];
    let read = file.read_at(&mut payload, offset + BLOCK_HEADER_BYTES as u64)?;
    Ok(read == payload.len() && payload_crc(index, &payload) == block.payload_crc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStorage;

    const SECOND: i64 = 1_000_000_000;

    fn frame(time: i64) -> Frame {
        Frame { bytes: vec![7; 100], records: 1, first_ns: time, last_ns: time }
    }

    #[test]
    fn what_is_older_than_the_bound_goes_a_sixtieth_at_a_time() {
        let storage = Arc::new(MemoryStorage::default());
        let config = Config { age_max: Duration::from_secs(600), ..Config::default() };
        let mut ring = Ring::open(storage.clone(), config).unwrap();
        for second in 0..2000 {
            ring.append(&frame(second * SECOND), second * SECOND);
            let oldest = ring.stats.oldest_ns.unwrap();
            let age = second * SECOND - oldest;
            assert!(age <= 611 * SECOND && (second < 600 || age >= 600 * SECOND), "{second}: {age}");
        }
        assert_eq!(ring.segments.len(), storage.list().unwrap().len());
        assert!((60..=62).contains(&ring.segments.len()), "{}", ring.segments.len());
        assert_eq!(ring.stats.newest_ns, Some(1999 * SECOND));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_a_segment_and_loses_nothing() {
        let mut ring = Ring::open(Arc::new(MemoryStorage::default()), Config::default()).unwrap();
        for time in [5000, 5001, 100, 101] {
            ring.append(&frame(time * SECOND), time * SECOND);
        }
        assert_eq!(ring.segments.len(), 2);
        assert_eq!(ring.stats.dropped_records, 0);
        // An hour later than the wrong time it goes.
        ring.append(&frame(9000 * SECOND), 9000 * SECOND);
        assert_eq!(ring.segments.len(), 1);
    }

    #[test]
    fn files_that_are_no_segments_are_removed_and_others_left() {
        let storage = Arc::new(MemoryStorage::default());
        storage.create(&segment_name(4)).unwrap().write_at(b"something else", 0).unwrap();
        storage.create("notes.txt").unwrap();
        let mut ring = Ring::open(storage.clone(), Config::default()).unwrap();
        assert_eq!((ring.stats.damaged_blocks, ring.stats.damaged_bytes), (1, 14));
        assert_eq!(storage.list().unwrap(), ["notes.txt"]);
        ring.append(&frame(1), 1);
        assert_eq!(ring.segments[0].index, 5, "an index is never used again");
    }
}
