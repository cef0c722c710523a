//! What was measured, as a table with each goal and whether it is met.

/// How a figure stands to its goal.
#[derive(Clone, Copy, PartialEq)]
pub enum Goal {
    /// At least this.
    Least(f64),
    /// At most this.
    Most(f64),
    /// Only reported.
    None,
}

/// Rows as they come, printed at once.
pub struct Table {
    is_met: bool,
}

impl Table {
    /// Begins one with its heading.
    pub fn new(title: &str) -> Table {
        println!("\n{title}");
        println!("  {:<58} {:>12} {:>12} {:>9} {:>9}  goal", "", "ours", "against", "ratio", "goal");
        Table { is_met: true }
    }

    /// Ours, what it stands against, and their ratio, which has the goal. The ratio is theirs to ours where more
    /// is better, else ours to theirs.
    pub fn ratio(&mut self, what: &str, ours: f64, theirs: f64, goal: Goal) {
        let ratio = if matches!(goal, Goal::Least(_)) { theirs / ours } else { ours / theirs };
        self.row(what, &format!("{ours:.4}"), &format!("{theirs:.4}"), ratio, goal);
    }

    /// A figure by itself, with its goal.
    pub fn figure(&mut self, what: &str, value: f64, goal: Goal) {
        self.row(what, &format!("{value:.4}"), "", value, goal);
    }

    fn row(&mut self, what: &str, ours: &str, theirs: &str, judged: f64, goal: Goal) {
        let (sign, limit, is_met) = match goal {
            Goal::Least(limit) => (">=", limit, judged >= limit),
            Goal::Most(limit) => ("<=", limit, judged <= limit),
            Goal::None => ("", f64::NAN, true),
        };
        let ratio = if theirs.is_empty() { String::new() } else { format!("{judged:.2}") };
        let (goal, verdict) = match goal {
            Goal::None => (String::new(), ""),
            _ => (format!("{sign} {limit}"), if is_met { "met" } else { "MISSED" }),
        };
        println!("  {what:<58} {ours:>12} {theirs:>12} {ratio:>9} {goal:>9}  {verdict}");
        self.is_met &= is_met;
    }

    /// Ours, what it stands against, and the interval in which the median ratio lies; who calls has judged it.
    #[allow(dead_code)] // only the bench of MPI programs has such rows
    pub fn interval(
        &mut self,
        what: &str,
        ours: f64,
        theirs: f64,
        ends: (f64, f64),
        goal: &str,
        is_met: bool,
    ) {
        let ends = format!("{:.3}-{:.3}", ends.0, ends.1);
        let verdict = match (goal, is_met) {
            ("", _) => "",
            (_, true) => "met",
            (_, false) => "MISSED",
        };
        println!("  {what:<58} {ours:>12.4} {theirs:>12.4} {ends:>11} {goal:>7}  {verdict}");
        self.is_met &= is_met || goal.is_empty();
    }

    /// A condition by itself.
    pub fn holds(&mut self, what: &str, is_so: bool) {
        println!("  {what:<58} {:>57}", if is_so { "met" } else { "MISSED" });
        self.is_met &= is_so;
    }

    /// Whether all goals were met.
    pub fn is_met(&self) -> bool {
        self.is_met
    }
}
