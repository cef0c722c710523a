//! The two forms of an answer, made of one series after the other.

use super::chunk::chunks;
use super::matchers::NAME;
use super::message::{ChunkedReadResponse, ChunkedSeries, Label, Sample, TimeSeries};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use throughline_store::history::{Family, Samples, Series};

/// Chunks of one message: 512 of 120 samples are below the megabyte that Prometheus makes its own messages of.
const CHUNKS: usize = 512;

/// Field of the results in `ReadResponse`, and of the series in a result.
const FIRST_FIELD: u32 = 1;

/// The labels of a series with its name, ordered: the name's label comes before all others of ours.
fn labels(family: &Family, series: &Series) -> Vec<Label> {
    let name = Label { name: NAME.to_owned(), value: family.name.clone() };
    let others =
        series.labels.iter().map(|(name, value)| Label { name: (*name).to_owned(), value: value.clone() });
    std::iter::once(name).chain(others).collect()
}

/// The messages of a stream for one series, framed: length as a varint, CRC-32C in four bytes, the message.
pub fn streamed(query: usize, family: &Family, series: &Series, samples: Option<&Samples>) -> Vec<Bytes> {
    let labels = labels(family, series);
    let all: Vec<_> = chunks(samples.map_or(&[], Samples::points)).collect();
    let parts =
        if all.is_empty() { vec![Vec::new()] } else { all.chunks(CHUNKS).map(<[_]>::to_vec).collect() };
    let message = |chunks| ChunkedReadResponse {
        chunked_series: vec![ChunkedSeries { labels: labels.clone(), chunks }],
        query_index: i64::try_from(query).unwrap_or_default(),
    };
    parts.into_iter().map(|chunks| frame(&message(chunks).encode_to_vec())).collect()
}

fn frame(message: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(message.len() + 14);
    encode_varint(message.len() as u64, &mut framed);
    framed.extend_from_slice(&crc32c::crc32c(message).to_be_bytes());
    framed.extend_from_slice(message);
    framed.into()
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
