//! Frames of traffic by operation: peers, members of groups, and what collectives moved. As pure and as careful as
//! `frame.rs`, which this is part of.

use crate::status::Malformed;

/// Most members of a group, as of ranks of a job.
const MEMBERS_MAX: u32 = 1 << 24;
/// Places of groups that a shim has.
const GROUPS_MAX: u32 = 4096;
/// Classes of a shim: 0, 1, 2, 4 ... 2^40 bytes.
const SIZE_CLASS_MAX: u16 = 63;
/// Largest power of two of calls that a sample stands for: TL_SAMPLE_LEVELS of the shim.
const LEVEL_MAX: u16 = 40;
/// Number of an absent rank or root.
const NONE: u32 = u32::MAX;
/// The root's number where this rank is the root of an intercommunicator.
const ROOT_SELF: u32 = u32::MAX - 1;

/// How bytes of an entry are known, and which way they went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficKind {
    /// Handed over by a call, to the peer.
    Sent,
    /// Read by a one-sided call, from the peer.
    Read,
    /// A message to the peer that the library reported.
    Wire,
}

/// Traffic of one operation with one peer since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Rank in `MPI_COMM_WORLD`.
    pub peer: u32,
    /// Number of the operation; 0 for messages within none.
    pub operation: u16,
    /// Kind of the traffic.
    pub kind: TrafficKind,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// Members whose world ranks have equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// World rank of the first; all ones where it is in no `MPI_COMM_WORLD`.
    pub start: u32,
    /// Distance from each to the next.
    pub stride: i32,
    /// Members.
    pub count: u32,
}

/// Members of a group, or the next part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPart {
    /// Its place among the sender's.
    pub number: u32,
    /// Which of those that the place has held.
    pub generation: u32,
    /// Members, all parts together.
    pub size: u32,
    /// The sender's number in it; `None` in an intercommunicator, whose remote group it is.
    pub rank: Option<u32>,
    /// Number of the first member of this part.
    pub first: u32,
    /// The members.
    pub runs: Vec<Run>,
}

/// The root of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// It has none, or the sender has no part in it.
    None,
    /// The sender, in an intercommunicator.
    Own,
    /// A member of the group.
    Member(u32),
}

/// Which calls of collectives are summed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectiveKey {
    /// The group, by its number.
    pub group: u32,
    /// Number of the operation.
    pub operation: u16,
    /// Number of the size class.
    pub size_class: u16,
    /// Number of the algorithm, as in a frame of names; 0 where it is not known.
    pub algorithm: u16,
    /// The root.
    pub root: Root,
}

/// What collectives of one key moved since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Which ones.
    pub key: CollectiveKey,
    /// Calls.
    pub calls: u64,
    /// Bytes of the blocks of all calls.
    pub bytes: u64,
}

/// One call of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which calls it is one of.
    pub key: CollectiveKey,
    /// It stands for 2^level calls.
    pub level: u16,
    /// Its running number among those of its key: the same in all members.
    pub call: u64,
    /// How long the sender was in it.
    pub nanoseconds: u64,
}

/// Reads a body without its time.
pub(crate) fn samples(body: &[u8]) -> Result<Vec<Sample>, Malformed> {
    let (entries, rest) = body.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(Malformed::Body);
    }
    let read = |entry: &[u8; 32]| {
        // Laid out as sums of collectives, with the level in place of how the algorithm is known.
        let of = collective(entry)?;
        let level = number(&entry[14..16]) as u16;
        if level > LEVEL_MAX {
            return Err(Malformed::Body);
        }
        Ok(Sample { key: of.key, level, call: of.calls, nanoseconds: of.bytes })
    };
    entries.iter().map(read).collect()
}

/// Reads a body without its time.
pub(crate) fn traffic(body: &[u8]) -> Result<Vec<Traffic>, Malformed> {
    let (entries, rest) = body.as_chunks::<24>();
    if !rest.is_empty() {
        return Err(Malformed::Body);
    }
    let read = |entry: &[u8; 24]| {
        let kind = match number(&entry[6..8]) {
            0 => TrafficKind::Sent,
            1 => TrafficKind::Read,
            2 => TrafficKind::Wire,
            _ => return None, // of a newer shim
        };
        let operation = number(&entry[4..6]) as u16;
        let (peer, bytes) = (number(&entry[..4]) as u32, number(&entry[8..16]));
        Some(Traffic { peer, operation, kind, bytes, messages: number(&entry[16..]) })
    };
    Ok(entries.iter().filter_map(read).collect())
}

