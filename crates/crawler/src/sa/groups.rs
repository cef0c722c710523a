//! Multicast groups and their members from the subnet administrator.
//!
//! Who is a member is reported only to the trusted, that is, to who knows the SM_Key; to others an administrator
//! names the groups, or with a wrong key does not answer at all.

use super::{Client, SaError};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use throughline_infiniband::key::Key;
use throughline_infiniband::mad::MIN_MULTICAST_LID;
use throughline_infiniband::mad::sa::{McMember, Query, attribute};
use throughline_infiniband::multicast::Groups;
use throughline_sample::Guid;

/// Component of an MCMemberRecord: the port's GID.
const PORT_COMPONENT: u32 = 1;
/// Component of an MCMemberRecord: the multicast LID.
const MLID_COMPONENT: u32 = 3;

/// Queries record by record that one reading may take: 100 groups of 200 ports.
const QUERIES_MAX: usize = 20_000;

/// All groups with their members, as far as the administrator reports them, and groups without members. Where long
/// answers can't pass, record by record: for `mlids`, and the one that the broadcast group has. Members are then
/// queried only within a bound of 20,000 queries.
///
/// # Errors
/// [`SaError`].
pub fn all_groups(
    client: &mut Client,
    key: Key,
    mlids: &BTreeSet<u16>,
    ports: &[(u64, Guid)],
    stop: &AtomicBool,
) -> Result<Groups, SaError> {
    let mut query = |key: Key| match groups(client, key, stop) {
        Err(SaError::Cut { .. }) => {
            let mut mlids = mlids.clone();
            mlids.insert(MIN_MULTICAST_LID);
            let mlids: Vec<u16> = mlids.into_iter().collect();
            let key = if mlids.len() * ports.len() > QUERIES_MAX { Key::default() } else { key };
            groups_of_mlids(client, key, &mlids, ports, stop)
        }
        answer => answer,
    };
    let mut reported = query(key);
    if let Ok(reported) = &mut reported
        && reported.is_trusted
    {
        // Where members are reported, a group without any is left out.
        if let Ok(groups) = query(Key::default()) {
            reported.is_cut |= groups.is_cut;
            reported.members.extend(groups.members);
        }
    }
    reported
}

/// Whether the administrator answers with this SM_Key: one small query, so that a wrong key costs no wait for tables.
///
/// # Errors
/// [`SaError`] but for silence.
pub fn is_trusting(client: &mut Client, key: Key, stop: &AtomicBool) -> Result<bool, SaError> {
    let usual = client.replace_key(key);
    let lid = Query::all(attribute::MC_MEMBER).with(MLID_COMPONENT, 36, &MIN_MULTICAST_LID.to_be_bytes());
    let answer = client.get(&lid, stop);
    client.replace_key(usual);
    match answer {
        // More than one member is an answer, too.
        Ok(_) | Err(SaError::Refused { .. }) => Ok(true),
        Err(SaError::Silent { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// All groups with their members, as far as the administrator reports them: first queried with `key`, then, when
/// that gets no answer, without.
///
/// # Errors
/// [`SaError`]; [`SaError::Cut`] where long answers can't pass: query [`groups_of_mlids`] then.
pub fn groups(client: &mut Client, key: Key, stop: &AtomicBool) -> Result<Groups, SaError> {
    let query = Query::all(attribute::MC_MEMBER);
    trusted_or_not(client, key, |client, is_trusted| {
        let members = client.table(&query, stop)?.decoded(McMember::decode).collect();
        Ok(Groups { members, is_trusted, is_cut: false })
    })
}

/// Groups and members record by record, for these multicast LIDs and, with trust, for each of these ports.
/// Groups that share a multicast LID can't be distinguished that way, and are left out with `is_cut`.
///
/// # Errors
/// [`SaError`].
fn groups_of_mlids(
    client: &mut Client,
    key: Key,
    mlids: &[u16],
    ports: &[(u64, Guid)],
    stop: &AtomicBool,
) -> Result<Groups, SaError> {
    let of_mlid = |mlid: &u16| Query::all(attribute::MC_MEMBER).with(MLID_COMPONENT, 36, &mlid.to_be_bytes());
    let of_port = |query: Query, (prefix, guid): &(u64, Guid)| {
        let gid = u128::from(*prefix) << 64 | u128::from(guid.0);
        query.with(PORT_COMPONENT, 16, &gid.to_be_bytes())
    };
    trusted_or_not(client, key, |client, is_trusted| {
        let mut found = Groups { is_trusted, ..Groups::default() };
        let queries: Vec<Query> = match is_trusted {
            true => mlids
                .iter()
                .flat_map(|mlid| ports.iter().map(move |port| of_port(of_mlid(mlid), port)))
                .collect(),
            false => mlids.iter().map(of_mlid).collect(),
        };
        let mut failure = None;
        client.get_many(&queries, stop, &mut |_, record| match record {
            Ok(record) => found.members.extend(record.and_then(|record| McMember::decode(record).ok())),
            Err(SaError::Refused { .. }) => found.is_cut = true,
            Err(error) => failure = Some(error),
        })?;
        found.members.sort_by_key(|member| (member.mlid, member.group, member.port));
        match failure {
            Some(error) => Err(error),
            None => Ok(found),
        }
    })
}

/// Queries with the key and, when there is no answer or a denial, without one.
fn trusted_or_not(
    client: &mut Client,
    key: Key,
    mut ask: impl FnMut(&mut Client, bool) -> Result<Groups, SaError>,
) -> Result<Groups, SaError> {
    let usual = client.replace_key(key);
    let mut result = ask(client, key != Key::default());
    if key != Key::default() && matches!(result, Err(SaError::Silent { .. } | SaError::Refused { .. })) {
        client.replace_key(Key::default());
        result = ask(client, false);
    }
    client.replace_key(usual);
    result
}
