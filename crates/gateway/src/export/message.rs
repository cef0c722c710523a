//! Requests of remote write: `prometheus.WriteRequest` (`prompb/remote.proto`, version 1 of the protocol) and
//! `io.prometheus.write.v2.Request` (`prompb/io/prometheus/write/v2/types.proto`, version 2), as Snappy's block format.
//! Written without messages in between. Pure.

use super::Protocol;
use crate::read::matchers::NAME;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use std::collections::HashMap;
use std::ops::Range;
use throughline_query::history::families;
use throughline_query::history::tail::TailSeries;

/// `Content-Type` of each version.
pub const CONTENT_TYPES: [&str; 2] =
    ["application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"];

/// `X-Prometheus-Remote-Write-Version` of each version.
pub const VERSIONS: [&str; 2] = ["0.1.0", "2.0.0"];

/// Fields of version 1: `WriteRequest.timeseries`; `TimeSeries.labels`, `.samples`; `Label.name`, `.value`.
const TIME_SERIES: u32 = 1;
const LABELS: u32 = 1;
const SAMPLES: u32 = 2;
const LABEL_NAME: u32 = 1;
const LABEL_VALUE: u32 = 2;

/// Fields of version 2: `Request.symbols`, `.timeseries`; `TimeSeries.labels_refs`, `.metadata`; `Metadata.type`. Samples are as
/// in version 1.
const SYMBOLS: u32 = 4;
const TIME_SERIES_2: u32 = 5;
const LABELS_REFS: u32 = 1;
const METADATA: u32 = 5;
const METADATA_TYPE: u32 = 1;

/// `Metadata.MetricType`.
const COUNTER: u64 = 1;
const GAUGE: u64 = 2;

/// Some of the samples of a series.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The series.
    pub series: &'a TailSeries,
    /// Which of its samples.
    pub points: Range<usize>,
}

impl Part<'_> {
    fn points(&self) -> &[(i64, f64)] {
        self.series.points.get(self.points.clone()).unwrap_or_default()
    }

    /// Name and labels, ordered: the name's label comes before all others of ours.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = families().get(self.series.family).map_or("", |family| family.name.as_str());
        let others = self.series.labels.iter().map(|(name, value)| (*name, value.as_str()));
        std::iter::once((NAME, name)).chain(others)
    }
}

