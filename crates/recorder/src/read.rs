//! Reading records back: of the recorder in this process, or of a folder that another process writes.
//!
//! Changes nothing on disk and holds nothing up: a segment that the ring gives up meanwhile is passed over.

use crate::filter::{Filter, records};
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, SEGMENT_HEADER_BYTES, payload_crc, segment_name};
use crate::ring::{Segment, indices, scan};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_spool::{Storage, StorageFile, read_file_at};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Why the rest of a segment is missing. Reading continues with the next one.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the recorder's segment {name} is lost: {why}")]
pub struct ReadError {
    name: String,
    why: String,
}

/// Records in the order in which they were written, a batch for each block that has some.
pub struct Records {
    storage: Arc<dyn Storage>,
    segments: VecDeque<Segment>,
    times: Range<i64>,
    filter: Filter,
    open: Option<Open>,
}

/// A segment being read.
struct Open {
    segment: Segment,
    file: Box<dyn StorageFile>,
    decoder: Decoder<'static>,
    offset: u64,
}

impl Records {
    /// `times`: UTC nanoseconds; the end is not included.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        segments: impl IntoIterator<Item = Segment>,
        times: Range<i64>,
        filter: Filter,
    ) -> Self {
        let has_some = |segment: &Segment| {
            segment.span_ns.is_some_and(|(first, last)| first < times.end && last >= times.start)
        };
        let segments = segments.into_iter().filter(has_some).collect();
        Self { storage, segments, times, filter, open: None }
    }

    fn open_next(&mut self) -> Option<io::Result<()>> {
        let segment = self.segments.pop_front()?;
        let opened = self.storage.open(&segment_name(segment.index)).and_then(|file| {
            let mut decoder = Decoder::new()?;
            decoder.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(27))?;
            Ok(Open { segment, file, decoder, offset: SEGMENT_HEADER_BYTES as u64 })
        });
        match opened {
            Ok(open) => {
                self.open = Some(open);
                Some(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Records {
    type Item = Result<Batch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(open) = &mut self.open else {
                match self.open_next()? {
                    Ok(()) => continue,
                    Err(error) => {
                        return Some(Err(ReadError {
                            name: "that is next".to_owned(),
                            why: error.to_string(),
                        }));
                    }
                }
            };
            if open.offset >= open.segment.len {
                self.open = None;
                continue;
            }
            match open.next_block(&self.times) {
                Ok(None) => {}
                Ok(Some((mut batch, written_ns))) => {
                    self.filter.apply(&mut batch, self.times.start, self.times.end, written_ns);
                    if records(&batch) > 0 {
                        return Some(Ok(batch));
                    }
                }
                Err(why) => {
                    let name = segment_name(open.segment.index);
                    self.open = None;
                    return Some(Err(ReadError { name, why }));
                }
            }
        }
    }
}

impl Open {
    /// The next block and when it was written; `None` where none of its records can have such a time.
    fn next_block(&mut self, times: &Range<i64>) -> Result<Option<(Batch, i64)>, String> {
        let index = self.segment.index;
        let mut head = [0; BLOCK_HEADER_BYTES];
        let read = self.file.read_at(&mut head, self.offset).map_err(|error| error.to_string())?;
        let block = BlockHeader::decode(&head[..read], index).ok_or("a block's header is damaged")?;
        let mut payload = vec![0; block.payload_bytes as usize];
        let offset = self.offset + BLOCK_HEADER_BYTES as u64;
        let read = self.file.read_at(&mut payload, offset).map_err(|error| error.to_string())?;
        if read < payload.len() || payload_crc(index, &payload) != block.payload_crc {
            return Err("a block is damaged".to_owned());
        }
        // Blocks that are not wanted as well: those behind refer to them.
        let raw = unpack(&mut self.decoder, &payload, block.raw_bytes as usize)
            .map_err(|error| format!("a block can't be unpacked: {error}"))?;
        self.offset += block.total_bytes();
        if block.last_ns < times.start || block.first_ns >= times.end {
            return Ok(None);
        }
        let batch = Batch::decode(&raw[..]).map_err(|error| format!("a block is no batch: {error}"))?;
        Ok(Some((batch, block.written_ns)))
    }
}

/// The next `length` bytes of the stream.
fn unpack(decoder: &mut Decoder<'_>, payload: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let mut raw = vec![0; length];
    let mut input = InBuffer::around(payload);
    let mut done = 0;
    // One more call when all is there: the decoder may still have to take the end of the piece.
    while done < length || input.pos() < payload.len() {
        let before = (done, input.pos());
        let mut output = OutBuffer::around(&mut raw[done..]);
        decoder.run(&mut input, &mut output)?;
        done += output.pos();
        if (done, input.pos()) == before {
            return Err(io::Error::new(ErrorKind::InvalidData, "it has another length than it says"));
        }
    }
    Ok(raw)
}

/// Records in the folder of a recorder that another process may be writing, with times (UTC nanoseconds) in `times`.
///
/// # Errors
/// The folder can't be read.
pub fn read_folder(folder: &Path, times: Range<i64>, filter: Filter) -> io::Result<Records> {
    let storage = Arc::new(ReadOnly(folder.to_owned()));
    let mut segments = Vec::new();
    for index in indices(&*storage)? {
        match storage.open(&segment_name(index)) {
            // A torn end may just be in the making.
            Ok(file) => segments.extend(scan(&*file, index)?.segment),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Records::new(storage, segments, times, filter))
}

/// A folder without its lock, to be read.
struct ReadOnly(PathBuf);

fn read_only<T>() -> io::Result<T> {
    Err(ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for ReadOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn create(&self, _name: &str) -> io::Result<Box<dyn StorageFile>> {
        read_only()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(ReadOnlyFile(File::open(self.0.join(name))?)))
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self) -> io::Result<()> {
        read_only()
    }
}

struct ReadOnlyFile(File);

impl StorageFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_file_at(&self.0, buffer, offset)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        read_only()
    }
}
