//! Spool to sink: the Sink trait, its gRPC client and the loop that empties a spool into it.
