//! What `/healthz` reports: conditions in plain lines, and a status that monitoring can act on.
//!
//! A daemon that runs and doesn't do its work is not healthy, however well it answers. Each part reports its own
//! conditions; none is cached, so that the page never shows a fault that has passed.

use axum::http::StatusCode;
use std::sync::Arc;

/// Most conditions on the page. Some are about users or devices, and there may be many of those; the page stays short.
const CONDITIONS_MAX: usize = 64;

/// Longest line of a condition, in characters: causes come from libraries and other machines.
const LINE_CHARACTERS_MAX: usize = 400;

/// How bad a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is well with the daemon; somebody else does what a person may want to know. The answer stays `ok`.
    Notice,
    /// Part of the work isn't done. The answer stays 200.
    Degraded,
    /// The daemon doesn't do its work. The answer is 503.
    Failing,
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// How bad it is.
    pub level: Level,
    /// One line: what, why and the remedy.
    pub text: String,
}

impl Condition {
    /// A person may want to know it.
    pub fn notice(text: impl Into<String>) -> Self {
        Self { level: Level::Notice, text: text.into() }
    }

    /// Part of the work isn't done.
    pub fn degraded(text: impl Into<String>) -> Self {
        Self { level: Level::Degraded, text: text.into() }
    }

    /// The daemon doesn't do its work.
    pub fn failing(text: impl Into<String>) -> Self {
        Self { level: Level::Failing, text: text.into() }
    }
}

/// Something whose health can be requested. Quick: reads no device, waits for no lock that is held for long.
pub trait Health: Send + Sync {
    /// The conditions that hold now; none if all is well.
    fn conditions(&self) -> Vec<Condition>;
}

/// A daemon, or a test, without anything that can fail while it answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysHealthy;

impl Health for AlwaysHealthy {
    fn conditions(&self) -> Vec<Condition> {
        Vec::new()
    }
}

/// Several parts, in their order.
impl Health for Vec<Arc<dyn Health>> {
    fn conditions(&self) -> Vec<Condition> {
        self.iter().flat_map(|part| part.conditions()).collect()
    }
}

/// A function as the source of conditions.
impl<F: Fn() -> Vec<Condition> + Send + Sync> Health for F {
    fn conditions(&self) -> Vec<Condition> {
        self()
    }
}

/// Status and text of the page: `ok`, `degraded` or `failing` in the first line, then a line for each condition, the
/// worst first.
pub(crate) fn page(health: &dyn Health) -> (StatusCode, String) {
    let mut conditions = health.conditions();
    conditions.sort_by_key(|condition| std::cmp::Reverse(condition.level));
    let (status, word) = match conditions.first().map(|condition| condition.level) {
        None | Some(Level::Notice) => (StatusCode::OK, "ok"),
        Some(Level::Degraded) => (StatusCode::OK, "degraded"),
        Some(Level::Failing) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
    };
    let mut text = format!("{word}\n");
    for condition in conditions.iter().take(CONDITIONS_MAX) {
        let level = match condition.level {
            Level::Notice => "notice",
            Level::Degraded => "degraded",
            Level::Failing => "failing",
        };
        let line = condition.text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let line: String = line.take(LINE_CHARACTERS_MAX).collect();
        text.push_str(&format!("{level}: {line}\n"));
    }
    if conditions.len() > CONDITIONS_MAX {
        text.push_str(&format!("and {} more\n", conditions.len() - CONDITIONS_MAX));
    }
    (status, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_condition_makes_the_status() {
        assert_eq!(page(&AlwaysHealthy), (StatusCode::OK, "ok\n".to_owned()));
        let degraded = || vec![Condition::degraded("nvml: no driver\nloaded")];
        assert_eq!(
            page(&degraded),
            (StatusCode::OK, "degraded\ndegraded: nvml: no driver loaded\n".to_owned())
        );
        let over = || vec![Condition::notice("user 7 is over quota")];
        assert_eq!(page(&over), (StatusCode::OK, "ok\nnotice: user 7 is over quota\n".to_owned()));
        let full = || vec![Condition::failing("spool: full")];
        let parts: Vec<Arc<dyn Health>> = vec![Arc::new(degraded), Arc::new(full)];
        let (status, text) = page(&parts);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.starts_with("failing\nfailing: spool: full\ndegraded: nvml"), "{text}");
    }

    #[test]
    fn the_page_stays_short() {
        let many = || vec![Condition::degraded("x".repeat(10_000)); 1000];
        let (_, text) = page(&many);
        assert!(text.len() < (CONDITIONS_MAX + 2) * (LINE_CHARACTERS_MAX + 20), "{}", text.len());
        assert!(text.ends_with("and 936 more\n"), "{text}");
    }
}
