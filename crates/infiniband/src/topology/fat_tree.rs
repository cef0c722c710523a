//! Generates fat trees in the text format of `ibnetdiscover`, which ibsim reads. GUIDs and names are stable.

use std::fmt::Write;
use throughline_sample::Guid;

/// Two levels of switches: hosts at leaf switches, leaf switches at spine switches.
///
/// With at least as many uplinks per leaf as there are spines, each leaf reaches each spine. With fewer, a leaf's
/// uplinks go to a scattered choice of spines, equally used, so that any two leaves are a few hops apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Hosts, one single-port adapter each, spread evenly over the leaves.
    pub hosts: usize,
    /// Leaf switches.
    pub leafs: usize,
    /// Spine switches.
    pub spines: usize,
    /// Cables from each leaf to the spines.
    pub uplinks: usize,
    /// Ports of each switch.
    pub ports: usize,
    /// Width and speed of a host's link, as ibnetdiscover writes it: `4xEDR`.
    pub host_link: &'static str,
    /// Width and speed of a link between switches.
    pub switch_link: &'static str,
}

/// A fat tree that can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatTreeError {
    /// No leaf, no spine or no uplink.
    #[error("a fat tree needs at least one leaf, one spine and one uplink")]
    Empty,
    /// Too many ports needed.
    #[error("{kind} switches need {needed} ports and have {ports}")]
    Ports {
        /// `leaf` or `spine`.
        kind: &'static str,
        /// Ports that the busiest one needs.
        needed: usize,
        /// Ports that it has.
        ports: usize,
    },
}

/// First switch GUID.
const SWITCH_GUIDS: u64 = 0x0002_c902_0000_0000;
/// First adapter GUID; each adapter takes 16, its port's GUID is the next one.
const HOST_GUIDS: u64 = 0x0002_c903_0000_0000;
/// GUIDs per adapter.
const GUIDS_PER_HOST: u64 = 16;

impl FatTree {
    /// 146 hosts and 20 switches.
    pub const HOSTS_146: FatTree = FatTree::edr(146, 14, 6, 12);
    /// 1,428 hosts and 114 switches, the size in the PEARC paper on OSU INAM.
    pub const HOSTS_1428: FatTree = FatTree::edr(1428, 80, 34, 12);
    /// 8,008 hosts and 542 switches.
    pub const HOSTS_8008: FatTree = FatTree::edr(8008, 445, 97, 7);

    const fn edr(hosts: usize, leafs: usize, spines: usize, uplinks: usize) -> FatTree {
        FatTree { hosts, leafs, spines, uplinks, ports: 36, host_link: "4xEDR", switch_link: "4xEDR" }
    }

