//! Multicast groups: what the subnet administrator reports of them, put beside the trees in the tables. Pure.

use super::{MulticastTables, Tree};
use crate::mad::NodeKind;
use crate::mad::sa::McMember;
use crate::topology::{PortEnd, Topology};
use std::collections::{BTreeMap, HashSet};
use throughline_sample::Guid;

/// Join state: receives what is sent to the group (15.2.5.17): full members and non-members do.
const RECEIVES: u8 = 0b0011;

/// Groups of a subnet, as the subnet administrator reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Members; without trust one record for each group, with a port of 0.
    pub members: Vec<McMember>,
    /// Whether members are reported. Where not, `members` has groups only.
    pub is_trusted: bool,
    /// Whether there may be more: only some records pass.
    pub is_cut: bool,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// GUID of its port.
    pub port_guid: Guid,
    /// The port; `None` where the topology does not have it.
    pub end: Option<PortEnd>,
    /// Bits: 1 full member, 2 non-member, 4 send-only.
    pub join_state: u8,
    /// Whether somebody else joined for it.
    pub is_proxy: bool,
}

impl Member {
    /// Whether it is to be sent to.
    #[must_use]
    pub const fn receives(&self) -> bool {
        self.join_state & RECEIVES != 0
    }

    /// The join state's name.
    #[must_use]
    pub const fn state_name(&self) -> &'static str {
        match self.join_state {
            state if state & 1 != 0 => "full",
            state if state & 2 != 0 => "non-member",
            state if state & 4 != 0 => "send-only",
            _ => "unknown",
        }
    }
}

/// A multicast LID: the groups that use it, their members and its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The multicast LID.
    pub mlid: u16,
    /// The group, as reported by the first of its records; `None` where the tables have the LID and no group is
    /// known.
    pub record: Option<McMember>,
    /// Its members, by port GUID; `None` where they are not reported.
    pub members: Option<Vec<Member>>,
    /// The tree of the LID, which several groups may share.
    pub tree: Tree,
    /// Whether other groups have the same LID: then the tree is for the members of all of them.
    pub is_shared: bool,
    /// Receiving members that the tree does not reach.
    pub missed: Vec<Guid>,
    /// Ports that the tree reaches though they are no members, of this group or of one with its LID.
    pub strangers: Vec<PortEnd>,
}

impl Group {
    /// All groups that are known of, by LID and MGID: those of the administrator, and LIDs that only tables have.
    /// `reported` is `None` where there is no administrator to query.
    #[must_use]
    pub fn all(topology: &Topology, tables: &MulticastTables, reported: Option<&Groups>) -> Vec<Group> {
        let mut by_group: BTreeMap<(u16, u128), Vec<McMember>> = BTreeMap::new();
        for record in reported.iter().flat_map(|groups| &groups.members) {
            by_group.entry((record.mlid, record.group)).or_default().push(*record);
        }
        let mut sharing: BTreeMap<u16, usize> = BTreeMap::new();
        for (mlid, _) in by_group.keys() {
            *sharing.entry(*mlid).or_default() += 1;
        }
        let is_reported = reported.is_some_and(|groups| groups.is_trusted);
        // Who may be reached by a LID: the members of all its groups. Managers may send to send-only members, too.
        let mut joined: BTreeMap<u16, Vec<PortEnd>> = BTreeMap::new();
        let mut groups = Vec::new();
        for ((mlid, _), records) in &by_group {
            let mut members: Vec<Member> =
                records.iter().filter_map(|record| member(topology, record)).collect();
            members.sort_by_key(|member| member.port_guid);
            let ends = members.iter().filter_map(|member| member.end);
            joined.entry(*mlid).or_default().extend(ends);
            groups.push(Group {
                mlid: *mlid,
                record: records.first().copied(),
                members: is_reported.then_some(members),
                tree: Tree::new(topology, tables, *mlid),
                is_shared: sharing.get(mlid).is_some_and(|count| *count > 1),
                missed: Vec::new(),
                strangers: Vec::new(),
            });
        }
        for mlid in tables.mlids().into_iter().filter(|mlid| !sharing.contains_key(mlid)) {
            let tree = Tree::new(topology, tables, mlid);
            let (missed, strangers) = (Vec::new(), Vec::new());
            groups.push(Group {
                mlid,
                record: None,
                members: None,
                tree,
                is_shared: false,
                missed,
                strangers,
            });
        }
        groups.sort_by_key(|group| (group.mlid, group.record.map(|record| record.group)));
        for group in &mut groups {
            group.compare(topology, joined.get(&group.mlid).map_or(&[], Vec::as_slice));
        }
        groups
    }

