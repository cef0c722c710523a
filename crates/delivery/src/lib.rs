//! From a spool to where its entries are committed: the [`Sink`] trait, its gRPC client [`GrpcSink`], and
//! [`ship`], the loop that empties a spool into a sink. Also the generated server side for the collector.
//!
//! [`Outbox`] is the whole way out of a daemon that has records: spool, delivery and their drain.
//!
//! Knows entries as bytes with an identity; never what is in them, and never the database.

mod authorization;
mod backoff;
mod clock;
mod endpoint;
mod grpc;
mod lease;
mod listing;
mod outbox;
pub mod quarantine;
mod resend;
mod ship;
mod sink;
mod stats;
mod tls;
mod unix;

pub use backoff::Backoff;
pub use clock::ClockExchange;
pub use endpoint::{COLLECT_SOCKET, Endpoint};
pub use grpc::{DETAIL_KEY, GrpcSink, REFUSALS_KEY, UrlError};
pub use lease::{LEASE_LONGEST, LEASE_SHORTEST, Leases};
pub use listing::print_refused;
pub use outbox::{Outbox, SpoolSection};
pub use quarantine::Quarantine;
pub use ship::{DRAIN, WINDOW_BYTES, WINDOW_ENTRIES, ship};
pub use sink::{Ack, Answer, Connecting, OnRefusal, Reason, Refusal, Session, Sink, SinkError};
pub use stats::{ShipStats, metrics};
pub use tls::{ServerTls, TlsFileError, TlsFiles};

/// Messages, client and server generated from `proto/collect.proto`, whose comments document them.
#[allow(missing_docs, clippy::all)]
pub mod wire {
    tonic::include_proto!("throughline.collect.v1");
}
