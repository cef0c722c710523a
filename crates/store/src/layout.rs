//! What whoever reads the tables has to know of how rows are stored, in one place for both sides: tables of rollups,
//! encoded chunks, PostgreSQL's binary form of COPY, and pieces of SQL that both sides use. For `throughline_query` only.

pub use crate::binary::{POSTGRES_EPOCH, begins_row, elements, field, header, int8, milliseconds, time};
pub use crate::chunks::{BLOCK, EPOCHS, FILL_EVERY, TIMES, beside, is_gap, is_long, number, series_chunks};
pub use crate::rollup_kind::Kind;
pub use crate::sql_parts::{ERRORS, SHARE_WINDOW, errors_of, has_saturation, moment, shown};
