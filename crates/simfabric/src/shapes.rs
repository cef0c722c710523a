//! Generated nets besides fat trees: tori and two hosts back to back, in `ibnetdiscover`'s text format.

use std::fmt::Write;

/// Most switches of a torus, so that a slip of the finger does not fill the memory.
const MAX_SWITCHES: usize = 4096;
/// First GUIDs of switches and hosts.
const SWITCH_GUIDS: u64 = 0x0002_c902_0000_0000;
const HOST_GUIDS: u64 = 0x0002_c903_0000_0000;

/// Two hosts and one cable.
#[must_use]
pub fn back_to_back(link: &str) -> String {
    let mut net = String::new();
    for (host, other) in [(1, 2), (2, 1)] {
        host_node(&mut net, host, &format!("H-{:016x}", HOST_GUIDS + 16 * other), 1, link);
    }
    net
}

/// A torus of switches: two cables in each direction of size over 2, one where it is 2; so many hosts at each.
///
/// # Errors
/// Sizes that make no torus.
pub fn torus(sizes: &[usize], hosts: usize, link: &str) -> Result<String, String> {
    let switches: usize = sizes.iter().product();
    if sizes.is_empty() || sizes.contains(&0) || switches > MAX_SWITCHES {
        return Err(format!("a torus has from 1 to {MAX_SWITCHES} switches"));
    }
    let ports = 2 * sizes.len() + hosts;
    if ports > 254 {
        return Err("a switch has at most 254 ports".to_owned());
    }
    let id = |switch: usize| format!("S-{:016x}", SWITCH_GUIDS + 16 * (switch as u64 + 1));
    let mut net = String::new();
    for switch in 0..switches {
        let guid = SWITCH_GUIDS + 16 * (switch as u64 + 1);
        // Writing to a String can't fail.
        let _ = writeln!(net, "vendid=0x2c9\ndevid=0xcf08\nsysimgguid={guid:#x}\nswitchguid={guid:#x}");
        let place = coordinates(switch, sizes);
        let name = place.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
        let _ = writeln!(net, "Switch\t{ports} \"{}\"\t\t# \"torus-{name}\"", id(switch));
        let mut stride = 1;
        for (axis, size) in sizes.iter().enumerate() {
            let step = |by: usize| switch - place[axis] * stride + (place[axis] + by) % size * stride;
            let (up, down) = (2 * axis + 1, 2 * axis + 2);
            if *size > 2 || (*size == 2 && place[axis] == 0) {
                let _ = writeln!(net, "[{up}]\t\"{}\"[{down}]\t\t# lid 0 {link}", id(step(1)));
            }
            if *size > 2 || (*size == 2 && place[axis] == 1) {
                let _ = writeln!(net, "[{down}]\t\"{}\"[{up}]\t\t# lid 0 {link}", id(step(size - 1)));
            }
            stride *= size;
        }
        for host in 0..hosts {
            let guid = HOST_GUIDS + 16 * ((switch * hosts + host) as u64 + 1);
            let port = 2 * sizes.len() + 1 + host;
            let _ = writeln!(net, "[{port}]\t\"H-{guid:016x}\"[1]\t\t# lid 0 {link}");
        }
        net.push('\n');
    }
    for host in 0..switches * hosts {
        let port = 2 * sizes.len() + 1 + host % hosts;
        host_node(&mut net, host as u64 + 1, &id(host / hosts), port, link);
    }
    Ok(net)
}

fn coordinates(mut switch: usize, sizes: &[usize]) -> Vec<usize> {
    sizes
        .iter()
        .map(|size| {
            let place = switch % size;
            switch /= size;
            place
        })
        .collect()
}

fn host_node(net: &mut String, number: u64, neighbour: &str, port: usize, link: &str) {
    let guid = HOST_GUIDS + 16 * number;
    // Writing to a String can't fail.
    let _ = writeln!(net, "vendid=0x2c9\ndevid=0x1017\nsysimgguid={guid:#x}\ncaguid={guid:#x}");
    let _ = writeln!(net, "Ca\t1 \"H-{guid:016x}\"\t\t# \"node{number:04} mlx5_0\"");
    let _ = writeln!(net, "[1]({:x}) \t\"{neighbour}\"[{port}]\t\t# lid 0 lmc 0 lid 0 {link}\n", guid + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::End;
    use crate::{forwarding, manager, net};

    #[test]
    fn everybody_reaches_everybody() {
        let nets = [
            (torus(&[4, 3], 2, "4xHDR").unwrap(), 24, 2 * 24 + 2 * 24),
            (torus(&[2, 2, 2], 1, "4xEDR").unwrap(), 8, 24 + 16),
            (torus(&[1, 5], 1, "2xNDR").unwrap(), 5, 10 + 10),
            (back_to_back("4xNDR"), 2, 2),
        ];
        for (text, hosts, cabled) in nets {
            let mut fabric = net::read(&text).unwrap();
            let ports = fabric.nodes.iter().flat_map(|node| &node.ports);
            assert_eq!(ports.filter(|port| port.peer.is_some()).count(), cabled);
            let ends: Vec<End> = (0..fabric.nodes.len())
                .filter(|node| !fabric.nodes[*node].is_switch())
                .map(|node| End { node, port: 1 })
                .collect();
            assert_eq!(ends.len(), hosts);
            fabric.manager = ends.first().copied();
            manager::configure(&mut fabric);
            for from in &ends {
                for to in &ends {
                    let lid = fabric.port(*to).unwrap().lid;
                    assert_eq!(forwarding::by_lid(&fabric, *from, lid), Some(*to));
                }
            }
        }
        assert!(torus(&[100, 100], 1, "4xEDR").is_err());
    }
}
