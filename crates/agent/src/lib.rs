//! What the agent makes of what MPI ranks report, for the program and for benches that need what a node sends without a node.

pub mod fold;
pub mod live;
pub mod rounds;
