//! How large a database becomes, from the registry of tables, and how large it is.

mod document;
mod observed;
mod predict;

pub use document::tables_document;
pub use observed::{ObservedTable, observed_retention_way, observed_site, observed_tables};
pub use predict::{OldSize, PlainSize, SizePrediction, TableSize, WAL_BYTES_MAX, predict_size};
