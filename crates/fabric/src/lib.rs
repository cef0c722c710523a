//! Source and daemon: MAD codec, transports, discovery, routes, sweep.
