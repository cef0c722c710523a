//! CUPTI and CUDA's driver API: the few declarations that are used, opened at run time.
//!
//! `cupti`, `cuda` and `sizes` are written by `cargo xtask cupti` from NVIDIA's headers, which are never committed;
//! a test compares sizes, offsets and values with the headers of several releases. Nothing here is safe to call
//! without NVIDIA's documentation; the safe calls are in crate `throughline-gpu`, in a child process.
#![allow(unsafe_code)] // foreign functions, opened at run time

#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod cuda;
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod cupti;
mod open;
mod sizes;

pub use open::{OpenError, open_cuda, open_cupti};

/// A parameter structure, whose `structSize` CUPTI compares with what it expects.
pub trait Params: Sized {
    /// The sizes with the `CUPTI_API_VERSION` from which each holds, oldest first.
    const SIZES: &'static [(u32, usize)];

    /// Sets `structSize`.
    fn set_size(&mut self, size: usize);

    /// An empty structure for the release of this `cuptiGetVersion`; one older than all known ones gets the oldest size.
    #[must_use]
    fn new(version: u32) -> Self {
        let mut sizes = Self::SIZES.iter().rev();
        let size =
            sizes.find(|(from, _)| *from <= version).or(Self::SIZES.first()).map_or(0, |(_, size)| *size);
        // SAFETY: these are C structures of numbers and pointers, for which all-zero bytes are a value: that is how
        // C programs begin them.
        let mut params: Self = unsafe { std::mem::zeroed() };
        params.set_size(size);
        params
    }
}
