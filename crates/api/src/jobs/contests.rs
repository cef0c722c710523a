//! What nodes of a job report against each other.

use serde::{Deserialize, Serialize};

/// What nodes of a job report against each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobContests {
    /// Ranks that several nodes say they run, as each of them reports them.
    pub ranks: Vec<ContestedRanks>,
    /// Facts about which they disagree.
    pub facts: Vec<ContestedFact>,
}

/// What one node reports of ranks that others report too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContestedRanks {
    /// The node.
    pub node: String,
    /// counted; contested: it is not known who runs them; overruled: other reports are against it; barred: the node is.
    pub state: String,
    /// How many.
    pub ranks: u64,
    /// The smallest of them.
    pub first_rank: i32,
    /// The largest.
    pub last_rank: i32,
    /// Their MPI calls as this node reports them; null where it reported none.
    pub calls: Option<u64>,
    /// Bytes passed to send.
    pub bytes: Option<u64>,
}

/// A fact of a job about which its nodes disagree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContestedFact {
    /// As in [`super::Job::contested_facts`].
    pub fact: String,
    /// What they say, that of most nodes first.
    pub versions: Vec<FactVersion>,
}

/// One version of a fact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FactVersion {
    /// The value.
    pub value: String,
    /// A node that says so.
    pub node: String,
    /// How many nodes do.
    pub nodes: u64,
}
