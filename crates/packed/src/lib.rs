//! How many numbers are held in few bits. Pure: no tables, no metrics, no SQL.
//!
//! * [`rows`]: some rows of up to eight columns, each number at a place that is computed, so that SQL reads one without those before it:
//!   cells of MPI operations, sampled calls, shares of a link.
//! * [`series`]: thousands of numbers of one counter, as differences in runs of one width.
//! * [`numbers`]: a few numbers of different sizes: where the time of a node's ranks went.
//! * [`prometheus`]: the chunks that remote-read answers with. Not stored. [`series_chunks`] makes them of a series; [`gaps`] says which
//!   times without readings are filled.
//!
//! Both forms that are stored are frames of reference: what numbers are more than a base, in as many bits as the largest needs. The
//! functions `packed_…` in `crates/store/schema/functions/packed.sql` read the same; docs/decisions says why there are two.

mod bits;
pub mod gaps;
pub mod numbers;
pub mod prometheus;
pub mod rows;
pub mod series;
mod series_chunks;
mod stream;

pub use bits::{Bits, Reader};
pub use series_chunks::series_chunks;