/// Reads a body without its time.
pub(crate) fn groups(mut body: &[u8]) -> Result<Vec<GroupPart>, Malformed> {
    let mut parts = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_first_chunk::<24>().ok_or(Malformed::Body)?;
        let word = |at: usize| number(&head[4 * at..4 * at + 4]) as u32;
        let (number, size, rank, first) = (word(0), word(2), word(3), word(4));
        let length = usize::try_from(word(5)).ok().and_then(|runs| runs.checked_mul(12));
        let (runs, rest) = length.and_then(|length| rest.split_at_checked(length)).ok_or(Malformed::Body)?;
        body = rest;
        if number >= GROUPS_MAX || size > MEMBERS_MAX || (rank != NONE && rank >= size) {
            return Err(Malformed::Body);
        }
        let rank = Some(rank).filter(|rank| *rank != NONE);
        let runs: Vec<Run> = runs.as_chunks::<12>().0.iter().map(run).collect();
        let members = runs.iter().try_fold(first, |sum, run| sum.checked_add(run.count));
        if runs.iter().any(|run| run.count == 0) || members.is_none_or(|members| members > size) {
            return Err(Malformed::Body);
        }
        parts.push(GroupPart { number, generation: word(1), size, rank, first, runs });
    }
    Ok(parts)
}

/// The same of own groups, which the sender is in.
pub(crate) fn own_groups(body: &[u8]) -> Result<Vec<GroupPart>, Malformed> {
    let parts = groups(body)?;
    if parts.iter().any(|part| part.rank.is_none()) { Err(Malformed::Body) } else { Ok(parts) }
}

fn run(bytes: &[u8; 12]) -> Run {
    let word = |at: usize| number(&bytes[at..at + 4]) as u32;
    Run { start: word(0), stride: word(4).cast_signed(), count: word(8) }
}

/// Reads a body without its time.
pub(crate) fn collectives(body: &[u8]) -> Result<Vec<Collective>, Malformed> {
    let (entries, rest) = body.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(Malformed::Body);
    }
    entries.iter().map(collective).collect()
}

fn collective(entry: &[u8; 32]) -> Result<Collective, Malformed> {
    let small = |at: usize| number(&entry[at..at + 2]) as u16;
    let root = match number(&entry[4..8]) as u32 {
        NONE => Root::None,
        ROOT_SELF => Root::Own,
        member => Root::Member(member),
    };
    let (group, size_class) = (number(&entry[..4]) as u32, small(10));
    if group >= GROUPS_MAX || size_class > SIZE_CLASS_MAX {
        return Err(Malformed::Body);
    }
    let key = CollectiveKey { group, operation: small(8), size_class, algorithm: small(12), root };
    Ok(Collective { key, calls: number(&entry[16..24]), bytes: number(&entry[24..]) })
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_wrong_sizes_are_refused() {
        let entry = |number: u32, size: u32, rank: u32, first: u32, runs: &[(u32, u32)]| {
            let words = [number, 1, size, rank, first, runs.len() as u32];
            let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            for (start, count) in runs {
                bytes.extend([*start, 1, *count].into_iter().flat_map(u32::to_le_bytes));
            }
            bytes
        };
        let good = entry(3, 8, 1, 0, &[(4, 2), (9, 6)]);
        let parts = groups(&good).unwrap();
        assert_eq!((parts[0].size, parts[0].rank, parts[0].runs[1].start), (8, Some(1), 9));
        assert_eq!(groups(&entry(3, 8, u32::MAX, 2, &[(4, 6)])).unwrap()[0].rank, None);
        assert_eq!(own_groups(&good), Ok(parts));
        assert_eq!(own_groups(&entry(3, 8, u32::MAX, 2, &[(4, 6)])), Err(Malformed::Body));
        for wrong in [
            entry(4096, 8, 1, 0, &[]),
            entry(3, 8, 8, 0, &[]),
            entry(3, 1 << 25, 8, 0, &[]),
            entry(3, 8, 1, 0, &[(4, 9)]),
            entry(3, 8, 1, u32::MAX, &[(4, 1)]),
            entry(3, 8, 1, 0, &[(4, u32::MAX), (4, 2)]),
            entry(3, 8, 1, 0, &[(4, 0)]),
            good[..good.len() - 1].to_vec(),
        ] {
            assert_eq!(groups(&wrong), Err(Malformed::Body));
        }
        let mut many = entry(3, 8, 1, 0, &[]);
        many[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(groups(&many), Err(Malformed::Body));
        assert_eq!(traffic(&[0; 25]), Err(Malformed::Body));
        assert_eq!(collectives(&[0; 31]), Err(Malformed::Body));
        assert_eq!(samples(&[0; 33]), Err(Malformed::Body));
        assert_eq!(samples(&[0; 32]).unwrap().len(), 1);
        let mut beyond = [0; 32];
        beyond[14] = 41;
        assert_eq!(samples(&beyond), Err(Malformed::Body));
        assert_eq!(collectives(&[0xff; 32]), Err(Malformed::Body));
    }
}
