//! All flows with the links that they use or may use, as the fit works on them.
//!
//! Flows between the same ports move alike, so they are fitted as one bundle, by class of kind and error. A bundle whose hosts
//! have several ports has a branch for each pair of ports; others have one. A branch's links are certain, but where a stage
//! has several: all branches that may use the same set of links share its parts, as nothing distinguishes them.

use super::{Contributor, Flow, Kind};
use crate::network::{Link, Path, PathStage, Routes};
use std::collections::HashMap;
use std::ops::Range;

/// Flows of one kind and error between the same hosts.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub kind: Kind,
    /// As reported.
    pub prior: f64,
    /// As fitted.
    pub bytes: f64,
    pub low: f64,
    pub high: f64,
    /// The flows, in [`Model::flows`]; none for what nobody reported.
    pub flows: Range<u32>,
    /// Who sent it, where nobody reported it: index of a port.
    pub sender: u32,
}

/// All traffic between two hosts, or what nobody reported between two ports.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub classes: Range<u32>,
    pub branches: Range<u32>,
    /// Sum of the classes.
    pub bytes: f64,
}

/// A bundle's traffic between two ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub bundle: u32,
    /// Part of the bundle's bytes.
    pub weight: f64,
    /// Those bytes.
    pub bytes: f64,
}

/// A set of links; some branches use any of them, in unknown parts.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub links: Vec<u32>,
    /// By link; they add up to 1.
    pub parts: Vec<f64>,
    pub branches: Vec<u32>,
    /// Of all branches.
    pub bytes: f64,
}

/// Lists by link, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct ByLink<T> {
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> ByLink<T> {
    fn new(links: usize, pairs: &[(u32, T)]) -> Self {
        let mut first = vec![0_u32; links + 1];
        for (link, _) in pairs {
            first[*link as usize + 1] += 1;
        }
        for link in 0..links {
            first[link + 1] += first[link];
        }
        let mut next = first.clone();
        let mut items: Vec<T> = pairs.first().map_or_else(Vec::new, |pair| vec![pair.1; pairs.len()]);
        for (link, item) in pairs {
            let place = &mut next[*link as usize];
            items[*place as usize] = *item;
            *place += 1;
        }
        Self { first, items }
    }

    pub(super) fn of(&self, link: usize) -> &[T] {
        &self.items[self.first[link] as usize..self.first[link + 1] as usize]
    }
}

#[derive(Default)]
pub(super) struct Model<'a> {
    pub flows: Vec<&'a Flow>,
    pub classes: Vec<Class>,
    pub bundles: Vec<Bundle>,
    pub branches: Vec<Branch>,
    pub choices: Vec<Choice>,
    /// Branches that certainly use a link.
    pub certain: ByLink<u32>,
    /// Choices that have a link, and its place in them.
    pub chosen: ByLink<(u32, u32)>,
    uses: Vec<(u32, u32)>,
    known_choices: HashMap<Vec<Link>, u32>,
}

impl<'a> Model<'a> {
    /// Reported flows whose way is known.
    pub(super) fn of(routes: &impl Routes, flows: &'a [Flow], links: usize) -> Self {
        let mut model = Self::default();
        let ports = routes.ports().len();
        let is_usable =
            |flow: &&Flow| flow.bytes > 0.0 && flow.from < ports && flow.to < ports && flow.from != flow.to;
        let key = |flow: &Flow| (flow.from, flow.to, flow.kind, flow.error.to_bits());
        let mut ordered: Vec<&Flow> = flows.iter().filter(is_usable).collect();
        ordered.sort_unstable_by_key(|flow| (key(flow), flow.contributor));
        for pair in ordered.chunk_by(|one, other| (one.from, one.to) == (other.from, other.to)) {
            let paths = ways(routes, pair[0].from, pair[0].to, links);
            if paths.is_empty() {
                continue;
            }
            let first = as_number(model.classes.len());
            for class in pair.chunk_by(|one, other| key(one) == key(other)) {
                let bytes: f64 = class.iter().map(|flow| flow.bytes).sum();
                let (low, high) = (bytes * (1.0 - class[0].error).max(0.0), bytes * (1.0 + class[0].error));
                let place = as_number(model.flows.len());
                model.flows.extend_from_slice(class);
                let flows = place..as_number(model.flows.len());
                model.classes.push(Class {
                    kind: class[0].kind,
                    prior: bytes,
                    bytes,
                    low,
                    high,
                    flows,
                    sender: 0,
                });
            }
            model.bundle(first, &paths);
        }
        model.arrange(links);
        model
    }

