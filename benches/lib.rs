//! What several benches share: a server with a database of its own, the load of a busy site's counters, and its senders.
#![allow(clippy::cast_precision_loss)] // figures for people, and times in seconds

pub mod load;
pub mod mpi_site;
pub mod psql;
pub mod ranks;
pub mod server;
pub mod site;
