//! Conditions on labels: what the database can look for, and what is held against each series.

use super::message::{LabelMatcher, MatchType};
use regex::Regex;
use throughline_store::history::{Equal, Family, Series};

/// The label that is the name of a series.
pub const NAME: &str = "__name__";

/// Longest regular expression: Grafana's variables make some of thousands of characters.
const REGEX_BYTES: usize = 64 * 1024;

/// Memory that a compiled expression may take: thousands of alternatives fit, repetitions of repetitions don't.
const COMPILED_BYTES: usize = 1 << 20;

/// Memory that looking for it may take, in each direction.
const CACHE_BYTES: usize = 256 << 10;

/// Brackets within brackets.
const NESTING_MAX: u32 = 32;

/// One condition.
pub struct Matcher {
    label: String,
    test: Test,
}

enum Test {
    Equal(String),
    NotEqual(String),
    Regex(Regex),
    NotRegex(Regex),
}

impl Matcher {
    /// Reads a condition.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn new(matcher: &LabelMatcher) -> Result<Matcher, String> {
        let regex = || {
            if matcher.value.len() > REGEX_BYTES {
                return Err(format!(
                    "a regular expression for '{}' of more than {REGEX_BYTES} bytes",
                    matcher.name
                ));
            }
            // Prometheus' expressions hold for the whole value.
            regex::RegexBuilder::new(&format!("^(?s:{})$", matcher.value))
                .size_limit(COMPILED_BYTES)
                .dfa_size_limit(CACHE_BYTES)
                .nest_limit(NESTING_MAX)
                .build()
                .map_err(|error| format!("the regular expression for '{}': {error}", matcher.name))
        };
        let test = match MatchType::try_from(matcher.kind) {
            Ok(MatchType::Equal) => Test::Equal(matcher.value.clone()),
            Ok(MatchType::NotEqual) => Test::NotEqual(matcher.value.clone()),
            Ok(MatchType::Regex) => Test::Regex(regex()?),
            Ok(MatchType::NotRegex) => Test::NotRegex(regex()?),
            Err(_) => return Err(format!("a condition of the unknown kind {}", matcher.kind)),
        };
        Ok(Matcher { label: matcher.name.clone(), test })
    }

    fn holds(&self, value: &str) -> bool {
        match &self.test {
            Test::Equal(wanted) => value == wanted,
            Test::NotEqual(other) => value != other,
            Test::Regex(regex) => regex.is_match(value),
            Test::NotRegex(regex) => !regex.is_match(value),
        }
    }
}

/// Whether a family's name satisfies all conditions on names.
pub fn is_wanted(matchers: &[Matcher], family: &Family) -> bool {
    matchers.iter().filter(|matcher| matcher.label == NAME).all(|matcher| matcher.holds(&family.name))
}

/// What the database can look for.
pub fn equal(matchers: &[Matcher]) -> Vec<Equal<'_>> {
    let equal =
        matchers.iter().filter(|matcher| matcher.label != NAME).filter_map(|matcher| match &matcher.test {
            Test::Equal(value) => Some(Equal { label: &matcher.label, value }),
            _ => None,
        });
    equal.collect()
}

/// Whether a series satisfies all conditions on its labels; a label that it has not is empty.
pub fn matches(matchers: &[Matcher], series: &Series) -> bool {
    matchers.iter().filter(|matcher| matcher.label != NAME).all(|matcher| {
        let label = series.labels.iter().find(|(name, _)| *name == matcher.label);
        matcher.holds(label.map_or("", |(_, value)| value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_store::history::families;

    fn matcher(kind: MatchType, name: &str, value: &str) -> Result<Matcher, String> {
        Matcher::new(&LabelMatcher { kind: kind as i32, name: name.into(), value: value.into() })
    }

    #[test]
    fn expressions_hold_for_the_whole_value() {
        let holds = |kind, expression, value| matcher(kind, "a", expression).unwrap().holds(value);
        assert!(holds(MatchType::Regex, "n[0-9]+|m", "n17"));
        assert!(!holds(MatchType::Regex, "n[0-9]+|m", "xn17"));
        assert!(!holds(MatchType::Regex, "n|m", "mm"));
        assert!(holds(MatchType::Regex, ".*", "a\nb"));
        assert!(holds(MatchType::NotRegex, "n.*", ""));
        assert!(!holds(MatchType::NotRegex, ".*", ""));
        assert!(holds(MatchType::Equal, "", ""));
        assert!(holds(MatchType::NotEqual, "x", "y"));
    }

    #[test]
    fn what_is_no_condition_is_told() {
        assert!(matcher(MatchType::Regex, "port", "(").err().unwrap().contains("'port'"));
        assert!(matcher(MatchType::Regex, "a", &"x".repeat(REGEX_BYTES + 1)).is_err());
        let unknown = LabelMatcher { kind: 9, ..LabelMatcher::default() };
        assert!(Matcher::new(&unknown).err().unwrap().contains('9'));
    }

    #[test]
    fn names_choose_families() {
        let named = |kind, value| {
            let matchers = [matcher(kind, NAME, value).unwrap()];
            families().iter().filter(|family| is_wanted(&matchers, family)).count()
        };
        assert_eq!(named(MatchType::Equal, "throughline_source_up"), 1);
        assert_eq!(named(MatchType::Equal, "up"), 0);
        assert_eq!(named(MatchType::Regex, "infiniband_(switch|hca)_port_transmit_data_bytes_total"), 2);
    }
}
