//! Values of samples as columns of rows: which metric stands where in which table. Pure.

use crate::copy::{RowBuffer, stored};
use std::sync::OnceLock;
use throughline_sample::catalogue::Table;
use throughline_sample::wire::Values;

/// Arrays as columns; one without a value is NULL.
pub(super) fn push_arrays(row: &mut RowBuffer, arrays: &[Vec<Option<i64>>]) {
    for array in arrays {
        if array.is_empty() { row.null() } else { row.int8_array(array) }
    }
}

/// Puts values into their table's columns; returns how many had none.
pub(super) fn fill(slots: &mut Vec<Option<i64>>, table: Table, values: Option<&Values>) -> u64 {
    slots.clear();
    slots.resize(table.metrics().len(), None);
    let mut unknown = 0;
    for (id, value) in values.into_iter().flat_map(Values::iter) {
        let place = usize::try_from(id).ok().and_then(|id| places().get(id).copied().flatten());
        match place {
            Some((of, at)) if of == table => {
                let metric = table.metrics()[at];
                slots[at] = Some(stored(metric.width.reduce(value)));
            }
            _ => unknown += 1,
        }
    }
    unknown
}

/// For each metric number its table and place there: looked up for every value of every sample.
fn places() -> &'static [Option<(Table, usize)>] {
    static PLACES: OnceLock<Vec<Option<(Table, usize)>>> = OnceLock::new();
    PLACES.get_or_init(|| {
        let mut places = Vec::new();
        for table in Table::ALL {
            for (at, metric) in table.metrics().iter().enumerate() {
                let id = usize::try_from(metric.id).unwrap_or_default();
                if places.len() <= id {
                    places.resize(id + 1, None);
                }
                places[id] = Some((table, at));
            }
        }
        places
    })
}
