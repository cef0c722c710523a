//! Role collect: takes batches over gRPC and commits them in few large COPYs.
