//! The daemon `throughline-agent`.
fn main() {}
