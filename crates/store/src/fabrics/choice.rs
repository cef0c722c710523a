//! Which known fabric a crawler sees, by the GUIDs of switches that both have in common. Pure.

use std::cmp::Reverse;

use throughline_sample::CommonGuids;

/// A fabric as its last topology was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownFabric {
    pub id: i64,
    pub name: String,
    pub guids: Vec<u64>,
    /// The fabric that it became a part of.
    pub part_of: Option<i64>,
}

/// Why it is not clear which fabric a topology is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FabricChange {
    /// It has what belonged to several, or much more than before.
    Merged,
    /// It has less than half of what belonged to one.
    Split,
}

/// Which fabric a topology is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FabricMatch {
    /// This one.
    Same(i64),
    /// None that is known.
    New,
    /// It may be the first of these; the others have something in common with it, too.
    Unclear(FabricChange, Vec<i64>),
}

/// Finds the fabric of these GUIDs: the one with the same ones, or else the only one with half or more in common, unless
/// half or more of another one is there, too.
pub(crate) fn match_fabric(guids: &[u64], known: &[KnownFabric]) -> FabricMatch {
    let compared = known.iter().map(|fabric| (fabric, CommonGuids::of(guids, &fabric.guids)));
    let mut near: Vec<(&KnownFabric, CommonGuids)> = compared.filter(|(_, both)| both.common > 0).collect();
    // The largest share first, of equal ones the fabric that was known first.
    near.sort_by_key(|(fabric, both)| {
        (Reverse(both.common * 1_000_000 / both.first.max(both.second)), fabric.id)
    });
    let Some((best, share)) = near.first().copied() else { return FabricMatch::New };
    let others = &near[1..];
    if share.is_all() && !others.iter().any(|(_, both)| both.is_all()) {
        return FabricMatch::Same(best.id);
    }
    let is_other = |(fabric, both): &(&KnownFabric, CommonGuids)| {
        fabric.part_of != Some(best.id) && (both.is_half() || both.holds_second())
    };
    if share.is_half() && !others.iter().any(is_other) {
        return FabricMatch::Same(best.id);
    }
    let is_split = others.is_empty() && share.first < share.second;
    let change = if is_split { FabricChange::Split } else { FabricChange::Merged };
    FabricMatch::Unclear(change, near.iter().map(|(fabric, _)| fabric.id).collect())
}

/// Hexadecimal digits of a GUID in a fabric's name, at first; more where the name is taken.
const NAME_DIGITS: usize = 6;
/// Digits of a GUID.
const GUID_DIGITS: usize = 16;

/// The name of a new fabric that nobody named, by its lowest GUID.
pub(crate) fn name_of(lowest_guid: u64, is_taken: impl Fn(&str) -> bool) -> String {
    let digits = format!("{lowest_guid:016x}");
    let names = (NAME_DIGITS..=GUID_DIGITS).map(|count| format!("fabric-{}", &digits[GUID_DIGITS - count..]));
    let numbered = (2..).map(|number: u32| format!("fabric-{digits}-{number}"));
    names.chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(id: i64, guids: impl IntoIterator<Item = u64>) -> KnownFabric {
        KnownFabric { id, guids: guids.into_iter().collect(), ..KnownFabric::default() }
    }

    fn matched(guids: impl IntoIterator<Item = u64>, known: &[KnownFabric]) -> FabricMatch {
        match_fabric(&guids.into_iter().collect::<Vec<u64>>(), known)
    }

    #[test]
    fn half_with_one_is_that_one_and_nothing_in_common_is_new() {
        let known = [fabric(1, 1..=10), fabric(2, 21..=30)];
        assert_eq!(matched(1..=10, &known), FabricMatch::Same(1));
        assert_eq!(matched(21..=25, &known), FabricMatch::Same(2), "five switches are off");
        assert_eq!(matched(21..=40, &known), FabricMatch::Same(2), "ten were added");
        assert_eq!(matched(50..=60, &known), FabricMatch::New);
        assert_eq!(matched(50..=60, &[]), FabricMatch::New);
    }

    #[test]
    fn what_lies_between_is_not_decided() {
        let known = [fabric(1, 1..=10), fabric(2, 21..=30)];
        let unclear = |change, of: &[i64]| FabricMatch::Unclear(change, of.to_vec());
        assert_eq!(matched(7..=10, &known), unclear(FabricChange::Split, &[1]));
        assert_eq!(matched(1..=30, &known), unclear(FabricChange::Merged, &[1, 2]));
        assert_eq!(matched((1..=10).chain(21..=30), &known), unclear(FabricChange::Merged, &[1, 2]));
        assert_eq!(matched(1..=25, &[fabric(1, 1..=10)]), unclear(FabricChange::Merged, &[1]));
    }

    #[test]
    fn a_small_fabric_is_not_swallowed_in_silence() {
        let known = [fabric(1, 1..=10), fabric(2, 21..=22)];
        let merged = FabricMatch::Unclear(FabricChange::Merged, vec![1, 2]);
        assert_eq!(matched((1..=10).chain(21..=22), &known), merged);
        // A switch that was carried over is none of that.
        let known = [fabric(1, 1..=10), fabric(2, 21..=30)];
        assert_eq!(matched((1..=10).chain([21]), &known), FabricMatch::Same(1));
    }

    #[test]
    fn parts_of_a_merged_fabric_are_found_again() {
        let part = KnownFabric { part_of: Some(1), ..fabric(2, 21..=30) };
        let known = [fabric(1, (1..=10).chain(21..=30)), part];
        assert_eq!(matched((1..=10).chain(21..=31), &known), FabricMatch::Same(1), "it grew as one");
        assert_eq!(matched(21..=30, &known), FabricMatch::Same(2));
        assert_eq!(matched(1..=10, &known), FabricMatch::Same(1));
    }

    #[test]
    fn names_have_more_digits_where_they_are_taken() {
        assert_eq!(name_of(0x0002_c903_00ab_cdef, |_| false), "fabric-abcdef");
        assert_eq!(name_of(0x0002_c903_00ab_cdef, |name| name == "fabric-abcdef"), "fabric-0abcdef");
        let last = name_of(7, |name| !name.ends_with("-2"));
        assert_eq!(last, "fabric-0000000000000007-2");
    }
}
