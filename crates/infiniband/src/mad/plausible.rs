//! Whether a reply can be one to its request: header and contents. Pure.
//!
//! Only what the specification excludes is taken for implausible, so that no odd but honest device is lost. A value
//! that merely is too high to be used (LinearFDBTop) is cut where it is decoded.

use super::{
    CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, Mad, NodeInfo, Query, ReplyHeader, attribute, performance_data,
    smp_data,
};
use throughline_sample::Guid;

/// Most physical ports of a node: port 255 means all of them (IBTA volume 1, 14.2.5.3).
const PORTS_MAX: u8 = 254;
/// NodeType (14.2.5.3): channel adapter, switch, router.
const NODE_TYPES: std::ops::RangeInclusive<u8> = 1..=3;

/// Why a reply is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Versions of MAD or class are other ones.
    Version,
    /// It is about another attribute, or no response of the class.
    Attribute,
    /// Its modifier is not the request's.
    Modifier,
    /// A performance reply is about another port.
    Port,
    /// NodeInfo: a type that there is not.
    NodeType,
    /// NodeInfo: more ports than there can be, or none, or a local port beyond them.
    PortCount,
    /// NodeInfo: no GUID.
    NoGuid,
}

/// How many reasons there are.
pub const REASONS: usize = Reason::ALL.len();

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 7] = [
        Reason::Version,
        Reason::Attribute,
        Reason::Modifier,
        Reason::Port,
        Reason::NodeType,
        Reason::PortCount,
        Reason::NoGuid,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Version => "version",
            Reason::Attribute => "attribute",
            Reason::Modifier => "modifier",
            Reason::Port => "port",
            Reason::NodeType => "node_type",
            Reason::PortCount => "port_count",
            Reason::NoGuid => "no_guid",
        }
    }
}

/// What makes a reply one that is not believed; `None` of one that may be true. `header` is that of `mad`.
#[must_use]
pub fn implausible(query: &Query, header: &ReplyHeader, mad: &Mad) -> Option<Reason> {
    if !header.has_version {
        return Some(Reason::Version);
    }
    if header.attribute != query.attribute {
        return Some(Reason::Attribute);
    }
    if header.modifier != query.modifier {
        return Some(Reason::Modifier);
    }
    // The drivers of some adapters leave the port out of what they answer for themselves.
    let has_port = header.class == CLASS_PERFORMANCE && header.attribute != attribute::CLASS_PORT_INFO;
    if header.status == 0 && has_port && ![0, query.port_select].contains(&performance_data(mad)[1]) {
        return Some(Reason::Port);
    }
    let is_node_info = header.class == CLASS_SMP_DIRECTED && header.attribute == attribute::NODE_INFO;
    if header.status != 0 || !is_node_info {
        return None;
    }
    let data = smp_data(mad);
    // A SMP has data enough.
    let Ok(info) = NodeInfo::decode(data) else { return Some(Reason::Attribute) };
    let has_ports = (1..=PORTS_MAX).contains(&info.port_count) && info.local_port <= info.port_count;
    match () {
        () if !NODE_TYPES.contains(&data[2]) => Some(Reason::NodeType),
        () if !has_ports => Some(Reason::PortCount),
        () if info.node_guid == Guid(0) => Some(Reason::NoGuid),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{DirectedPath, MAD_BYTES, build_smp_get, reply_header};

    fn reply(change: impl Fn(&mut Mad)) -> Option<Reason> {
        let query = Query { attribute: attribute::NODE_INFO, modifier: 0, port_select: 0 };
        let mut mad = [0; MAD_BYTES];
        build_smp_get(&mut mad, &DirectedPath::local(), &query, 7);
        mad[3] = 0x81;
        // Switch of 254 ports, entered by port 254.
        (mad[66], mad[67], mad[83], mad[100]) = (2, 254, 1, 254);
        change(&mut mad);
        implausible(&query, &reply_header(&mad), &mad)
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(reply(|_| ()), None);
        assert_eq!(reply(|mad| mad[2] = 2), Some(Reason::Version));
        assert_eq!(reply(|mad| mad[0] = 0), Some(Reason::Version));
        assert_eq!(reply(|mad| mad[17] = 0x12), Some(Reason::Attribute));
        assert_eq!(reply(|mad| mad[23] = 1), Some(Reason::Modifier));
        assert_eq!(reply(|mad| mad[66] = 0), Some(Reason::NodeType));
        assert_eq!(reply(|mad| mad[66] = 9), Some(Reason::NodeType));
        assert_eq!(reply(|mad| mad[67] = 255), Some(Reason::PortCount));
        assert_eq!(reply(|mad| (mad[67], mad[100]) = (0, 0)), Some(Reason::PortCount));
        assert_eq!(reply(|mad| (mad[67], mad[100]) = (36, 37)), Some(Reason::PortCount));
        assert_eq!(reply(|mad| mad[83] = 0), Some(Reason::NoGuid));
        let refused = reply(|mad| (mad[5], mad[66]) = (0x0C, 0));
        assert_eq!(refused, None, "a refusal has no contents");
    }
}
