//! What a query comes down to: families, conditions, time, and how many of the samples.

use super::matchers::{self, Budget, Matcher};
use super::message::Query;
use std::sync::Arc;
use throughline_query::history::{Family, Range, RangeWindows, Thinning, families};

/// Conditions of one query.
const MATCHERS_MAX: usize = 64;

/// Names that one query may select: a port of a fabric has less than 200.
const FAMILIES_MAX: usize = 256;

/// Functions that need no more than the increase over their range.
const INCREASES: [&str; 2] = ["rate", "increase"];

/// Earliest and latest time requested, in milliseconds: the years 1970 and 2255, where times stay exact. Prometheus
/// sends the ends of its own range for "all".
const TIMES: (i64, i64) = (0, 9_000_000_000_000);

/// One query, ready to be read.
pub struct Plan {
    /// Ordered by name.
    pub families: Vec<&'static Family>,
    /// Conditions on labels and name.
    pub matchers: Arc<[Matcher]>,
    /// When.
    pub range: Range,
    /// How many of the samples.
    pub thinning: Thinning,
    /// No samples at all.
    pub labels_only: bool,
    /// The end of the request where that is before the end of what the expression needs: Prometheus has the rest itself.
    pub shortened_to: Option<i64>,
}

impl Plan {
    /// Plans a query.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(query: &Query, budget: &mut Budget) -> Result<Plan, String> {
        if query.matchers.len() > MATCHERS_MAX {
            return Err(format!("{} conditions; the most is {MATCHERS_MAX}", query.matchers.len()));
        }
        if query.start_timestamp_ms > query.end_timestamp_ms {
            return Err("the time requested ends before it begins".to_owned());
        }
        let matchers = query
            .matchers
            .iter()
            .map(|matcher| Matcher::new(matcher, budget))
            .collect::<Result<Vec<_>, _>>()?;
        let wanted: Vec<&Family> =
            families().iter().filter(|family| matchers::is_wanted(&matchers, family)).collect();
        let hints = query.hints.clone().unwrap_or_default();
        let labels_only = hints.func == "series";
        if wanted.len() > FAMILIES_MAX && !labels_only {
            return Err(format!(
                "{} names may satisfy the query, the most is {FAMILIES_MAX}; name the metric, or several with \
                 {{__name__=~\"a|b\"}}, or give a label that fewer of them have",
                wanted.len()
            ));
        }
        let within = |time: i64| time.clamp(TIMES.0, TIMES.1);
        let selected = Range { from: within(hints.start_ms), to: within(hints.end_ms) };
        let windows = Some(&hints).filter(|hints| INCREASES.contains(&hints.func.as_str()));
        let windows = windows.and_then(|hints| RangeWindows::new(selected, hints.step_ms, hints.range_ms));
        let thinning = windows.map_or(Thinning::None, Thinning::Increase);
        let range = Range { from: within(query.start_timestamp_ms), to: within(query.end_timestamp_ms) };
        let is_shortened = query.end_timestamp_ms < hints.end_ms;
        let shortened_to = is_shortened.then_some(range.to);
        Ok(Plan { families: wanted, matchers: matchers.into(), range, thinning, labels_only, shortened_to })
    }

    /// Leaves out what is later.
    pub fn end_before(&mut self, last: i64) {
        self.range.to = self.range.to.min(last);
        if self.range.to < self.range.from {
            self.families.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::matchers::NAME;
    use super::super::message::{LabelMatcher, ReadHints};
    use super::*;

    fn query(func: &str, range_ms: i64) -> Query {
        let name = LabelMatcher { kind: 0, name: NAME.into(), value: "throughline_records_total".into() };
        let hints =
            ReadHints { func: func.into(), range_ms, step_ms: 15_000, start_ms: 1_000, end_ms: 900_000 };
        Query { start_timestamp_ms: 1, end_timestamp_ms: 2, matchers: vec![name], hints: Some(hints) }
    }

    fn plan(query: &Query) -> Result<Plan, String> {
        Plan::new(query, &mut Budget::default())
    }

    #[test]
    fn only_increases_are_thinned() {
        let thinning = |func, range| plan(&query(func, range)).unwrap().thinning;
        for func in ["rate", "increase"] {
            assert!(matches!(thinning(func, 60_000), Thinning::Increase(_)), "{func}");
        }
        for func in ["irate", "delta", "max_over_time", "changes", "resets", "", "sum"] {
            assert_eq!(thinning(func, 60_000), Thinning::None, "{func}");
        }
        assert_eq!((thinning("rate", 0), thinning("rate", i64::MAX)), (Thinning::None, Thinning::None));
        assert!(plan(&query("series", 0)).unwrap().labels_only);
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        let all = Query { matchers: Vec::new(), ..query("", 0) };
        assert!(plan(&all).err().unwrap().contains("__name__"));
        let turned = Query { end_timestamp_ms: 0, ..query("", 0) };
        assert!(plan(&turned).err().unwrap().contains("ends before"));
        let many = Query { matchers: vec![LabelMatcher::default(); MATCHERS_MAX + 1], ..query("", 0) };
        assert!(plan(&many).is_err());
        let matcher =
            |kind, name: &str, value: &str| LabelMatcher { kind, name: name.into(), value: value.into() };
        let names = |matchers: Vec<LabelMatcher>| {
            let plan = plan(&Query { matchers, ..query("", 0) })?;
            Ok::<_, String>(plan.families.len())
        };
        // Without a name: those that have the labels.
        let port = names(vec![matcher(0, "guid", "0x1"), matcher(0, "port", "1")]).unwrap();
        assert!(port > 100 && port < families().len(), "{port} of {}", families().len());
        assert!(names(vec![matcher(0, "gpu", "GPU-a")]).unwrap() < 100);
        assert!(names(vec![matcher(2, NAME, "infiniband_.*")]).unwrap() > 100);
        assert_eq!(names(vec![matcher(0, "nothing", "1")]), Ok(0));
        assert!(names(vec![matcher(0, "instance", "n1")]).unwrap_err().contains("256"));
        let wide = Query { start_timestamp_ms: i64::MIN, end_timestamp_ms: i64::MAX, ..query("", 0) };
        assert_eq!(plan(&wide).unwrap().range, Range { from: TIMES.0, to: TIMES.1 });
    }
}