    /// Adds what nobody reported: sending port, bytes, at most so many, and its way.
    pub(super) fn add_unreported(&mut self, sender: usize, bytes: f64, most: f64, path: &Path) {
        let first = as_number(self.classes.len());
        let sender = as_number(sender);
        let class =
            Class { kind: Kind::Unreported, prior: bytes, bytes, low: 0.0, high: most, flows: 0..0, sender };
        self.classes.push(class);
        self.bundle(first, std::slice::from_ref(path));
    }

    fn bundle(&mut self, first_class: u32, paths: &[Path]) {
        let (bundle, first) = (as_number(self.bundles.len()), as_number(self.branches.len()));
        let classes = first_class..as_number(self.classes.len());
        let bytes: f64 = self.classes[first_class as usize..].iter().map(|class| class.bytes).sum();
        for path in paths {
            let branch = as_number(self.branches.len());
            let weight = 1.0 / paths.len() as f64;
            self.branches.push(Branch { bundle, weight, bytes: bytes * weight });
            for stage in &path.0 {
                match stage.links() {
                    [] => {}
                    [link] => self.uses.push((link.0, branch)),
                    links => self.choose(links, branch),
                }
            }
        }
        self.bundles.push(Bundle { classes, branches: first..as_number(self.branches.len()), bytes });
    }

    fn choose(&mut self, links: &[Link], branch: u32) {
        let number = match self.known_choices.get(links) {
            Some(number) => *number,
            None => {
                let number = as_number(self.choices.len());
                let parts = vec![1.0 / links.len() as f64; links.len()];
                let links_of = links.iter().map(|link| link.0).collect();
                self.choices.push(Choice { links: links_of, parts, branches: Vec::new(), bytes: 0.0 });
                self.known_choices.insert(links.to_vec(), number);
                number
            }
        };
        self.choices[number as usize].branches.push(branch);
    }

    /// Lists by link, after all was added.
    pub(super) fn arrange(&mut self, links: usize) {
        self.certain = ByLink::new(links, &self.uses);
        let mut chosen = Vec::new();
        for (number, choice) in self.choices.iter().enumerate() {
            let of = choice.links.iter().enumerate();
            chosen.extend(of.map(|(place, link)| (*link, (as_number(number), as_number(place)))));
        }
        self.chosen = ByLink::new(links, &chosen);
        self.sum_choices();
    }

    pub(super) fn sum_choices(&mut self) {
        let Self { choices, branches, .. } = self;
        for choice in choices {
            choice.bytes = choice.branches.iter().map(|branch| branches[*branch as usize].bytes).sum();
        }
    }

    /// How often branches certainly use a link, all together.
    pub(super) fn uses(&self) -> usize {
        self.uses.len()
    }

    /// Bytes on a link as the flows are now.
    pub(super) fn sum(&self, link: usize) -> f64 {
        let certain = self.certain.of(link).iter().map(|branch| self.branches[*branch as usize].bytes);
        let chosen = self.chosen.of(link).iter().map(|(choice, place)| {
            let choice = &self.choices[*choice as usize];
            choice.bytes * choice.parts[*place as usize]
        });
        certain.sum::<f64>() + chosen.sum::<f64>()
    }

    /// Who a class's bytes belong to: contributors and their parts.
    pub(super) fn contributors(&self, class: &Class) -> impl Iterator<Item = (Contributor, f64)> {
        let flows = &self.flows[class.flows.start as usize..class.flows.end as usize];
        let prior = class.prior;
        let own = flows.is_empty().then_some((Contributor::Unreported { port: class.sender as usize }, 1.0));
        flows.iter().map(move |flow| (Contributor::Reported(flow.contributor), flow.bytes / prior)).chain(own)
    }
}

/// Ways by all pairs of the hosts' ports. Ways over links that are not there are none.
fn ways(routes: &impl Routes, from: usize, to: usize, links: usize) -> Vec<Path> {
    let (mut ports_from, mut ports_to) = (routes.rails(from), routes.rails(to));
    // Between ports of one host nothing passes the fabric.
    if !ports_from.is_empty() && ports_from.contains(&to) {
        return Vec::new();
    }
    let (own_from, own_to) = ([from], [to]);
    if ports_from.is_empty() {
        ports_from = &own_from;
    }
    if ports_to.is_empty() {
        ports_to = &own_to;
    }
    let pairs = ports_from.iter().flat_map(|from| ports_to.iter().map(move |to| (*from, *to)));
    let is_there =
        |path: &Path| path.0.iter().flat_map(PathStage::links).all(|link| (link.0 as usize) < links);
    pairs.filter_map(|(from, to)| routes.path(from, to)).filter(is_there).collect()
}

fn as_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
