//! The MPI shim's Rust side: the receiver of its messages, and throughline-exec.
