//! Conditions on labels: what the database can look for, and what is held against each series.
//!
//! Regular expressions come from anybody who may read, and a short one can be large once compiled: each is bounded in
//! length and size, all of a request together in number, size and time ([`Budget`]). They are compiled and matched on
//! threads of their own. An alternation of plain words, which Grafana makes of its variables, is a set and costs nothing
//! of that.

use super::message::{LabelMatcher, MatchType};
use regex::Regex;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use throughline_query::history::{Equal, Family, Series};

/// The label that is the name of a series.
pub const NAME: &str = "__name__";

/// Longest value or alternation of plain words: Grafana's variables make some of thousands of characters.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Longest regular expression that is no such alternation. Its parse tree comes before any bound on its compiled form:
/// three characters (`\pL`) can stand for 5 kB of ranges, so that this is some 15 MB.
pub const REGEX_BYTES_MAX: usize = 4 << 10;

/// Regular expressions in one request.
pub const REGEXES_MAX: usize = 32;

/// What the expressions of one request may take compiled. Each is tried at the sizes of [`COMPILED_TIERS`], and the one
/// at which it fits is subtracted.
pub const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Sizes at which a compilation is tried, bytes: most expressions fit the first.
const COMPILED_TIERS: [usize; 3] = [64 << 10, 512 << 10, 2 << 20];

/// Memory for the states that one expression has met while matching.
const MATCH_CACHE_BYTES_MAX: usize = 256 << 10;

/// Groups within groups of an expression.
const REGEX_DEPTH_MAX: u32 = 32;

/// Time in which the expressions of one request are compiled.
pub const COMPILE_TIME_MAX: Duration = Duration::from_secs(2);

/// What the regular expressions of one request may still take.
#[derive(Debug)]
pub struct Budget {
    regexes: usize,
    compiled_bytes: usize,
    until: Instant,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            regexes: REGEXES_MAX,
            compiled_bytes: COMPILED_BYTES_MAX,
            until: Instant::now() + COMPILE_TIME_MAX,
        }
    }
}

impl Budget {
    fn compile(&mut self, label: &str, pattern: &str) -> Result<Regex, String> {
        let of = || format!("the regular expression for '{}'", shown(label));
        if pattern.len() > REGEX_BYTES_MAX {
            return Err(format!(
                "{} has {} bytes, the most is {REGEX_BYTES_MAX}, or {VALUE_BYTES_MAX} for plain words between |",
                of(),
                pattern.len()
            ));
        }
        self.regexes = self.regexes.checked_sub(1).ok_or_else(|| {
            format!(
                "more than {REGEXES_MAX} regular expressions in one request; name values, or send several"
            )
        })?;
        // Prometheus' expressions hold for the whole value.
        let whole = format!("^(?s:{pattern})$");
        for size in COMPILED_TIERS.into_iter().filter(|size| *size <= self.compiled_bytes) {
            if Instant::now() >= self.until {
                let most = COMPILE_TIME_MAX.as_secs();
                return Err(format!(
                    "the regular expressions of this request take longer than {most} s to compile"
                ));
            }
            let built = regex::RegexBuilder::new(&whole)
                .size_limit(size)
                .dfa_size_limit(MATCH_CACHE_BYTES_MAX.min(size * 4))
                .nest_limit(REGEX_DEPTH_MAX)
                .build();
            match built {
                Ok(regex) => {
                    self.compiled_bytes -= size;
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(format!("{}: {error}", of())),
            }
        }
        Err(format!(
            "{} takes too much memory: the most is {} bytes for one and {COMPILED_BYTES_MAX} for all of a request; use \
             smaller repetitions, or plain words between |",
            of(),
            COMPILED_TIERS[COMPILED_TIERS.len() - 1]
        ))
    }
}

/// A label's name in a message.
fn shown(label: &str) -> std::borrow::Cow<'_, str> {
    throughline_sample::admission::clean_text(label, 64)
}

/// One condition.
#[derive(Debug)]
pub struct Matcher {
    label: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Equal(String),
    NotEqual(String),
    OneOf(HashSet<String>),
    NoneOf(HashSet<String>),
    Regex(Regex),
    NotRegex(Regex),
}

impl Matcher {
    /// Reads a condition.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn new(matcher: &LabelMatcher, budget: &mut Budget) -> Result<Matcher, String> {
        let (label, value) = (&matcher.name, &matcher.value);
        if label.len().max(value.len()) > VALUE_BYTES_MAX {
            return Err(format!("a condition on '{}' of more than {VALUE_BYTES_MAX} bytes", shown(label)));
        }
        if label.contains('\0') || value.contains('\0') {
            // No text of the database has one, and it would refuse the statement.
            return Err(format!("a condition on '{}' with a byte 0", shown(label)));
        }
        let test = match MatchType::try_from(matcher.kind) {
            Ok(MatchType::Equal) => Test::Equal(value.clone()),
            Ok(MatchType::NotEqual) => Test::NotEqual(value.clone()),
            Ok(MatchType::Regex) => match words(value) {
                Some(words) => Test::OneOf(words),
                None => Test::Regex(budget.compile(label, value)?),
            },
            Ok(MatchType::NotRegex) => match words(value) {
                Some(words) => Test::NoneOf(words),
                None => Test::NotRegex(budget.compile(label, value)?),
            },
            Err(_) => return Err(format!("a condition of the unknown kind {}", matcher.kind)),
        };
        Ok(Matcher { label: label.clone(), test })
    }

    fn is_regex(&self) -> bool {
        matches!(self.test, Test::Regex(_) | Test::NotRegex(_))
    }

    fn holds(&self, value: &str) -> bool {
        match &self.test {
            Test::Equal(wanted) => value == wanted,
            Test::NotEqual(other) => value != other,
            Test::OneOf(words) => words.contains(value),
            Test::NoneOf(words) => !words.contains(value),
            Test::Regex(regex) => regex.is_match(value),
            Test::NotRegex(regex) => !regex.is_match(value),
        }
    }
}

