//! The shape of a fabric for drawing: how far each node is from the hosts, and which switches make up a pod. Pure.

use std::collections::VecDeque;

/// Cables by the places of their ends.
pub type Cables<'a> = &'a [(usize, usize)];

/// What a node is to the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Traffic begins and ends there.
    Host,
    /// Traffic goes through it.
    Between,
    /// It belongs to a switch and has no place of its own.
    Aside,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Links to the nearest host; `None` where none can be reached.
    pub layer: Option<u32>,
    /// Switches that hang together without the topmost layer, and their hosts. `None` in the topmost layer.
    pub pod: Option<u32>,
}

/// Layers, pods and the number of each. `roles` is by node, `order` its place by name: pods are numbered by it.
pub fn places(roles: &[Role], order: &[usize], cables: Cables<'_>) -> (Vec<Place>, u32, u32) {
    let neighbours = neighbours(roles.len(), cables);
    let layers = layers(roles, &neighbours);
    let top = layers.iter().flatten().copied().max().unwrap_or(0);
    let mut places: Vec<Place> = layers.iter().map(|layer| Place { layer: *layer, pod: None }).collect();
    let mut by_name: Vec<usize> = (0..places.len()).collect();
    by_name.sort_by_key(|node| order.get(*node));
    // Where every switch has hosts there is no layer above: each switch is a pod of its own.
    let is_inner = |node: usize| layers[node].is_some_and(|layer| layer > 0 && (layer < top || top == 1));
    let mut pods = 0;
    for start in by_name.iter().copied().filter(|node| is_inner(*node)) {
        if places[start].pod.is_some() {
            continue;
        }
        let mut waiting = vec![start];
        while let Some(node) = waiting.pop() {
            if places[node].pod.is_some() {
                continue;
            }
            places[node].pod = Some(pods);
            if top > 1 {
                waiting.extend(neighbours[node].iter().copied().filter(|next| is_inner(*next)));
            }
        }
        pods += 1;
    }
    for node in 0..places.len() {
        if layers[node] == Some(0) {
            places[node].pod = neighbours[node].iter().find_map(|next| places[*next].pod);
        }
    }
    (places, if roles.contains(&Role::Host) { top + 1 } else { 0 }, pods)
}

fn neighbours(nodes: usize, cables: Cables<'_>) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); nodes];
    for (a, b) in cables {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    neighbours
}

/// Links to the nearest host. Ways do not lead through hosts.
fn layers(roles: &[Role], neighbours: &[Vec<usize>]) -> Vec<Option<u32>> {
    let mut layers: Vec<Option<u32>> = roles.iter().map(|role| (*role == Role::Host).then_some(0)).collect();
    let mut waiting: VecDeque<usize> = (0..roles.len()).filter(|node| roles[*node] == Role::Host).collect();
    while let Some(node) = waiting.pop_front() {
        let next = layers[node].map_or(0, |layer| layer + 1);
        for neighbour in &neighbours[node] {
            if layers[*neighbour].is_none() && roles[*neighbour] == Role::Between {
                layers[*neighbour] = Some(next);
                waiting.push_back(*neighbour);
            }
        }
    }
    layers
}

/// A name in pieces, so that `n2` stands before `n10`.
pub fn natural(name: &str) -> Vec<(String, u64)> {
    let mut pieces = vec![(String::new(), 0u64)];
    let mut was_digit = false;
    for character in name.chars() {
        let digit = character.to_digit(10).map(u64::from);
        if digit.is_none() && was_digit {
            pieces.push((String::new(), 0));
        }
        was_digit = digit.is_some();
        if let Some((text, number)) = pieces.last_mut() {
            match digit {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit),
                None => text.push(character),
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers() {
        let mut names = ["n10", "n2", "n2-b", "m", "n2-a10", "n2-a9"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["m", "n2", "n2-a9", "n2-a10", "n2-b", "n10"]);
    }

    /// Two pods of two leaves and a spine each under one core; leaf i is node i, hosts come last.
    #[test]
    fn a_fat_tree_of_three_layers_has_its_pods() {
        let (leaves, spines, core) = ([0, 1, 2, 3], [4, 5], 6);
        let mut cables = vec![(0, 4), (1, 4), (2, 5), (3, 5), (4, core), (5, core)];
        let hosts: Vec<usize> = (7..15).collect();
        cables.extend(hosts.iter().map(|host| (*host, (host - 7) / 2)));
        let roles: Vec<Role> =
            (0..15).map(|node| if node >= 7 { Role::Host } else { Role::Between }).collect();
        let order: Vec<usize> = (0..15).collect();
        let (places, layers, pods) = places(&roles, &order, &cables);
        assert_eq!((layers, pods), (4, 2));
        assert_eq!(leaves.map(|leaf| places[leaf].layer), [Some(1); 4]);
        assert_eq!(leaves.map(|leaf| places[leaf].pod), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(
            spines.map(|spine| (places[spine].layer, places[spine].pod)),
            [(Some(2), Some(0)), (Some(2), Some(1))]
        );
        assert_eq!(places[core], Place { layer: Some(3), pod: None });
        assert_eq!((places[7].layer, places[7].pod, places[14].pod), (Some(0), Some(0), Some(1)));
    }

    #[test]
    fn leaves_under_spines_and_switches_alone_are_pods_of_their_own() {
        use Role::{Aside, Between, Host};
        // Leaves 0 and 1 under spine 2, hosts 3 and 4; node 5 is at the spine and belongs to it.
        let roles = [Between, Between, Between, Host, Host, Aside];
        let order: Vec<usize> = (0..6).rev().collect();
        let (two, layers, pods) = places(&roles, &order, &[(0, 2), (1, 2), (3, 0), (4, 1), (5, 2)]);
        assert_eq!((layers, pods), (3, 2));
        // By name, which runs backwards here.
        assert_eq!([two[0].pod, two[1].pod, two[2].pod, two[3].pod], [Some(1), Some(0), None, Some(1)]);
        assert_eq!(two[5], Place::default());
        let (ring, layers, pods) =
            places(&[Between, Between, Host, Host], &[0, 1, 2, 3], &[(0, 1), (2, 0), (3, 1)]);
        assert_eq!((layers, pods, ring[0].pod, ring[1].pod, ring[3].pod), (2, 2, Some(0), Some(1), Some(1)));
        assert_eq!(places(&[Between], &[0], &[]).1, 0);
    }
}
