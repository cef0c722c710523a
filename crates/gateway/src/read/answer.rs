//! The two forms of an answer, made of one series after the other.

use super::matchers::NAME;
use super::message::{Label, Sample, TimeSeries};
use bytes::{BufMut, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use throughline_store::history::{Chunk, Family, Samples, Series};

/// Chunks of one message: 512 of 120 samples are below the megabyte that Prometheus makes its own messages of.
const CHUNKS: usize = 512;

/// `Chunk.Encoding.XOR` of `prompb/types.proto`.
const XOR: u64 = 1;

/// Fields of `ChunkedSeries`, `Chunk` and `ChunkedReadResponse`.
const LABELS: u32 = 1;
const CHUNK: u32 = 2;
const DATA: u32 = 4;
const QUERY: u32 = 2;

/// Field of the results in `ReadResponse`, and of the series in a result.
const FIRST_FIELD: u32 = 1;

/// The labels of a series with its name, ordered: the name's label comes before all others of ours.
fn labels(family: &Family, series: &Series) -> Vec<Label> {
    let name = Label { name: NAME.to_owned(), value: family.name.clone() };
    let others =
        series.labels.iter().map(|(name, value)| Label { name: (*name).to_owned(), value: value.clone() });
    std::iter::once(name).chain(others).collect()
}

/// Adds the messages of a stream for one series, framed: length as a varint, CRC-32C in four bytes, the message, which is a
/// `ChunkedReadResponse` with the one series. Written without messages in between: there are thousands of series.
pub fn streamed(
    query: usize,
    family: &Family,
    series: &Series,
    samples: Option<&Samples>,
    out: &mut BytesMut,
) {
    let mut head = Vec::new();
    for label in labels(family, series) {
        prost::encoding::message::encode(LABELS, &label, &mut head);
    }
    let index = if query == 0 { 0 } else { key_len(QUERY) + encoded_len_varint(query as u64) };
    let all = samples.map_or_else(Vec::new, Samples::chunks);
    // Labels alone are a message too.
    let parts = all.chunks(CHUNKS).chain(all.is_empty().then_some(&[][..]));
    for chunks in parts {
        let lengths = chunks.iter().map(|chunk| {
            let length = chunk_len(chunk);
            key_len(CHUNK) + encoded_len_varint(length as u64) + length
        });
        let length = head.len() + lengths.sum::<usize>();
        let whole = key_len(FIRST_FIELD) + encoded_len_varint(length as u64) + length + index;
        out.reserve(whole + 14);
        encode_varint(whole as u64, out);
        let sum = out.len();
        out.put_u32(0);
        encode_key(FIRST_FIELD, WireType::LengthDelimited, out);
        encode_varint(length as u64, out);
        out.put_slice(&head);
        for chunk in chunks {
            encode_key(CHUNK, WireType::LengthDelimited, out);
            encode_varint(chunk_len(chunk) as u64, out);
            for (place, number) in numbers(chunk) {
                encode_key(place, WireType::Varint, out);
                encode_varint(number, out);
            }
            encode_key(DATA, WireType::LengthDelimited, out);
            encode_varint(chunk.data.len() as u64, out);
            out.put_slice(&chunk.data);
        }
        if query > 0 {
            encode_key(QUERY, WireType::Varint, out);
            encode_varint(query as u64, out);
        }
        let crc = crc32c::crc32c(&out[sum + 4..]);
        out[sum..sum + 4].copy_from_slice(&crc.to_be_bytes());
    }
}

/// The numbers of a `Chunk` and their fields: time of the first sample, of the last one, encoding.
fn numbers(chunk: &Chunk) -> [(u32, u64); 3] {
    [(1, chunk.first.cast_unsigned()), (2, chunk.last.cast_unsigned()), (3, XOR)]
}

fn chunk_len(chunk: &Chunk) -> usize {
    let numbers = numbers(chunk).map(|(place, number)| key_len(place) + encoded_len_varint(number));
    let data = chunk.data.len();
    numbers.iter().sum::<usize>() + key_len(DATA) + encoded_len_varint(data as u64) + data
}

/// A `ReadResponse` under construction.
#[derive(Default)]
pub struct Whole {
    /// Encoded results, the last one open.
    results: Vec<Vec<u8>>,
}

impl Whole {
    /// The next query's result begins.
    pub fn begin(&mut self) {
        self.results.push(Vec::new());
    }

    /// Adds a series to it.
    pub fn add(&mut self, family: &Family, series: &Series, samples: Option<&Samples>) {
        let points = samples.map_or(&[][..], Samples::points);
        let samples =
            points.iter().map(|(timestamp, value)| Sample { value: *value, timestamp: *timestamp }).collect();
        let series = TimeSeries { labels: labels(family, series), samples };
        if let Some(result) = self.results.last_mut() {
            prost::encoding::message::encode(FIRST_FIELD, &series, result);
        }
    }

    /// The message, compressed as Snappy's block format.
    ///
    /// # Errors
    /// More than 4 GiB.
    pub fn compressed(self) -> Result<Vec<u8>, snap::Error> {
        let mut message = Vec::with_capacity(self.results.iter().map(|result| result.len() + 11).sum());
        for result in self.results {
            encode_key(FIRST_FIELD, WireType::LengthDelimited, &mut message);
            encode_varint(result.len() as u64, &mut message);
            message.extend_from_slice(&result);
        }
        snap::raw::Encoder::new().compress_vec(&message)
    }
}