/// The body of a request.
///
/// # Errors
/// More than 4 GiB.
pub fn encoded(protocol: Protocol, parts: &[Part<'_>]) -> Result<Vec<u8>, snap::Error> {
    let message = match protocol {
        Protocol::One => version_1(parts),
        Protocol::Two => version_2(parts),
    };
    snap::raw::Encoder::new().compress_vec(&message)
}

fn version_1(parts: &[Part<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut series = Vec::new();
    for part in parts {
        series.clear();
        for (name, value) in part.labels() {
            let fields = [(LABEL_NAME, name), (LABEL_VALUE, value)];
            let length = fields.map(|(key, text)| text_len(key, text)).iter().sum::<usize>();
            encode_key(LABELS, WireType::LengthDelimited, &mut series);
            encode_varint(length as u64, &mut series);
            fields.iter().for_each(|(key, text)| put_text(*key, text, &mut series));
        }
        put_samples(part.points(), &mut series);
        encode_key(TIME_SERIES, WireType::LengthDelimited, &mut message);
        encode_varint(series.len() as u64, &mut message);
        message.extend_from_slice(&series);
    }
    message
}

fn version_2(parts: &[Part<'_>]) -> Vec<u8> {
    // The first symbol is the empty text.
    let mut symbols: HashMap<&str, u64> = HashMap::from([("", 0)]);
    let mut texts = Vec::new();
    put_text(SYMBOLS, "", &mut texts);
    let mut all = Vec::new();
    let (mut series, mut references) = (Vec::new(), Vec::new());
    for part in parts {
        series.clear();
        references.clear();
        for text in part.labels().flat_map(|(name, value)| [name, value]) {
            let next = symbols.len() as u64;
            let number = *symbols.entry(text).or_insert_with(|| {
                put_text(SYMBOLS, text, &mut texts);
                next
            });
            encode_varint(number, &mut references);
        }
        encode_key(LABELS_REFS, WireType::LengthDelimited, &mut series);
        encode_varint(references.len() as u64, &mut series);
        series.extend_from_slice(&references);
        put_samples(part.points(), &mut series);
        let is_counter = families().get(part.series.family).is_some_and(|family| family.is_counter());
        let kind = if is_counter { COUNTER } else { GAUGE };
        encode_key(METADATA, WireType::LengthDelimited, &mut series);
        encode_varint((key_len(METADATA_TYPE) + encoded_len_varint(kind)) as u64, &mut series);
        encode_key(METADATA_TYPE, WireType::Varint, &mut series);
        encode_varint(kind, &mut series);
        encode_key(TIME_SERIES_2, WireType::LengthDelimited, &mut all);
        encode_varint(series.len() as u64, &mut all);
        all.extend_from_slice(&series);
    }
    texts.extend_from_slice(&all);
    texts
}

fn text_len(key: u32, text: &str) -> usize {
    key_len(key) + encoded_len_varint(text.len() as u64) + text.len()
}

fn put_text(key: u32, text: &str, out: &mut Vec<u8>) {
    encode_key(key, WireType::LengthDelimited, out);
    encode_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Adds samples: `Sample.value` is field 1, a double; `.timestamp` field 2. Both are always there.
fn put_samples(points: &[(i64, f64)], out: &mut Vec<u8>) {
    for (time, value) in points {
        let time = time.cast_unsigned();
        encode_key(SAMPLES, WireType::LengthDelimited, out);
        encode_varint(10 + encoded_len_varint(time) as u64, out);
        encode_key(1, WireType::SixtyFourBit, out);
        out.extend_from_slice(&value.to_le_bytes());
        encode_key(2, WireType::Varint, out);
        encode_varint(time, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::message::{Label, Sample, TimeSeries};
    use prost::Message;

    /// What Prometheus decodes in version 1.
    #[derive(Clone, PartialEq, prost::Message)]
    struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        timeseries: Vec<TimeSeries>,
    }

    /// And in version 2.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Request {
        #[prost(string, repeated, tag = "4")]
        symbols: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        timeseries: Vec<TimeSeries2>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct TimeSeries2 {
        #[prost(uint32, repeated, tag = "1")]
        labels_refs: Vec<u32>,
        #[prost(message, repeated, tag = "2")]
        samples: Vec<Sample>,
        #[prost(message, optional, tag = "5")]
        metadata: Option<Metadata>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Metadata {
        #[prost(int32, tag = "1")]
        kind: i32,
    }

    fn series(name: &str, instance: &str, points: &[(i64, f64)]) -> TailSeries {
        let family = families().iter().position(|family| family.name == name).unwrap();
        let labels = vec![("instance", instance.to_owned()), ("source", "ü".to_owned())];
        TailSeries { family, labels: labels.into(), points: points.to_vec() }
    }

    fn decoded<T: Message + Default>(protocol: Protocol, parts: &[Part<'_>]) -> T {
        let body = encoded(protocol, parts).unwrap();
        T::decode(snap::raw::Decoder::new().decompress_vec(&body).unwrap().as_slice()).unwrap()
    }

    #[test]
    fn both_versions_have_the_names_labels_and_samples() {
        let stale = f64::from_bits(0x7ff0_0000_0000_0002);
        let records = series("throughline_records_total", "n1", &[(1, 2.5), (2, 3.0), (3, 0.0)]);
        let up = series("throughline_source_up", "n2", &[(1_767_225_600_000, stale)]);
        let parts = [Part { series: &records, points: 1..3 }, Part { series: &up, points: 0..1 }];

        let one: WriteRequest = decoded(Protocol::One, &parts);
        let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
        let names = ["throughline_records_total", "throughline_source_up"];
        for (place, (name, instance)) in names.into_iter().zip(["n1", "n2"]).enumerate() {
            let labels = vec![label("__name__", name), label("instance", instance), label("source", "ü")];
            assert_eq!(one.timeseries[place].labels, labels);
        }
        let sample = |timestamp, value| Sample { value, timestamp };
        assert_eq!(one.timeseries[0].samples, [sample(2, 3.0), sample(3, 0.0)]);
        // The mark of the end is a NaN of its own.
        assert_eq!(one.timeseries[1].samples[0].value.to_bits(), stale.to_bits());

        let two: Request = decoded(Protocol::Two, &parts);
        assert_eq!(two.symbols[0], "");
        for (one, two_series) in one.timeseries.iter().zip(&two.timeseries) {
            let text = |reference: &u32| two.symbols[*reference as usize].clone();
            let labels: Vec<Label> = two_series
                .labels_refs
                .chunks(2)
                .map(|pair| Label { name: text(&pair[0]), value: text(&pair[1]) })
                .collect();
            assert_eq!(labels, one.labels);
            assert_eq!(two_series.samples[0].value.to_bits(), one.samples[0].value.to_bits());
            assert_eq!(two_series.samples.len(), one.samples.len());
        }
        let kinds: Vec<i32> = two.timeseries.iter().map(|one| one.metadata.clone().unwrap().kind).collect();
        assert_eq!(kinds, [1, 2]);
        // Each text once.
        let mut symbols = two.symbols.clone();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), two.symbols.len());
    }
}