/// The words of an alternation that has nothing else in it, in parentheses or not; `None` for any other expression.
fn words(pattern: &str) -> Option<HashSet<String>> {
    let inner = pattern.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(pattern);
    let (mut words, mut word) = (HashSet::new(), String::new());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '|' => _ = words.insert(std::mem::take(&mut word)),
            '\\' => word.push(letters.next().filter(char::is_ascii_punctuation)?),
            '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' => return None,
            letter => word.push(letter),
        }
    }
    words.insert(word);
    Some(words)
}

/// Whether holding a value against these can be slow.
pub fn has_regex(matchers: &[Matcher]) -> bool {
    matchers.iter().any(|matcher| matcher.label != NAME && matcher.is_regex())
}

/// The series that satisfy all conditions. Looks at the time before each expression, which takes as long as its size times
/// the length of the value.
///
/// # Errors
/// It takes longer than until then.
pub fn select(matchers: &[Matcher], series: &[Series], until: Instant) -> Result<Vec<Series>, TooSlow> {
    let mut wanted = Vec::new();
    for one in series {
        let mut fits = true;
        for matcher in matchers.iter().filter(|matcher| matcher.label != NAME) {
            if matcher.is_regex() && Instant::now() >= until {
                return Err(TooSlow);
            }
            fits = matcher.holds(value(one, &matcher.label));
            if !fits {
                break;
            }
        }
        if fits {
            wanted.push(one.clone());
        }
    }
    Ok(wanted)
}

/// Conditions that take too long.
#[derive(Debug)]
pub struct TooSlow;

/// Whether a family's name satisfies all conditions on names, and its series may satisfy the others: a label that they don't
/// have is empty.
pub fn is_wanted(matchers: &[Matcher], family: &Family) -> bool {
    let labels = family.labels();
    matchers.iter().all(|matcher| match matcher.label.as_str() {
        NAME => matcher.holds(&family.name),
        // An expression is matched on a thread of its own.
        label => labels.contains(&label) || matcher.is_regex() || matcher.holds(""),
    })
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

/// Whether a series satisfies all conditions on its labels.
pub fn matches(matchers: &[Matcher], series: &Series) -> bool {
    let mut of_labels = matchers.iter().filter(|matcher| matcher.label != NAME);
    of_labels.all(|matcher| matcher.holds(value(series, &matcher.label)))
}

/// The value of a label; one that a series has not is empty.
fn value<'a>(series: &'a Series, label: &str) -> &'a str {
    series.labels.iter().find(|(name, _)| *name == label).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_query::history::families;

    fn matcher(kind: MatchType, name: &str, value: &str) -> Result<Matcher, String> {
        let matcher = LabelMatcher { kind: kind as i32, name: name.into(), value: value.into() };
        Matcher::new(&matcher, &mut Budget::default())
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
    fn what_is_no_condition_is_refused() {
        assert!(matcher(MatchType::Regex, "port", "(").err().unwrap().contains("'port'"));
        assert!(matcher(MatchType::Regex, "a", &"x".repeat(VALUE_BYTES_MAX + 1)).is_err());
        let unknown = LabelMatcher { kind: 9, ..LabelMatcher::default() };
        assert!(Matcher::new(&unknown, &mut Budget::default()).err().unwrap().contains('9'));
    }

    #[test]
    fn an_alternation_of_words_is_a_set() {
        let all = |pattern| {
            words(pattern).map(|words| {
                let mut words: Vec<_> = words.into_iter().collect();
                words.sort();
                words.join(",")
            })
        };
        assert_eq!(all("n1|n2").unwrap(), "n1,n2");
        assert_eq!(all("(n1|n2\\.a)").unwrap(), "n1,n2.a");
        assert_eq!(all("").unwrap(), "");
        for other in ["n.", "(a|b)c", "(a)|(b)", "a+", "\\d", "[a]", "(?i:a)", "^a", "a\\"] {
            assert_eq!(all(other), None, "{other}");
        }
        // As long as Grafana makes them, and as quick as a look into a table.
        let many: Vec<String> = (0..5000).map(|n| format!("node{n}")).collect();
        let set = matcher(MatchType::Regex, "a", &many.join("|").replace('.', "\\.")).unwrap();
        assert!(!set.is_regex() && set.holds("node4999") && !set.holds("node5000"));
    }

    #[test]
    fn expressions_are_bounded_one_by_one_and_together() {
        let said = |patterns: &[&str]| {
            let mut budget = Budget::default();
            let kind = MatchType::Regex as i32;
            let all = patterns.iter().map(|pattern| LabelMatcher {
                kind,
                name: "a".into(),
                value: (*pattern).into(),
            });
            all.map(|matcher| Matcher::new(&matcher, &mut budget)).find_map(Result::err)
        };
        for usual in ["n[0-9]+", ".*gpu.*", "(?i)node-[a-z]{1,20}", "\\w+"] {
            assert_eq!(said(&[usual]), None, "{usual}");
        }
        for large in ["(\\pL{99}){99}", "\\pL{9999}", "((a{1,99}){1,99}){1,99}"] {
            assert!(said(&[large]).unwrap().contains("too much memory"), "{large}");
        }
        assert!(said(&[&"a.".repeat(4000)]).unwrap().contains("8000 bytes"));
        assert!(said(&vec!["a."; 40]).unwrap().contains("more than 32"));
        assert!(said(&vec!["\\pL{20}"; 30]).unwrap().contains("for all of a request"));
        assert!(said(&[&("(".repeat(200) + "." + &")".repeat(200))]).is_some());
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
