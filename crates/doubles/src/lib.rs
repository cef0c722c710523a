//! Stand-ins for hardware that is not there, for tests, benches and the demo. No product depends on them: sources open
//! them through the same path as the hardware.
//!
//! The doubles of the vendors' libraries are C, in `crates/gpu/testdouble`; [`nvml`] drives one of them.

pub mod nvml;
pub mod sysfs;
