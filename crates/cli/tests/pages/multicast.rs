//! Multicast of the site: a group from the first host over the first spine to the first host of each leaf, with a third
//! of the packets lost on the way to the third leaf; and a group that nobody forwards.

use crate::seed::{LEAVES, PER_LEAF, PREFIX, host, leaf, spine};
use throughline_sample::wire::*;

/// Sent a second.
const PACKETS: u64 = 1000;
/// The leaf that gets two of three.
const LOSSY: u64 = 2;
/// A member that no switch sends to.
const MISSED: u64 = 15;

/// A leaf's port to the first spine.
const fn up() -> u32 {
    PER_LEAF as u32 + 1
}

/// Tables and groups as a discovery found them.
pub fn fabric(generation: i64) -> Batch {
    let ports = |guid: u64| match guid {
        0x100..0x200 => vec![1, u8::try_from(up()).unwrap()],
        _ => (1..=u8::try_from(LEAVES).unwrap()).collect(),
    };
    let table = |guid: u64| IbMulticastTable {
        generation,
        guid,
        entries: vec![IbMulticastEntry { mlid: 0xC000, ports: ports(guid) }],
    };
    let member = |i: u64| IbMulticastMember { port_guid: host(i) + 0x10_0000, join_state: 1 };
    let members: Vec<IbMulticastMember> =
        (0..LEAVES).map(|l| l * PER_LEAF).chain([MISSED]).map(member).collect();
    let group = |mlid: u32, last: u128, name: &str, members: Option<&[IbMulticastMember]>| IbMulticastGroup {
        generation,
        mgid: (0xFF12_401B_FFFF_u128 << 80 | last).to_be_bytes().to_vec(),
        mlid,
        pkey: 0xFFFF,
        mtu_bytes: Some(2048),
        rate_bytes_per_second: Some(1_250_000_000),
        service_level: 0,
        name: name.into(),
        member_count: members.map(|members| u32::try_from(members.len()).unwrap()),
        members: members.unwrap_or_default().to_vec(),
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_multicast_tables: (0..LEAVES).map(leaf).chain([spine(0)]).map(table).collect(),
        ib_multicast_groups: vec![
            group(0xC000, 0xFFFF_FFFF, "IPoIB broadcast", Some(&members)),
            group(0xC001, 0xFB, "IPoIB 224.0.0.251 mDNS", None),
        ],
        ib_multicast_marks: vec![IbMulticastMark { generation, groups: 2 }],
        ..Batch::default()
    }
}

/// Multicast packets that a port has sent and received after so many milliseconds.
pub fn packets(guid: u64, port: u32, milliseconds: u64) -> [u64; 2] {
    let sent = milliseconds * PACKETS / 1000;
    let arrived = |l: u64| if l == LOSSY { sent * 2 / 3 } else { sent };
    let is_first_spine = guid == spine(0);
    match guid {
        0x100..0x200 if port == up() && guid == leaf(0) => [sent, 0],
        0x100..0x200 if port == up() => [0, arrived(guid - leaf(0))],
        0x100..0x200 if port == 1 && guid == leaf(0) => [0, sent],
        0x100..0x200 if port == 1 => [arrived(guid - leaf(0)), 0],
        _ if is_first_spine && port == 1 => [0, sent],
        _ if is_first_spine => [sent, 0],
        _ if guid == host(0) => [sent, 0],
        _ if guid >= host(0) && (guid - host(0)).is_multiple_of(PER_LEAF) => {
            [0, arrived((guid - host(0)) / PER_LEAF)]
        }
        _ => [0, 0],
    }
}