    /// Nodes in all.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.hosts + self.switches()
    }

    /// Switches in all: leaves first, then spines.
    #[must_use]
    pub const fn switches(&self) -> usize {
        self.leafs + self.spines
    }

    /// Node GUID of the adapter of host `index` (from 0).
    #[must_use]
    pub const fn host_guid(index: usize) -> Guid {
        Guid(HOST_GUIDS + GUIDS_PER_HOST * (index as u64 + 1))
    }

    /// Port GUID of the adapter of host `index`.
    #[must_use]
    pub const fn host_port_guid(index: usize) -> Guid {
        Guid(FatTree::host_guid(index).0 + 1)
    }

    /// GUID of switch `index`: leaves from 0, spines from `leafs`.
    #[must_use]
    pub const fn switch_guid(index: usize) -> Guid {
        Guid(SWITCH_GUIDS + 16 * (index as u64 + 1))
    }

    /// Name of host `index`: `node0001` for the first.
    #[must_use]
    pub fn host_name(index: usize) -> String {
        format!("node{:04}", index + 1)
    }

    /// NodeDescription of the adapter of host `index`: `node0001 mlx5_0` for the first.
    #[must_use]
    pub fn host_description(index: usize) -> String {
        format!("{} mlx5_0", FatTree::host_name(index))
    }

    /// NodeDescription of switch `index`.
    #[must_use]
    pub fn switch_description(&self, index: usize) -> String {
        match index.checked_sub(self.leafs) {
            None => format!("leaf{:03}", index + 1),
            Some(spine) => format!("spine{:03}", spine + 1),
        }
    }

    /// What ibsim knows host `index` by, for `SIM_HOST` and its console: `H-0002c90300000010` for the first.
    #[must_use]
    pub fn host_id(index: usize) -> String {
        format!("H-{:016x}", FatTree::host_guid(index).0)
    }

    /// What ibsim knows switch `index` by.
    #[must_use]
    pub fn switch_id(index: usize) -> String {
        format!("S-{:016x}", FatTree::switch_guid(index).0)
    }

    /// Leaf and its port of host `index`.
    #[must_use]
    pub const fn host_at(&self, index: usize) -> (usize, usize) {
        // Evenly: host i of H goes to leaf i*L/H.
        let leaf = index * self.leafs / self.hosts;
        let first = (leaf * self.hosts).div_ceil(self.leafs);
        (leaf, index - first + 1)
    }

    /// The network as text in `ibnetdiscover`'s format.
    ///
    /// # Errors
    /// [`FatTreeError`] when a switch would need more ports than it has.
    pub fn to_net(&self) -> Result<String, FatTreeError> {
        if self.leafs == 0 || self.spines == 0 || self.uplinks == 0 {
            return Err(FatTreeError::Empty);
        }
        let mut ports: Vec<Vec<Option<End>>> = vec![vec![None; self.ports + 1]; self.switches()];
        let mut used = vec![0; self.switches()];
        for host in 0..self.hosts {
            let (leaf, port) = self.host_at(host);
            self.plug(&mut ports, leaf, port, End::Host(host))?;
            used[leaf] = port;
        }
        for leaf in 0..self.leafs {
            for spine in self.spines_of(leaf, &used) {
                let spine = self.leafs + spine;
                used[leaf] += 1;
                used[spine] += 1;
                let (leaf_port, spine_port) = (used[leaf], used[spine]);
                self.plug(&mut ports, leaf, leaf_port, End::Switch(spine, spine_port))?;
                self.plug(&mut ports, spine, spine_port, End::Switch(leaf, leaf_port))?;
            }
        }
        Ok(self.write(&ports))
    }

    /// Spines of a leaf's uplinks: the least used ones, none twice before each was taken once; among equally
    /// used ones a scattered choice, so that a large tree with few uplinks still has short ways.
    fn spines_of(&self, leaf: usize, used: &[usize]) -> Vec<usize> {
        let mut taken = vec![0usize; self.spines];
        (0..self.uplinks)
            .map(|_| {
                let order = |spine: &usize| {
                    (taken[*spine], used[self.leafs + spine] + taken[*spine], scatter(leaf, *spine))
                };
                let spine = (0..self.spines).min_by_key(order).unwrap_or(0);
                taken[spine] += 1;
                spine
            })
            .collect()
    }

    fn plug(
        &self,
        ports: &mut [Vec<Option<End>>],
        switch: usize,
        port: usize,
        end: End,
    ) -> Result<(), FatTreeError> {
        let kind = if switch < self.leafs { "leaf" } else { "spine" };
        let place = ports[switch].get_mut(port);
        let place = place.ok_or(FatTreeError::Ports { kind, needed: port, ports: self.ports })?;
        *place = Some(end);
        Ok(())
    }

    fn write(&self, ports: &[Vec<Option<End>>]) -> String {
        let mut net = String::from("# Fat tree, generated.\n\n");
        // Writing to a String can't fail.
        for (index, ends) in ports.iter().enumerate() {
            let guid = FatTree::switch_guid(index).0;
            let _ = writeln!(
                net,
                "vendid=0x2c9\ndevid=0xcf08\nsysimgguid={guid:#x}\nswitchguid={guid:#x}({guid:x})"
            );
            let description = self.switch_description(index);
            let id = FatTree::switch_id(index);
            let _ = writeln!(
                net,
                "Switch\t{} \"{id}\"\t\t# \"{description}\" enhanced port 0 lid 0 lmc 0",
                self.ports
            );
            for (port, end) in ends.iter().enumerate() {
                match end {
                    Some(End::Host(host)) => {
                        let (id, guid) = (FatTree::host_id(*host), FatTree::host_port_guid(*host).0);
                        let (description, link) = (FatTree::host_description(*host), self.host_link);
                        let _ = writeln!(
                            net,
                            "[{port}]\t\"{id}\"[1]({guid:x}) \t\t# \"{description}\" lid 0 {link}"
                        );
                    }
                    Some(End::Switch(switch, remote)) => {
                        let id = FatTree::switch_id(*switch);
                        let (description, link) = (self.switch_description(*switch), self.switch_link);
                        let _ =
                            writeln!(net, "[{port}]\t\"{id}\"[{remote}]\t\t# \"{description}\" lid 0 {link}");
                    }
                    None => {}
                }
            }
            net.push('\n');
        }
        for host in 0..self.hosts {
            let (guid, port_guid) = (FatTree::host_guid(host).0, FatTree::host_port_guid(host).0);
            let _ = writeln!(net, "vendid=0x2c9\ndevid=0x1017\nsysimgguid={guid:#x}\ncaguid={guid:#x}");
            let (id, description) = (FatTree::host_id(host), FatTree::host_description(host));
            let _ = writeln!(net, "Ca\t1 \"{id}\"\t\t# \"{description}\"");
            let (leaf, port) = self.host_at(host);
            let (switch, leaf) = (FatTree::switch_id(leaf), self.switch_description(leaf));
            let link = self.host_link;
            let _ = writeln!(
                net,
                "[1]({port_guid:x}) \t\"{switch}\"[{port}]\t\t# lid 0 lmc 0 \"{leaf}\" lid 0 {link}\n"
            );
        }
        net
    }
}

