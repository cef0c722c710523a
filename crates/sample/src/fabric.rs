//! By what a crawler's fabric is known: the GUIDs of its switches, of many fabrics' switches those of lowest hash. Pure.

use std::collections::BTreeSet;

use crate::wire::FabricFingerprint;

/// GUIDs in a fingerprint, at most: 2 kB, and the share that two sweeps have in common is still known to within some percent.
pub const FINGERPRINT_GUIDS_MAX: usize = 256;

/// Longest name of a fabric: it is a label of series, and a word on pages.
pub const FABRIC_NAME_BYTES_MAX: usize = 64;

/// How much of two sets of GUIDs is the same, as far as both have been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonGuids {
    /// GUIDs in both.
    pub common: usize,
    /// GUIDs of the first.
    pub first: usize,
    /// GUIDs of the second.
    pub second: usize,
}

impl CommonGuids {
    /// Compares two sets. Of one that was cut only GUIDs up to its highest hash are known, so the other counts up to there, too.
    #[must_use]
    pub fn of(first: &[u64], second: &[u64]) -> CommonGuids {
        let bound = known_below(first).min(known_below(second));
        let counted = |all: &[u64]| -> BTreeSet<u64> {
            all.iter().copied().filter(|guid| hash(*guid) <= bound).collect()
        };
        let (first, second) = (counted(first), counted(second));
        CommonGuids { common: first.intersection(&second).count(), first: first.len(), second: second.len() }
    }

    /// Whether half or more of either set is in the other.
    #[must_use]
    pub fn is_half(self) -> bool {
        self.common > 0 && 2 * self.common >= self.first.max(self.second)
    }

    /// Whether the sets are equal.
    #[must_use]
    pub fn is_all(self) -> bool {
        self.common > 0 && self.common == self.first && self.common == self.second
    }

    /// Whether half or more of the second set is in the first.
    #[must_use]
    pub fn holds_second(self) -> bool {
        self.common > 0 && 2 * self.common >= self.second
    }
}

/// The highest hash up to which a set is complete.
fn known_below(guids: &[u64]) -> u64 {
    if guids.len() < FINGERPRINT_GUIDS_MAX {
        return u64::MAX;
    }
    guids.iter().map(|guid| hash(*guid)).max().unwrap_or(u64::MAX)
}

/// A fixed permutation of the GUIDs (the finaliser of SplitMix64), so that GUIDs of one vendor or one rack are not
/// chosen together.
const fn hash(guid: u64) -> u64 {
    let mut value = guid.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// At most [`FINGERPRINT_GUIDS_MAX`] of these, those of lowest hash, in the order of their numbers.
fn chosen(guids: BTreeSet<u64>) -> Vec<u64> {
    let mut all: Vec<u64> = guids.into_iter().collect();
    if all.len() > FINGERPRINT_GUIDS_MAX {
        all.sort_by_key(|guid| hash(*guid));
        all.truncate(FINGERPRINT_GUIDS_MAX);
        all.sort_unstable();
    }
    all
}

impl FabricFingerprint {
    /// Of a fabric with these switches, or where it has none with these ports of hosts.
    #[must_use]
    pub fn of_guids(
        switches: impl IntoIterator<Item = u64>,
        host_ports: impl IntoIterator<Item = u64>,
    ) -> Self {
        let of =
            |guids: BTreeSet<u64>| guids.into_iter().filter(|guid| *guid != 0).collect::<BTreeSet<u64>>();
        let switches = of(switches.into_iter().collect());
        if !switches.is_empty() {
            let lowest_guid = switches.first().copied().unwrap_or(0);
            return FabricFingerprint { switch_guids: chosen(switches), lowest_guid, ..Self::default() };
        }
        let host_ports = of(host_ports.into_iter().collect());
        let lowest_guid = host_ports.first().copied().unwrap_or(0);
        FabricFingerprint { host_port_guids: chosen(host_ports), lowest_guid, ..Self::default() }
    }

    /// The GUIDs by which the fabric is known.
    #[must_use]
    pub fn guids(&self) -> &[u64] {
        if self.switch_guids.is_empty() { &self.host_port_guids } else { &self.switch_guids }
    }

    /// Why it can't be one; in words.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let guids = self.switch_guids.len() + self.host_port_guids.len();
        if guids == 0 {
            return Some("it has no GUID of a switch or of a host's port".to_owned());
        }
        if self.switch_guids.len().max(self.host_port_guids.len()) > FINGERPRINT_GUIDS_MAX {
            return Some(format!("it has {guids} GUIDs, and {FINGERPRINT_GUIDS_MAX} are enough"));
        }
        fabric_name_fault(&self.name).filter(|_| !self.name.is_empty())
    }
}

/// Why a text can't be the name of a fabric.
#[must_use]
pub fn fabric_name_fault(name: &str) -> Option<String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > FABRIC_NAME_BYTES_MAX || !name.chars().all(is_usual) {
        let max = FABRIC_NAME_BYTES_MAX;
        return Some(format!(
            "{name:?} can't be the name of a fabric: use 1 to {max} letters, digits, `-`, `_` and `.`"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_of_a_large_fabric_choose_the_same_switches() {
        let one = FabricFingerprint::of_guids((1..=4000).map(|guid| guid << 8), []);
        let other = FabricFingerprint::of_guids((1..=4000).rev().map(|guid| guid << 8), [7]);
        assert_eq!(one, other);
        assert_eq!((one.switch_guids.len(), one.lowest_guid), (FINGERPRINT_GUIDS_MAX, 0x100));
        assert!(CommonGuids::of(one.guids(), other.guids()).is_all());
    }

    #[test]
    fn a_share_of_a_large_fabric_is_known_from_its_sample() {
        let all = FabricFingerprint::of_guids(1..=4000, []);
        let most = FabricFingerprint::of_guids(1..=3000, []);
        let part = FabricFingerprint::of_guids(1..=200, []);
        let more = CommonGuids::of(all.guids(), most.guids());
        assert!(more.is_half() && !more.is_all(), "{more:?}");
        let less = CommonGuids::of(all.guids(), part.guids());
        assert!(!less.is_half() && less.holds_second(), "{less:?}");
        assert_eq!(CommonGuids::of(all.guids(), &[9000, 9001]).common, 0);
    }

    #[test]
    fn half_counts_and_less_does_not() {
        let common = |first: &[u64], second: &[u64]| CommonGuids::of(first, second);
        assert!(common(&[1, 2, 3, 4], &[1, 2]).is_half());
        assert!(!common(&[1, 2, 3, 4, 5], &[1, 2]).is_half());
        assert!(common(&[1, 2, 3, 4, 5], &[1, 2]).holds_second());
        assert!(!common(&[1], &[2]).holds_second());
    }

    #[test]
    fn a_fabric_without_switches_is_known_by_its_hosts() {
        let two = FabricFingerprint::of_guids([], [0x21, 0x11, 0]);
        assert_eq!((two.guids(), two.lowest_guid, two.fault()), (&[0x11, 0x21][..], 0x11, None));
        assert!(FabricFingerprint::default().fault().is_some());
        assert!(FabricFingerprint { name: "a b".to_owned(), ..two }.fault().is_some());
    }
}
