//! The sweep plan: which class of nodes is read how often, and what that costs on the wire. Pure: no clock.

use super::Sweeper;
use crate::engine::WIRE_BYTES;
use std::time::Duration;
use throughline_infiniband::mad::ClassPortInfo;
use throughline_infiniband::reading::Sets;

/// How often a class of nodes is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// Read each `fast_every`th tick.
    pub fast: Sets,
    /// At least 1.
    pub fast_every: u32,
    /// Read each `slow_every`th tick, as well.
    pub slow: Sets,
    /// At least 1.
    pub slow_every: u32,
}

/// What is read when. Nodes of a class are spread over the ticks between two readings of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From one tick to the next.
    pub tick: Duration,
    /// By number of the class.
    pub classes: Vec<ClassPlan>,
}

/// Intervals of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Sets of the fast round.
    pub fast: Sets,
    /// From one fast round to the next.
    pub fast_interval: Duration,
    /// Sets of the slow round.
    pub slow: Sets,
    /// From one slow round to the next.
    pub slow_interval: Duration,
}

impl Plan {
    /// A plan whose tick is the shortest of the intervals; the others become the next multiple of it.
    #[must_use]
    pub fn new(classes: &[Intervals]) -> Plan {
        let used = classes.iter().flat_map(|class| {
            let fast = (!class.fast.is_empty()).then_some(class.fast_interval);
            fast.into_iter().chain((!class.slow.is_empty()).then_some(class.slow_interval))
        });
        let tick = used.min().unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
        let every = |interval: Duration| {
            let ticks = (interval.as_secs_f64() / tick.as_secs_f64()).round();
            (ticks as u32).max(1)
        };
        let classes = classes
            .iter()
            .map(|class| ClassPlan {
                fast: class.fast,
                fast_every: every(class.fast_interval),
                slow: class.slow,
                slow_every: every(class.slow_interval),
            })
            .collect();
        Plan { tick, classes }
    }

    /// What is due of a target at a tick.
    #[must_use]
    pub fn due(&self, tick: u64, target: usize, class: u8) -> Sets {
        let Some(class) = self.classes.get(usize::from(class)) else { return Sets::NONE };
        let is_due = |every: u32| (tick + target as u64).is_multiple_of(u64::from(every));
        // The first tick reads every port, so that it has an epoch and a first value soon.
        let fast = if tick == 0 || is_due(class.fast_every) { class.fast } else { Sets::NONE };
        let slow = if is_due(class.slow_every) { class.slow } else { Sets::NONE };
        fast | slow
    }
}

/// What a plan costs: MADs without repetitions; each is a request and a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Ports read.
    pub ports: usize,
    /// Nodes that answer for them.
    pub nodes: usize,
    /// Requests of one fast round.
    pub fast_requests: u64,
    /// Requests of one slow round.
    pub slow_requests: u64,
    /// Requests a second, on average.
    pub requests_per_second: f64,
}

impl Cost {
    /// Bytes on the wire of so many requests and their replies, on each link that they pass.
    #[must_use]
    pub const fn wire_bytes(requests: u64) -> u64 {
        requests * 2 * WIRE_BYTES
    }

    /// Bytes a second on the crawler's own link, which all of them pass: requests one way, replies the other.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.requests_per_second * 2.0 * WIRE_BYTES as f64
    }
}

/// What each class of a plan costs. Of a node that was not queried yet what it can do, the most is taken.
#[must_use]
pub fn costs(plan: &Plan, sweeper: &Sweeper) -> Vec<Cost> {
    let mut costs = vec![Cost::default(); plan.classes.len()];
    for (class, ports, capabilities) in sweeper.targets() {
        let (Some(class), Some(cost)) =
            (plan.classes.get(usize::from(class)), costs.get_mut(usize::from(class)))
        else {
            continue;
        };
        // Extended set and classic set are both needed where only the first 16 bits of the mask are set.
        let most = ClassPortInfo { capabilities: 0xFFFF, ..ClassPortInfo::default() };
        let capabilities = capabilities.unwrap_or(most);
        let requests = |sets: Sets| {
            let attributes = sets.mandatory(&capabilities).count_ones() + sets.optional().count_ones();
            u64::from(attributes) * ports as u64
        };
        let (fast, slow) = (requests(class.fast), requests(class.slow));
        cost.ports += ports;
        cost.nodes += 1;
        cost.fast_requests += fast;
        cost.slow_requests += slow;
        let tick = plan.tick.as_secs_f64();
        cost.requests_per_second += fast as f64 / (tick * f64::from(class.fast_every))
            + slow as f64 / (tick * f64::from(class.slow_every));
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(fast_milliseconds: u64, slow_seconds: u64) -> Intervals {
        Intervals {
            fast: Sets::DATA | Sets::WAIT,
            fast_interval: Duration::from_millis(fast_milliseconds),
            slow: Sets::DETAILS,
            slow_interval: Duration::from_secs(slow_seconds),
        }
    }

    #[test]
    fn slow_sets_are_spread_over_fast_ticks() {
        let plan = Plan::new(&[intervals(250, 10), intervals(1000, 10)]);
        assert_eq!(plan.tick, Duration::from_millis(250));
        assert_eq!((plan.classes[0].fast_every, plan.classes[0].slow_every), (1, 40));
        assert_eq!((plan.classes[1].fast_every, plan.classes[1].slow_every), (4, 40));
        let slow_at =
            |tick| (0..400).filter(|target| plan.due(tick, *target, 0).any_of(Sets::DETAILS)).count();
        assert!((0..80).all(|tick| slow_at(tick) == 10), "each tick has its fortieth part");
        let fast_at = |tick| (0..400).filter(|target| plan.due(tick, *target, 1).any_of(Sets::DATA)).count();
        assert_eq!(fast_at(0), 400, "the first tick reads all");
        assert!((1..80).all(|tick| fast_at(tick) == 100));
        assert_eq!(plan.due(0, 0, 9), Sets::NONE);
    }

    #[test]
    fn a_set_that_is_not_read_sets_no_pace() {
        let only_slow = Intervals { fast: Sets::NONE, ..intervals(10, 30) };
        assert_eq!(Plan::new(&[only_slow]).tick, Duration::from_secs(30));
        assert_eq!(Plan::new(&[]).tick, Duration::from_secs(1));
    }
}
