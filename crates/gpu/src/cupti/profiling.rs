//! Who profiles on this node, as somebody else finds out: the source gives way for as long as there is one.
//!
//! CUPTI can't say it: it refuses the second who comes, and the first learns nothing of that.

use std::sync::{Arc, Mutex};

use crate::supervise::lock;

/// Shared by the source and who watches the node's processes.
#[derive(Clone, Debug, Default)]
pub struct Profiling(Arc<Mutex<Option<String>>>);

impl Profiling {
    /// Notes who profiles, for people, or that nobody does. The source looks at it each 0.2 s.
    pub fn set(&self, who: Option<String>) {
        *lock(&self.0) = who;
    }

    /// Who profiles.
    pub(super) fn who(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}
