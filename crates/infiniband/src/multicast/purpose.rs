//! What a multicast GID is for, where its bits say so. Pure.
//!
//! IP over InfiniBand makes the GID of an IP group from its address (RFC 4391, section 4): `ff1S:SIGN:PKEY:…`, with the
//! scope S, a signature for IPv4 or IPv6, the partition key, and 80 bits of group ID. Linux' RDMA CM does the same with
//! signatures of its own (`cma_set_mgid` in drivers/infiniband/core/cma.c), and a subnet administrator that is to choose
//! a GID marks it with another (IBTA volume 1, 15.2.5.17; opensm's osm_sa_mcmember_record.c).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Signatures: the second 16 bits of a GID.
const IPOIB_4: u16 = 0x401B;
const IPOIB_6: u16 = 0x601B;
const RDMA_CM_4: u16 = 0x4001;
const RDMA_CM_6: u16 = 0x6001;
const ADMINISTRATOR: u16 = 0xA01B;
/// Transient multicast GIDs of any scope (IBTA volume 1, 4.1.1): `ff1S`.
const TRANSIENT: u16 = 0xFF10;
/// Group ID of IPv4's limited broadcast (RFC 4391, section 4).
const BROADCAST_4: u128 = 0xFFFF_FFFF;
/// Of a group ID, what an IPv4 group's address is: the other four bits are 1110 (RFC 4391, section 4).
const ADDRESS_4: u128 = 0x0FFF_FFFF;
/// Of a group ID, all of it: 80 bits.
const GROUP_ID: u128 = (1 << 80) - 1;

/// Groups of IPv4 that each network has (IANA, IPv4 Multicast Address Space Registry).
const NAMES_4: [(Ipv4Addr, &str); 9] = [
    (Ipv4Addr::new(224, 0, 0, 1), "all hosts"),
    (Ipv4Addr::new(224, 0, 0, 2), "all routers"),
    (Ipv4Addr::new(224, 0, 0, 5), "OSPF"),
    (Ipv4Addr::new(224, 0, 0, 18), "VRRP"),
    (Ipv4Addr::new(224, 0, 0, 22), "IGMPv3"),
    (Ipv4Addr::new(224, 0, 0, 251), "mDNS"),
    (Ipv4Addr::new(224, 0, 0, 252), "LLMNR"),
    (Ipv4Addr::new(224, 0, 1, 129), "PTP"),
    (Ipv4Addr::new(239, 255, 255, 250), "SSDP"),
];
/// Group IDs of IPv6 that each network has (IANA, IPv6 Multicast Address Space Registry).
const NAMES_6: [(u128, &str); 6] = [
    (0x1, "all nodes"),
    (0x2, "all routers"),
    (0x16, "MLDv2"),
    (0xFB, "mDNS"),
    (0x1_0002, "DHCPv6"),
    (0x1_0003, "LLMNR"),
];
/// Solicited-node groups, `ff02::1:ffXX:XXXX` (RFC 4291, section 2.7.1), without the last 24 bits.
const SOLICITED_NODE: u128 = 0x1_FF00_0000;
const SOLICITED_NODE_BITS: u32 = 24;

/// What a group is for, in a few words: `IPoIB broadcast`, `IPoIB 224.0.0.251 mDNS`, `RDMA CM 239.1.2.3`; `None` where
/// the GID does not say.
#[must_use]
pub fn purpose(mgid: u128) -> Option<String> {
    let words = Ipv6Addr::from(mgid).segments();
    let scope = words[0] & 0xF;
    if words[0] & 0xFFF0 != TRANSIENT {
        return None;
    }
    let id = mgid & GROUP_ID;
    match words[1] {
        IPOIB_4 if id == BROADCAST_4 => Some("IPoIB broadcast".to_owned()),
        IPOIB_4 => name_4("IPoIB", id),
        RDMA_CM_4 => name_4("RDMA CM", id),
        IPOIB_6 => Some(name_6("IPoIB", scope, id)),
        RDMA_CM_6 => Some(name_6("RDMA CM", scope, id)),
        ADMINISTRATOR => Some("chosen by the subnet administrator".to_owned()),
        _ => None,
    }
}

fn name_4(user: &str, id: u128) -> Option<String> {
    if id & !ADDRESS_4 != 0 {
        return None;
    }
    let address = Ipv4Addr::from(0xE000_0000 | id as u32);
    let known = NAMES_4.iter().find(|(known, _)| *known == address);
    Some(format!("{user} {address}{}", known.map_or_else(String::new, |(_, name)| format!(" {name}"))))
}

fn name_6(user: &str, scope: u16, id: u128) -> String {
    // Of the flags only that it is transient is left; those of a well-known group were 0.
    let address = Ipv6Addr::from(u128::from(0xFF00 | scope) << 112 | id);
    let known = NAMES_6.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
    let is_solicited = id >> SOLICITED_NODE_BITS == SOLICITED_NODE >> SOLICITED_NODE_BITS;
    let name = known.or(is_solicited.then_some("solicited node"));
    format!("{user} {address}{}", name.map_or_else(String::new, |name| format!(" {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_by_their_bits() {
        for (mgid, name) in [
            ("ff12:401b:ffff::ffff:ffff", Some("IPoIB broadcast")),
            // Another partition and scope: the same group.
            ("ff15:401b:8001::ffff:ffff", Some("IPoIB broadcast")),
            ("ff12:401b:ffff::1", Some("IPoIB 224.0.0.1 all hosts")),
            ("ff12:401b:ffff::fb", Some("IPoIB 224.0.0.251 mDNS")),
            ("ff12:401b:ffff::f01:203", Some("IPoIB 239.1.2.3")),
            ("ff12:401b:ffff::fff:fffa", Some("IPoIB 239.255.255.250 SSDP")),
            ("ff12:401b:ffff::1000:1", None),
            ("ff12:601b:ffff::1", Some("IPoIB ff02::1 all nodes")),
            ("ff12:601b:ffff::16", Some("IPoIB ff02::16 MLDv2")),
            ("ff12:601b:ffff::1:ff12:3456", Some("IPoIB ff02::1:ff12:3456 solicited node")),
            ("ff15:601b:ffff::1234", Some("IPoIB ff05::1234")),
            ("ff12:4001:ffff::f01:203", Some("RDMA CM 239.1.2.3")),
            ("ff12:6001:ffff::5", Some("RDMA CM ff02::5")),
            ("ff12:a01b:fe80::c003", Some("chosen by the subnet administrator")),
            // Not transient, another signature, no multicast.
            ("ff02:401b:ffff::1", None),
            ("ff12:4711:ffff::1", None),
            ("fe80::1", None),
        ] {
            let bits = u128::from(mgid.parse::<Ipv6Addr>().unwrap());
            assert_eq!(purpose(bits).as_deref(), name, "{mgid}");
        }
    }
}
