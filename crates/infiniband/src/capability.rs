//! What a link could be: the best width and speed that both of its ends support, and that both are set to use.
//! Pure; compares PortInfo's masks and queries nobody.

use crate::link::{Speed, Width, rate_bytes_per_second};
use crate::mad::LinkMasks;
use crate::topology::{Port, PortEnd, Topology};

/// Width and speed of a link.
pub type Link = (Width, Speed);

/// A link as it is and as it could be. `None` where it is not known: the port has no link, or its source does
/// not say what a port supports (files of `ibnetdiscover` do not).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// What the link came up with.
    pub active: Option<Link>,
    /// The best that both ends are set to use.
    pub enabled: Option<Link>,
    /// The best that both ends support.
    pub supported: Option<Link>,
}

impl Capability {
    /// Of the link between two ports; of a single port where its neighbour is not known.
    #[must_use]
    pub fn of(topology: &Topology, here: PortEnd, there: Option<PortEnd>) -> Capability {
        let Some(own) = End::of(topology, here) else { return Capability::default() };
        let other = there.and_then(|end| End::of(topology, end)).unwrap_or(own);
        Capability {
            active: topology.nodes[here.node]
                .port(here.port)
                .and_then(|p| topology.nodes[here.node].link_of(p)),
            enabled: best(own.enabled, other.enabled),
            supported: best(own.supported, other.supported),
        }
    }

    /// Whether the link came up with less than both ends are set to use: a bad cable or connector, most often.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        less(self.active, self.enabled)
    }

    /// The data rate that a degraded link could have, bytes per second; `None` for one that is as good as it is set to.
    #[must_use]
    pub fn possible_rate_bytes_per_second(&self) -> Option<u64> {
        let (width, speed) = self.enabled.filter(|_| self.is_degraded())?;
        Some(rate_bytes_per_second(width, speed))
    }

    /// Whether a setting keeps the link below what both ends support.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        less(self.enabled, self.supported)
    }
}

/// What one end can do, without the speeds that its node does not have.
#[derive(Clone, Copy)]
struct End {
    enabled: LinkMasks,
    supported: LinkMasks,
}

impl End {
    fn of(topology: &Topology, end: PortEnd) -> Option<End> {
        let node = topology.nodes.get(end.node)?;
        let port: &Port = node.port(end.port)?;
        let info = port.info?;
        let has_extended = node.has_extended_speeds(port);
        let known = |masks: LinkMasks| LinkMasks {
            extended_speed: if has_extended { masks.extended_speed } else { 0 },
            ..masks
        };
        Some(End { enabled: known(info.enabled), supported: known(info.supported) })
    }
}

/// The best of what two ends have in common.
fn best(a: LinkMasks, b: LinkMasks) -> Option<Link> {
    let bits = || (0..8).map(|bit| 1u8 << bit);
    let width = bits()
        .filter(|bit| a.width & b.width & bit != 0)
        .filter_map(Width::decode)
        .max_by_key(|width| width.lanes())?;
    let extended = bits().filter(|bit| a.extended_speed & b.extended_speed & bit != 0);
    let classic = bits().filter(|bit| a.speed & b.speed & bit != 0);
    let speeds = extended
        .filter_map(|bit| Speed::decode(0, bit))
        .chain(classic.filter_map(|bit| Speed::decode(bit, 0)));
    let speed = speeds.max_by_key(|speed| rate_bytes_per_second(width, *speed))?;
    Some((width, speed))
}

/// Whether both are known and the first has fewer lanes or slower ones.
fn less(link: Option<Link>, than: Option<Link>) -> bool {
    let (Some((width, speed)), Some((best_width, best_speed))) = (link, than) else { return false };
    let lane = |speed| rate_bytes_per_second(best_width, speed);
    width.lanes() < best_width.lanes() || lane(speed) < lane(best_speed)
}

/// `4xEDR`.
#[must_use]
pub fn link_name((width, speed): Link) -> String {
    format!("{}{}", width.name(), speed.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(width: u8, speed: u8, extended_speed: u8) -> LinkMasks {
        LinkMasks { width, speed, extended_speed }
    }

    #[test]
    fn the_best_is_what_both_have() {
        let name = |a, b| best(a, b).map(link_name);
        assert_eq!(name(masks(3, 7, 3), masks(3, 7, 7)).as_deref(), Some("4xEDR"));
        assert_eq!(name(masks(11, 7, 3), masks(3, 7, 0)).as_deref(), Some("4xQDR"), "one end without FDR");
        assert_eq!(name(masks(19, 7, 8), masks(17, 7, 8)).as_deref(), Some("2xNDR"));
        assert_eq!(name(masks(0, 0, 0), masks(3, 7, 7)), None, "not known");
        assert_eq!(name(masks(2, 7, 0), masks(1, 7, 0)), None, "nothing in common");
    }

    #[test]
    fn degraded_is_below_what_is_set_and_limited_below_what_is_supported() {
        let link = |width, active, extended| {
            Some((Width::decode(width).unwrap(), Speed::decode(active, extended).unwrap()))
        };
        let of = |active, enabled, supported| {
            let capability = Capability { active, enabled, supported };
            (capability.is_degraded(), capability.is_limited())
        };
        let (full, narrow, slow) = (link(2, 4, 2), link(1, 4, 2), link(2, 4, 0));
        assert_eq!(of(full, full, full), (false, false));
        assert_eq!(of(narrow, full, full), (true, false));
        assert_eq!(of(slow, full, full), (true, false));
        assert_eq!(of(slow, slow, full), (false, true));
        assert_eq!(of(None, full, full), (false, false), "no link");
        assert_eq!(of(narrow, None, None), (false, false), "not known");

        // EDR: 4 lanes of 25.78125 GBd, 64 of 66 bits are data.
        let possible =
            |active| Capability { active, enabled: full, supported: full }.possible_rate_bytes_per_second();
        assert_eq!((possible(narrow), possible(full)), (Some(12_500_000_000), None));
    }
}
