//! How large a database becomes, from the forms of its tables, and how large it is.

mod observed;
mod predict;

pub use observed::{ObservedTable, observed_site, observed_tables};
pub use predict::{SizePrediction, TableSize, ThinnedSize, WAL_BYTES_MAX, predict_size};
