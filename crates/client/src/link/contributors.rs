//! The table of contributors of one direction of a link.

use crate::text::{Table, bytes, clean, middle_cut, percent};
use throughline_api::link_shares::{LinkContributor, ShareFigures};

/// Columns that the figures take beside the name.
const FIGURES_COLUMNS: usize = 64;

/// The table as lines.
#[must_use]
pub fn text(contributors: &[LinkContributor], width: usize) -> String {
    let mut table = Table::new(&["CONTRIBUTOR", "<SHARE", "<AT LEAST", "<AT MOST", "<BYTES", "KIND"]);
    for contributor in contributors {
        let figures = &contributor.figures;
        table.row(vec![
            middle_cut(&clean(&contributor.label, 200), width.saturating_sub(FIGURES_COLUMNS).max(24)),
            percent(figures.share),
            percent(figures.low_share),
            percent(figures.high_share),
            bytes(figures.bytes.unsigned_abs()),
            kind(figures),
        ]);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// `modelled`, or `modelled, bound` where only the bounds are known.
#[must_use]
pub fn kind(figures: &ShareFigures) -> String {
    match figures.is_bound {
        true => format!("{}, bound", figures.kind),
        false => figures.kind.clone(),
    }
}
