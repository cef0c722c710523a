//! What the numbers of one rank's frames mean: told once per connection, before they are used.

use crate::frame::Name;
use std::collections::HashMap;

/// Most names of each kind from one rank: a shim has 256 regions and fewer algorithms.
const NAMES_MAX: usize = 1024;

/// Names by their numbers; 0 always means none.
#[derive(Debug, Default)]
pub(crate) struct Names {
    regions: HashMap<u16, String>,
    algorithms: HashMap<u16, String>,
}

impl Names {
    /// Takes over a name of a region or algorithm; `false` if there are too many.
    pub(crate) fn learn(&mut self, name: &Name) -> bool {
        let (names, number, text) = match name {
            Name::Region(number, text) => (&mut self.regions, *number, text),
            Name::Algorithm(number, text) => (&mut self.algorithms, *number, text),
            Name::Communicator(..) | Name::Setting(..) => return true,
        };
        if names.len() >= NAMES_MAX && !names.contains_key(&number) {
            return false;
        }
        names.insert(number, text.clone());
        true
    }

    /// The region of this number; `None` if nobody told.
    pub(crate) fn region(&self, number: u16) -> Option<String> {
        find(&self.regions, number)
    }

    /// The algorithm of this number; `None` if nobody told.
    pub(crate) fn algorithm(&self, number: u16) -> Option<String> {
        find(&self.algorithms, number)
    }
}

fn find(names: &HashMap<u16, String>, number: u16) -> Option<String> {
    if number == 0 { Some(String::new()) } else { names.get(&number).cloned() }
}
