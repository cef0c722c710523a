//! As of when figures of a running job are.

use serde::{Deserialize, Serialize};

/// As of when all figures of an answer are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsOf {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Nodes whose rows of that time have not come yet: their newest figures are in the sums.
    pub behind: Vec<NodeBehind>,
}

/// A node whose figures are older than the others'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBehind {
    /// Its name.
    pub node: String,
    /// As of when its figures are; null where nothing of it is known.
    pub time_ms: Option<i64>,
}