    /// Holds the members against whom the tree reaches.
    fn compare(&mut self, topology: &Topology, joined: &[PortEnd]) {
        let Some(members) = &self.members else { return };
        let key = |end: &PortEnd| (end.node, end.port);
        let own =
            self.tree.switches.iter().filter(|(_, ports)| ports.contains(0)).map(|(node, _)| (*node, 0));
        let reached: HashSet<_> = self.tree.hosts.iter().map(|(_, host)| key(host)).chain(own).collect();
        let joined: HashSet<_> = joined.iter().map(key).collect();
        // A cable between two hosts needs no tree.
        let is_beside_a_member = |end: &PortEnd| {
            let is_host = |end: &PortEnd| topology.nodes[end.node].kind != NodeKind::Switch;
            let across = topology.nodes[end.node].port(end.port).and_then(|port| port.remote);
            is_host(end) && across.is_some_and(|other| is_host(&other) && joined.contains(&key(&other)))
        };
        let is_reached = |end: PortEnd| reached.contains(&key(&end)) || is_beside_a_member(&end);
        let is_missed = |member: &&Member| member.receives() && !member.end.is_some_and(is_reached);
        // A group of one member needs no entry anywhere.
        let needing = members.iter().filter(|_| members.len() > 1);
        self.missed = needing.filter(is_missed).map(|member| member.port_guid).collect();
        let hosts = self.tree.hosts.iter().map(|(_, host)| *host);
        self.strangers = hosts.filter(|host| !joined.contains(&key(host))).collect();
    }

    /// Whether nothing is wrong with it as far as can be seen. Ports reached that are no members are: a manager
    /// may leave a port in a tree for a while after it has left.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.tree.is_sound() && self.missed.is_empty()
    }
}

fn member(topology: &Topology, record: &McMember) -> Option<Member> {
    let port_guid = record.port_guid()?;
    Some(Member {
        port_guid,
        end: topology.port_by_guid(port_guid),
        join_state: record.join_state,
        is_proxy: record.is_proxy,
    })
}

/// Bytes of an MTU as coded (14.2.5.6, NeighborMTU); `None` for a code that the specification does not have.
#[must_use]
pub const fn mtu_bytes(code: u8) -> Option<u32> {
    match code {
        1..=5 => Some(128 << code),
        _ => None,
    }
}

/// Gigabits per second of a rate as coded, as it is written (15.2.5.17, and the later codes of opensm's
/// `ib_types.h`); `None` for a code without a meaning.
#[must_use]
pub const fn rate_name(code: u8) -> Option<&'static str> {
    Some(match code {
        2 => "2.5",
        3 => "10",
        4 => "30",
        5 => "5",
        6 => "20",
        7 => "40",
        8 => "60",
        9 => "80",
        10 => "120",
        11 => "14",
        12 => "56",
        13 => "112",
        14 => "168",
        15 => "25",
        16 => "100",
        17 => "200",
        18 => "300",
        19 => "28",
        20 => "50",
        21 => "400",
        22 => "600",
        23 => "800",
        24 => "1200",
        _ => return None,
    })
}

/// Bytes per second of a rate as coded: of the signal, as [`rate_name`] has it, so that 8b/10b's fifth is not taken off.
#[must_use]
pub fn rate_bytes_per_second(code: u8) -> Option<u64> {
    // At most 1,200 Gb/s: exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rate_name(code)?.parse::<f64>().ok().map(|gigabits| (gigabits * 1e9 / 8.0) as u64)
}
