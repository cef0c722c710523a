//! Multicast groups as inventory records. Pure conversion.

use super::inventory::INVENTORY_BYTES;
use crate::mad::sa::McMember;
use crate::multicast::{Groups, mtu_bytes, purpose, rate_bytes_per_second};
use std::collections::BTreeMap;
use throughline_sample::Message;
use throughline_sample::wire::{Batch, IbMulticastGroup, IbMulticastMark, IbMulticastMember};

/// Groups of a subnet that are recorded: as many as there are multicast LIDs.
pub const GROUPS_MAX: usize = 16 << 10;
/// Members of all groups together that are recorded: each of the 48 Ki ports that a subnet has LIDs for in five groups,
/// which is what IP over InfiniBand needs.
pub const MEMBERS_MAX: usize = 256 << 10;
/// Members of one group that are recorded: a subnet has so many unicast LIDs (IBTA 4.1.1). They take 640 kB.
pub const GROUP_MEMBERS_MAX: usize = 48 << 10;

/// Records of a reading, and what of it is not in them.
#[derive(Debug, Default)]
pub struct GroupRecords {
    /// Batches that each fit a spool entry.
    pub batches: Vec<Batch>,
    /// Groups recorded.
    pub groups: usize,
    /// Groups left out: beyond [`GROUPS_MAX`].
    pub left_out_groups: usize,
    /// Groups whose members are counted and not listed: beyond [`MEMBERS_MAX`] or [`GROUP_MEMBERS_MAX`].
    pub unlisted_groups: usize,
}

/// Groups as the subnet administrator reported them. The last batch ends with the mark that the reading is complete,
/// unless it is cut or at a bound: then nothing can be said to be gone.
#[must_use]
pub fn multicast_groups(groups: &Groups, generation: i64) -> GroupRecords {
    let mut by_mgid: BTreeMap<u128, Vec<McMember>> = BTreeMap::new();
    for record in &groups.members {
        by_mgid.entry(record.group).or_default().push(*record);
    }
    let mut made = GroupRecords {
        left_out_groups: by_mgid.len().saturating_sub(GROUPS_MAX),
        groups: by_mgid.len().min(GROUPS_MAX),
        ..GroupRecords::default()
    };
    let mut members_left = MEMBERS_MAX;
    let mut bytes = INVENTORY_BYTES;
    for records in by_mgid.values().take(GROUPS_MAX) {
        let mut record = group(&records[0], generation);
        if groups.is_trusted {
            let members = members(records);
            record.member_count = Some(members.len() as u32);
            if members.len() <= members_left.min(GROUP_MEMBERS_MAX) {
                members_left -= members.len();
                record.members = members;
            } else {
                made.unlisted_groups += 1;
            }
        }
        bytes += record.encoded_len();
        if bytes > INVENTORY_BYTES {
            made.batches.push(Batch::default());
            bytes = record.encoded_len();
        }
        if let Some(last) = made.batches.last_mut() {
            last.ib_multicast_groups.push(record);
        }
    }
    if !groups.is_cut && made.left_out_groups == 0 {
        if made.batches.is_empty() {
            made.batches.push(Batch::default());
        }
        if let Some(last) = made.batches.last_mut() {
            last.ib_multicast_marks.push(IbMulticastMark { generation, groups: made.groups as u32 });
        }
    }
    made
}

fn group(record: &McMember, generation: i64) -> IbMulticastGroup {
    IbMulticastGroup {
        generation,
        mgid: record.group.to_be_bytes().to_vec(),
        mlid: u32::from(record.mlid),
        pkey: u32::from(record.pkey),
        mtu_bytes: mtu_bytes(record.mtu),
        rate_bytes_per_second: rate_bytes_per_second(record.rate),
        service_level: u32::from(record.service_level),
        name: purpose(record.group).unwrap_or_default(),
        member_count: None,
        members: Vec::new(),
    }
}

