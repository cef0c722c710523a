//! The one budget of MADs of this process. `--max-mads-per-second` is a promise of the process, so it is kept in one
//! place of the process: engines are made, closed and made anew on several threads, and all take from it.

use std::sync::OnceLock;
use throughline_fabric::engine::Budget;

static BUDGET: OnceLock<Budget> = OnceLock::new();

/// The budget; `None` where 0 says that there is no limit. The first limit holds: a process has one configuration.
pub fn of_process(per_second: u32) -> Option<&'static Budget> {
    (per_second > 0).then(|| BUDGET.get_or_init(|| Budget::new(per_second)))
}
