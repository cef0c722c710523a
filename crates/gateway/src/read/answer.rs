//! The two forms of an answer, made of one series after the other.

use super::matchers::NAME;
use bytes::{BufMut, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use throughline_query::history::{Chunk, Family, Samples, Series};

/// Keys of `TimeSeries.samples`, `Sample.value` and `Sample.timestamp`: number and wire type.
const SAMPLE_KEY: u8 = 2 << 3 | 2;
const VALUE_KEY: u8 = 1 << 3 | 1;
const TIME_KEY: u8 = 2 << 3;

/// Bytes that are compressed at once: Snappy looks no farther back.
const PACKED_AT_ONCE: usize = 64 << 10;

/// `Chunk.Encoding.XOR` of `prompb/types.proto`.
const XOR: u64 = 1;

/// Fields of `Label`, `ChunkedSeries`, `Chunk` and `ChunkedReadResponse`.
const LABEL_NAME: u32 = 1;
const LABEL_VALUE: u32 = 2;
const LABELS: u32 = 1;
const CHUNK: u32 = 2;
const DATA: u32 = 4;
const QUERY: u32 = 2;

/// Field of the results in `ReadResponse`, and of the series in a result.
const FIRST_FIELD: u32 = 1;

/// The labels of a series with its name as field `labels`, ordered: the name's label comes before all others of ours.
fn labels(family: &Family, series: &Series) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let others = series.labels.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in std::iter::once((NAME, family.name.as_str())).chain(others) {
        let fields = [(LABEL_NAME, name), (LABEL_VALUE, value)];
        let length =
            fields.map(|(key, text)| key_len(key) + encoded_len_varint(text.len() as u64) + text.len());
        encode_key(LABELS, WireType::LengthDelimited, &mut out);
        encode_varint(length.iter().sum::<usize>() as u64, &mut out);
        for (key, text) in fields {
            encode_key(key, WireType::LengthDelimited, &mut out);
            encode_varint(text.len() as u64, &mut out);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Adds the message of a stream for one series, framed: length as a varint, CRC-32C in four bytes, the message, which is a
/// `ChunkedReadResponse` with the one series. Written without messages in between: there are thousands of series.
///
/// A series is one message however long it is: Prometheus (3.5) takes each message for a series of its own, and finds a
/// label set twice where there are two. It takes 50 MB of one, a month of readings each second at the worst.
pub fn streamed(
    query: usize,
    family: &Family,
    series: &Series,
    samples: Option<&Samples>,
    out: &mut BytesMut,
) {
    let head = labels(family, series);
    let index = if query == 0 { 0 } else { key_len(QUERY) + encoded_len_varint(query as u64) };
    // Labels alone are a message too.
    let chunks = samples.map_or_else(Vec::new, Samples::chunks);
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
    chunks.iter().for_each(|chunk| put_chunk(chunk, out));
    if query > 0 {
        encode_key(QUERY, WireType::Varint, out);
        encode_varint(query as u64, out);
    }
    let crc = crc32c::crc32c(&out[sum + 4..]);
    out[sum..sum + 4].copy_from_slice(&crc.to_be_bytes());
}

/// Adds a chunk as field `chunks`.
fn put_chunk(chunk: &Chunk, out: &mut BytesMut) {
    // Six keys and numbers of at most 10 bytes each, put together before they are added: there are thousands.
    let mut head = [0; 66];
    let mut open = &mut head[..];
    encode_key(CHUNK, WireType::LengthDelimited, &mut open);
    encode_varint(chunk_len(chunk) as u64, &mut open);
    for (place, number) in numbers(chunk) {
        encode_key(place, WireType::Varint, &mut open);
        encode_varint(number, &mut open);
    }
    encode_key(DATA, WireType::LengthDelimited, &mut open);
    encode_varint(chunk.data.len() as u64, &mut open);
    let length = 66 - open.len();
    out.put_slice(&head[..length]);
    out.put_slice(&chunk.data);
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

/// A `ReadResponse` under construction, compressed as Snappy's block format while it grows: what is compressed by itself may
/// be put behind other such pieces.
pub struct ReadResponseBuilder {
    results: Vec<Packed>,
    /// What is not compressed yet of the last result.
    open: Vec<u8>,
    encoder: Box<snap::raw::Encoder>,
}

/// Compressed bytes without their length, and what they were.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    length: usize,
}

impl Packed {
    fn add(&mut self, encoder: &mut snap::raw::Encoder, raw: &[u8]) -> Result<(), snap::Error> {
        let packed = encoder.compress_vec(raw)?;
        // The length is a varint: its last byte is below 0x80.
        let head = packed.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        self.bytes.extend_from_slice(packed.get(head..).unwrap_or_default());
        self.length += raw.len();
        Ok(())
    }
}

impl ReadResponseBuilder {
    /// Without any query's result.
    #[must_use]
    pub fn new() -> ReadResponseBuilder {
        ReadResponseBuilder {
            results: Vec::new(),
            open: Vec::new(),
            encoder: Box::new(snap::raw::Encoder::new()),
        }
    }

    /// The next query's result begins.
    ///
    /// # Errors
    /// As [`ReadResponseBuilder::compressed`].
    pub fn begin(&mut self) -> Result<(), snap::Error> {
        self.pack()?;
        self.results.push(Packed::default());
        Ok(())
    }

    fn pack(&mut self) -> Result<(), snap::Error> {
        if let Some(result) = self.results.last_mut().filter(|_| !self.open.is_empty()) {
            result.add(&mut self.encoder, &self.open)?;
        }
        self.open.clear();
        Ok(())
    }

    /// Adds a series to it.
    ///
    /// # Errors
    /// As [`ReadResponseBuilder::compressed`].
    pub fn add(
        &mut self,
        family: &Family,
        series: &Series,
        samples: Option<&Samples>,
    ) -> Result<(), snap::Error> {
        let points = samples.map_or(&[][..], Samples::points);
        let head = labels(family, series);
        let length = |point: &(i64, f64)| sample_len(point.0);
        let samples: usize = points.iter().map(|point| 2 + length(point)).sum();
        encode_key(FIRST_FIELD, WireType::LengthDelimited, &mut self.open);
        encode_varint((head.len() + samples) as u64, &mut self.open);
        self.open.extend_from_slice(&head);
        for point in points {
            // Of 20 bytes at most, so that its length is a byte.
            self.open.extend_from_slice(&[SAMPLE_KEY, length(point) as u8, VALUE_KEY]);
            self.open.extend_from_slice(&point.1.to_le_bytes());
            self.open.push(TIME_KEY);
            encode_varint(point.0.cast_unsigned(), &mut self.open);
            if self.open.len() >= PACKED_AT_ONCE {
                self.pack()?;
            }
        }
        Ok(())
    }

    /// The message.
    ///
    /// # Errors
    /// More than 4 GiB.
    pub fn compressed(mut self) -> Result<Vec<u8>, snap::Error> {
        self.pack()?;
        let mut all = Packed::default();
        for result in &self.results {
            let mut head = Vec::new();
            encode_key(FIRST_FIELD, WireType::LengthDelimited, &mut head);
            encode_varint(result.length as u64, &mut head);
            all.add(&mut self.encoder, &head)?;
            all.bytes.extend_from_slice(&result.bytes);
            all.length += result.length;
        }
        if u32::try_from(all.length).is_err() {
            return Err(snap::Error::TooBig { given: all.length as u64, max: u64::from(u32::MAX) });
        }
        let mut message = Vec::with_capacity(all.bytes.len() + 5);
        encode_varint(all.length as u64, &mut message);
        message.extend_from_slice(&all.bytes);
        Ok(message)
    }
}

/// Length of a `Sample`: its value and its time, both always there.
fn sample_len(time: i64) -> usize {
    10 + encoded_len_varint(time.cast_unsigned())
}
