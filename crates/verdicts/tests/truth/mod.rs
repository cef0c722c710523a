//! Hidden truths: jobs that are made slow in a known way, what is observed of them, and what is right to say.

pub mod links;
pub mod programs;
pub mod runs;
pub mod score;

use std::collections::{BTreeMap, BTreeSet};
use throughline_verdicts::{Evidence, Kind};

/// Kinds, and the subjects that are right; none: any.
pub type Allowed = BTreeMap<Kind, BTreeSet<String>>;

/// A job with what is to be said of it.
pub struct Case {
    pub evidence: Evidence,
    /// Expected verdicts, with the subjects that are right; none: any.
    pub expected: Vec<(Kind, BTreeSet<String>)>,
    /// What may be said or not: its cost is too near to the threshold, or it is another name for the same.
    pub allowed: Allowed,
}

/// Costs below this are not worth a verdict, and above the other they are; between them either is right.
pub const COST_DOUBTFUL: std::ops::Range<f64> = 0.03..0.08;