/// A number for a leaf and a spine that looks random and is always the same (the finaliser of SplitMix64).
const fn scatter(leaf: usize, spine: usize) -> u64 {
    let mut mixed = ((leaf as u64) << 32 | spine as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// What a switch port is cabled to.
#[derive(Clone, Copy)]
enum End {
    Host(usize),
    /// Switch and its port.
    Switch(usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_named_sizes_can_be_built() {
        for tree in [FatTree::HOSTS_146, FatTree::HOSTS_1428, FatTree::HOSTS_8008] {
            let net = tree.to_net().unwrap();
            assert_eq!(net.matches("\nSwitch\t").count(), tree.switches());
            assert_eq!(net.matches("\nCa\t1 ").count(), tree.hosts);
            assert_eq!(net.lines().filter(|line| line.starts_with("[1](")).count(), tree.hosts);
        }
        assert_eq!(FatTree::HOSTS_146.nodes(), 166);
    }

    #[test]
    fn each_host_has_a_port_of_its_own() {
        let tree = FatTree { hosts: 10, leafs: 4, ..FatTree::HOSTS_146 };
        let mut seen = HashMap::new();
        for host in 0..tree.hosts {
            let (leaf, port) = tree.host_at(host);
            assert!(leaf < tree.leafs && port >= 1);
            assert_eq!(seen.insert((leaf, port), host), None);
        }
    }

    #[test]
    fn too_few_ports_are_told() {
        let tree = FatTree { hosts: 100, leafs: 2, ..FatTree::HOSTS_146 };
        assert!(matches!(tree.to_net(), Err(FatTreeError::Ports { kind: "leaf", .. })));
        let none = FatTree { leafs: 0, ..tree };
        assert_eq!(none.to_net(), Err(FatTreeError::Empty));
    }
}
