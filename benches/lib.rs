//! What several benches share: a server with a database of its own, and the load of a busy site's counters.

pub mod load;
pub mod server;
