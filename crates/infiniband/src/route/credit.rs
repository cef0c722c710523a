//! Which links wait for which: a packet that came in by one link waits there for a buffer behind the next. A cycle
//! of such links can block for good (a credit loop). Pure.
//!
//! Links are looked at as if they had one virtual lane. Routing engines that separate lanes (lash, nue,
//! torus-2QoS, dfsssp) have cycles here that their lanes break: `lanes` judges a cycle that is found here.

use super::wiring::{PortNeighbour, Wiring};
use crate::topology::PortEnd;

/// Output ports of a switch, one bit each.
type Ports = [u64; 4];

/// Per channel into a switch, the output ports that packets go on by.
pub(super) struct Dependencies {
    next: Vec<Ports>,
}

/// How far the search is with a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

impl Dependencies {
    pub fn new(channels: usize) -> Dependencies {
        Dependencies { next: vec![[0; 4]; channels] }
    }

    /// Packets that came by `channel` leave by `port` of the switch it leads to.
    pub fn note(&mut self, channel: u32, port: u8) {
        self.next[channel as usize][usize::from(port / 64)] |= 1 << (port % 64);
    }

    pub fn add(&mut self, other: &Dependencies) {
        for (to, from) in self.next.iter_mut().zip(&other.next) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
        }
    }

    /// One cycle, if there is any: the sending end of each link.
    pub fn cycle(&self, wiring: &Wiring<'_>) -> Option<Vec<PortEnd>> {
        let mut marks = vec![Mark::New; self.next.len()];
        for start in 0..self.next.len() {
            if marks[start] != Mark::New {
                continue;
            }
            marks[start] = Mark::Open;
            let mut path = vec![(start, self.next[start])];
            while let Some((channel, rest)) = path.last_mut() {
                let here = *channel;
                let Some(port) = take_lowest(rest) else {
                    marks[here] = Mark::Done;
                    path.pop();
                    continue;
                };
                let PortNeighbour::Switch(switch) = wiring.behind(here) else { continue };
                let Some(next) = wiring.channel(wiring.switches[switch as usize], port) else { continue };
                match marks[next] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[next] = Mark::Open;
                        path.push((next, self.next[next]));
                    }
                    Mark::Open => {
                        let from = path.iter().position(|(channel, _)| *channel == next).unwrap_or(0);
                        return Some(
                            path[from..].iter().map(|(channel, _)| wiring.port_of(*channel)).collect(),
                        );
                    }
                }
            }
        }
        None
    }
}

/// Takes the lowest port out of a set.
fn take_lowest(ports: &mut Ports) -> Option<u8> {
    let (word, bits) = ports.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
    let bit = bits.trailing_zeros();
    *bits &= *bits - 1;
    Some((word as u32 * 64 + bit) as u8)
}