/// Members by port GUID, each once: the states of one that joined several times, by itself and by others, together.
fn members(records: &[McMember]) -> Vec<IbMulticastMember> {
    let mut states: BTreeMap<u64, u32> = BTreeMap::new();
    for record in records {
        if let Some(guid) = record.port_guid() {
            *states.entry(guid.0).or_default() |= u32::from(record.join_state);
        }
    }
    let member = |(port_guid, join_state)| IbMulticastMember { port_guid, join_state };
    states.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(group: u128, port: u64, join_state: u8) -> McMember {
        let port = if port == 0 { 0 } else { 0xFE80_u128 << 112 | u128::from(port) };
        McMember {
            group: 0xFF12_401B_FFFF << 80 | group,
            port,
            mlid: 0xC000,
            mtu: 4,
            rate: 3,
            pkey: 0xFFFF,
            join_state,
            ..McMember::default()
        }
    }

    fn reported(members: Vec<McMember>) -> Groups {
        Groups { members, is_trusted: true, is_cut: false }
    }

    #[test]
    fn a_reading_becomes_groups_with_members_and_a_mark() {
        let all = reported(vec![
            record(1, 7, 1),
            record(1, 5, 1),
            record(1, 5, 4),
            record(0xFFFF_FFFF, 0, 0),
            record(1, 0, 0),
        ]);
        let made = multicast_groups(&all, 9);
        let [batch] = &made.batches[..] else { panic!("{made:?}") };
        assert_eq!((made.left_out_groups, made.unlisted_groups), (0, 0));
        let [hosts, broadcast] = &batch.ib_multicast_groups[..] else { panic!("{batch:?}") };
        let member = |port_guid, join_state| IbMulticastMember { port_guid, join_state };
        assert_eq!(hosts.members, [member(5, 5), member(7, 1)]);
        assert_eq!((hosts.member_count, hosts.name.as_str()), (Some(2), "IPoIB 224.0.0.1 all hosts"));
        assert_eq!((hosts.mtu_bytes, hosts.rate_bytes_per_second), (Some(2048), Some(1_250_000_000)));
        assert_eq!((broadcast.member_count, broadcast.name.as_str()), (Some(0), "IPoIB broadcast"));
        assert_eq!(batch.ib_multicast_marks, [IbMulticastMark { generation: 9, groups: 2 }]);
    }

    #[test]
    fn members_that_are_not_reported_are_absent_and_a_cut_reading_ends_nothing() {
        let untrusted = Groups { members: vec![record(1, 0, 0)], is_trusted: false, is_cut: true };
        let made = multicast_groups(&untrusted, 9);
        assert_eq!(made.batches[0].ib_multicast_groups[0].member_count, None);
        assert!(made.batches[0].ib_multicast_marks.is_empty());
        // Without any group all that there were are gone.
        let none = multicast_groups(&reported(Vec::new()), 9);
        assert_eq!(none.batches[0].ib_multicast_marks, [IbMulticastMark { generation: 9, groups: 0 }]);
    }

    #[test]
    fn bounds_are_kept_and_counted() {
        let many = (0..=GROUPS_MAX as u128).map(|group| record(group, 0, 0)).collect();
        let made = multicast_groups(&reported(many), 9);
        assert_eq!((made.groups, made.left_out_groups), (GROUPS_MAX, 1));
        assert!(made.batches.iter().all(|batch| batch.ib_multicast_marks.is_empty()));
        let large = (1..=GROUP_MEMBERS_MAX as u64 + 1).map(|port| record(1, port, 1));
        let made = multicast_groups(&reported(large.chain([record(2, 1, 1)]).collect()), 9);
        let groups = &made.batches[0].ib_multicast_groups;
        assert_eq!((made.unlisted_groups, groups.len()), (1, 2));
        assert_eq!(
            (groups[0].member_count, groups[0].members.len()),
            (Some(GROUP_MEMBERS_MAX as u32 + 1), 0)
        );
        assert_eq!(groups[1].members.len(), 1);
        assert!(made.batches.iter().all(|batch| batch.encoded_len() <= INVENTORY_BYTES + 100));
    }
}
