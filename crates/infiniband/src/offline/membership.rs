//! What `saquery -g` (groups) and `saquery -m` (members of groups) print.
//!
//! Facts from saquery(8) and infiniband-diags' `saquery.c`. A record that is not whole is an error; a file that was
//! cut between two records can't be distinguished from a whole one. The Q_Key is in neither.

use super::OfflineError;
use super::lines::{Lines, number};
use crate::mad::sa::McMember;
use crate::multicast::Groups;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Most records of groups and members: 16,382 multicast LIDs, and the members of 500 groups of 2,000 ports each.
const MAX_RECORDS: usize = 1_000_000;
/// Values of MTU and rate; the two bits above say how they compare, in requests.
const VALUE_BITS: u8 = 0x3F;

/// Groups and members as the files have them.
#[derive(Debug, Default)]
pub struct Membership {
    groups: BTreeMap<(u16, u128), McMember>,
    members: Vec<McMember>,
    has_members: bool,
}

impl Membership {
    /// As an administrator would have reported it: members with what the groups say; `None` where no file has groups.
    /// The second value counts members of groups that no file has.
    #[must_use]
    pub fn groups(self) -> (Option<Groups>, usize) {
        let mut members: Vec<McMember> = Vec::new();
        let mut strangers = 0;
        for member in self.members {
            match self.groups.get(&(member.mlid, member.group)) {
                Some(group) => members.push(McMember {
                    port: member.port,
                    scope: member.scope,
                    join_state: member.join_state,
                    is_proxy: member.is_proxy,
                    ..*group
                }),
                None => strangers += 1,
            }
        }
        if self.groups.is_empty() {
            return (None, strangers);
        }
        // Where members are reported, a group without any is left out.
        members.extend(self.groups.into_values());
        (Some(Groups { members, is_trusted: self.has_members, is_cut: false }), strangers)
    }

    fn add(&mut self, record: McMember, is_member: bool) -> Result<(), String> {
        if self.groups.len() + self.members.len() >= MAX_RECORDS {
            return Err(format!("more than {MAX_RECORDS} groups and members"));
        }
        self.has_members |= is_member;
        match is_member {
            true => self.members.push(record),
            false => drop(self.groups.insert((record.mlid, record.group), record)),
        }
        Ok(())
    }
}

/// Fields of a record after its heading, in their order.
const GROUP: [&str; 6] = ["MGID", "Mlid", "Mtu", "pkey", "Rate", "SL"];
const MEMBER: [&str; 6] = ["MGID", "Mlid", "PortGid", "ScopeState", "ProxyJoin", "NodeDescription"];

/// Reads a file into `membership`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, a record that is not whole.
pub fn read(lines: &mut Lines<'_>, membership: &mut Membership) -> Result<(), OfflineError> {
    while lines.advance()? {
        let is_member = match lines.text().trim() {
            "" => continue,
            "MCMemberRecord group dump:" => false,
            "MCMemberRecord member dump:" => true,
            _ => return Err(lines.expected("`MCMemberRecord group dump:` or `… member dump:`")),
        };
        let mut record = McMember::default();
        for name in if is_member { MEMBER } else { GROUP } {
            if !lines.advance()? {
                return Err(lines.file_error("its last record is not whole; save it again".to_owned()));
            }
            let value = lines.text().trim().strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            let done = value.and_then(|value| set(&mut record, name, value.trim_start_matches('.')));
            done.ok_or_else(|| lines.expected("the next field of an MCMemberRecord, as saquery prints it"))?;
        }
        let done = membership.add(record, is_member);
        done.map_err(|reason| lines.file_error(reason))?;
    }
    Ok(())
}

fn set(record: &mut McMember, name: &str, value: &str) -> Option<()> {
    let gid = || value.parse::<Ipv6Addr>().ok().map(u128::from);
    match name {
        "MGID" => {
            record.group = gid()?;
            // The GID has the scope, too (4.1.1).
            record.scope = (record.group >> 112) as u8 & 0xF;
        }
        "Mlid" => record.mlid = number(value)?,
        "Mtu" => record.mtu = number::<u8>(value)? & VALUE_BITS,
        "pkey" => record.pkey = number(value)?,
        "Rate" => record.rate = number::<u8>(value)? & VALUE_BITS,
        "SL" => record.service_level = number(value)?,
        "PortGid" => record.port = gid()?,
        "ScopeState" => {
            let both: u8 = number(value)?;
            (record.scope, record.join_state) = (both >> 4, both & 0xF);
        }
        "ProxyJoin" => record.is_proxy = number::<u8>(value)? != 0,
        // A name of the member's node, which the topology has.
        _ => {}
    }
    Some(())
}
