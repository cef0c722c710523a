//! Messages of Prometheus' remote-read protocol (`prompb/remote.proto` and `prompb/types.proto`, version 1 of the
//! protocol), with the fields that are used here.

/// What a reader requests.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    /// Each is answered by itself.
    #[prost(message, repeated, tag = "1")]
    pub queries: Vec<Query>,
    /// Forms of the answer that the reader takes, the best first; none means [`ResponseType::Samples`].
    #[prost(enumeration = "ResponseType", repeated, tag = "2")]
    pub accepted_response_types: Vec<i32>,
}

/// Forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ResponseType {
    /// One message with all samples, compressed.
    Samples = 0,
    /// A stream of messages with compressed chunks.
    StreamedXorChunks = 1,
}

/// One selection.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Query {
    /// First millisecond since 1970.
    #[prost(int64, tag = "1")]
    pub start_timestamp_ms: i64,
    /// Last millisecond.
    #[prost(int64, tag = "2")]
    pub end_timestamp_ms: i64,
    /// All must hold.
    #[prost(message, repeated, tag = "3")]
    pub matchers: Vec<LabelMatcher>,
    /// What the samples are for.
    #[prost(message, optional, tag = "4")]
    pub hints: Option<ReadHints>,
}

/// A condition on a label.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelMatcher {
    /// Kind of the condition.
    #[prost(enumeration = "MatchType", tag = "1")]
    pub kind: i32,
    /// Name of the label.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Value or regular expression.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// Kinds of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum MatchType {
    /// `=`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `=~`
    Regex = 2,
    /// `!~`
    NotRegex = 3,
}

/// What the samples are for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadHints {
    /// Distance of the points of the result.
    #[prost(int64, tag = "1")]
    pub step_ms: i64,
    /// The function or aggregation around the selector; `series` where only labels are wanted.
    #[prost(string, tag = "2")]
    pub func: String,
    /// Begin of the time that the selector needs, milliseconds since 1970: that of the query may be cut, where Prometheus has the rest.
    #[prost(int64, tag = "3")]
    pub start_ms: i64,
    /// Its end.
    #[prost(int64, tag = "4")]
    pub end_ms: i64,
    /// Length of the selector's range; 0 for an instant selector.
    #[prost(int64, tag = "7")]
    pub range_ms: i64,
}

/// A label.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A sample.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Sample {
    /// Its value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// A series of [`ResponseType::Samples`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct TimeSeries {
    /// Ordered by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Ordered by time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// The answer to a query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryResult {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// The answer of [`ResponseType::Samples`]. Encoded piece by piece in `answer`, decoded whole in tests.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    /// In the order of the queries.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<QueryResult>,
}

/// A message of [`ResponseType::StreamedXorChunks`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChunkedReadResponse {
    /// Series, or further chunks of the last one.
    #[prost(message, repeated, tag = "1")]
    pub chunked_series: Vec<ChunkedSeries>,
    /// Place of the query.
    #[prost(int64, tag = "2")]
    pub query_index: i64,
}

/// A series in chunks.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChunkedSeries {
    /// Ordered by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Ordered by time.
    #[prost(message, repeated, tag = "2")]
    pub chunks: Vec<Chunk>,
}

/// Samples packed together.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Chunk {
    /// Time of the first sample.
    #[prost(int64, tag = "1")]
    pub min_time_ms: i64,
    /// Time of the last.
    #[prost(int64, tag = "2")]
    pub max_time_ms: i64,
    /// 1: XOR.
    #[prost(int32, tag = "3")]
    pub encoding: i32,
    /// The samples.
    #[prost(bytes = "bytes", tag = "4")]
    pub data: bytes::Bytes,
}
