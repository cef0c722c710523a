//! Links that go up and down again and again. Pure: the caller brings the time.

use super::NamedEnd;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Links watched at once. Beyond it the one that changed longest ago is forgotten: 65,536 ends are more than a
/// subnet has unicast LIDs.
const LINKS_MAX: usize = 65_536;
/// Changes kept of one link: more do not make it flap more.
const CHANGES_MAX: usize = 64;

/// What a change of a link is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A change like any other.
    Single,
    /// With it the link flaps, or has flapped as much again: this many changes within the window.
    Flap(usize),
    /// One more of a link that flaps.
    Hidden,
}

struct History {
    changes: VecDeque<Instant>,
    /// Changes since it was last reported that the link flaps; `None` while it does not.
    since_report: Option<usize>,
}

/// The changes of all links.
pub(super) struct Flaps {
    least: usize,
    window: Duration,
    links: HashMap<(NamedEnd, NamedEnd), History>,
}

impl Flaps {
    pub fn new(least: usize, window: Duration) -> Flaps {
        Flaps { least: least.max(2), window, links: HashMap::new() }
    }

    /// The window.
    pub fn window_seconds(&self) -> u64 {
        self.window.as_secs()
    }

    /// Whether no link flaps.
    pub fn is_calm(&self) -> bool {
        self.links.values().all(|history| history.since_report.is_none())
    }

    /// Notes a change of a link, whose ends are given in order.
    pub fn note(&mut self, link: (NamedEnd, NamedEnd), now: Instant) -> Change {
        if self.links.len() >= LINKS_MAX && !self.links.contains_key(&link) {
            let oldest = self.links.iter().min_by_key(|(_, history)| history.changes.back().copied());
            if let Some(oldest) = oldest.map(|(link, _)| *link) {
                self.links.remove(&oldest);
            }
        }
        let empty = || History { changes: VecDeque::new(), since_report: None };
        let history = self.links.entry(link).or_insert_with(empty);
        if history.changes.len() == CHANGES_MAX {
            history.changes.pop_front();
        }
        history.changes.push_back(now);
        let window = self.window;
        history.changes.retain(|at| now.saturating_duration_since(*at) <= window);
        let count = history.changes.len();
        match &mut history.since_report {
            None if count < self.least => Change::Single,
            Some(since) if *since + 1 < self.least => {
                *since += 1;
                Change::Hidden
            }
            reported => {
                *reported = Some(0);
                Change::Flap(count)
            }
        }
    }

    /// Links that flapped and did not change for a whole window; they are forgotten with this.
    pub fn steady(&mut self, now: Instant) -> Vec<(NamedEnd, NamedEnd)> {
        let window = self.window;
        let is_old = |history: &History| {
            history.changes.back().is_none_or(|at| now.saturating_duration_since(*at) > window)
        };
        let mut steady: Vec<_> = self
            .links
            .iter()
            .filter(|(_, history)| history.since_report.is_some() && is_old(history))
            .map(|(link, _)| *link)
            .collect();
        self.links.retain(|_, history| !is_old(history));
        steady.sort_unstable();
        steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::Guid;

    #[test]
    fn many_changes_are_a_flap_and_silence_ends_it() {
        let link = ((Guid(1), 1), (Guid(2), 2));
        let mut flaps = Flaps::new(4, Duration::from_secs(60));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let seen: Vec<Change> = (0..9).map(|second| flaps.note(link, at(second))).collect();
        use Change::{Flap, Hidden, Single};
        assert_eq!(seen, [Single, Single, Single, Flap(4), Hidden, Hidden, Hidden, Flap(8), Hidden]);
        assert!(flaps.steady(at(30)).is_empty());
        assert_eq!(flaps.steady(at(69)), [link]);
        assert_eq!(flaps.note(link, at(70)), Single);
    }

    #[test]
    fn slow_changes_are_none() {
        let link = ((Guid(1), 1), (Guid(2), 2));
        let mut flaps = Flaps::new(4, Duration::from_secs(60));
        let start = Instant::now();
        for number in 0..50 {
            let change = flaps.note(link, start + Duration::from_secs(number * 21));
            assert_eq!(change, Change::Single, "three in 60 s");
        }
    }
}
