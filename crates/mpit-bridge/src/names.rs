//! What the numbers of one rank's frames mean: reported once per connection, before they are used.

use crate::frame::Name;
use crate::quota::{Held, Quotas, Resource, User};
use std::collections::HashMap;
use std::sync::Arc;

/// Most names of each kind from one rank: a shim has 256 regions and fewer algorithms.
const NAMES_MAX: usize = 1024;
/// What a name takes beside its text: its place in the table and in the heap.
const NAME_BYTES: usize = 48;

/// Names by their numbers; 0 always means none.
#[derive(Debug)]
pub(crate) struct Names {
    regions: HashMap<u16, Box<str>>,
    algorithms: HashMap<u16, Box<str>>,
    /// The bytes of them that count against the user's share.
    held: Option<Held>,
}

/// Why a name was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The rank has as many as any shim can have.
    TooMany,
    /// All names of his ranks are the user's share.
    OfUser,
}

impl Names {
    /// None yet.
    pub(crate) fn new(quotas: &Arc<Quotas>, user: &User) -> Self {
        // Nothing of it can always be had.
        let held = quotas.hold(user, Resource::NameBytes, 0).ok();
        Self { regions: HashMap::new(), algorithms: HashMap::new(), held }
    }

    /// Takes over a name of a region or algorithm.
    pub(crate) fn learn(&mut self, name: &Name) -> Result<(), Refused> {
        let (names, number, text) = match name {
            Name::Region(number, text) => (&mut self.regions, *number, text),
            Name::Algorithm(number, text) => (&mut self.algorithms, *number, text),
            Name::Communicator(..) | Name::Setting(..) => return Ok(()),
        };
        let before = names.get(&number);
        if before.is_some_and(|before| **before == **text) {
            return Ok(());
        }
        if before.is_none() && names.len() >= NAMES_MAX {
            return Err(Refused::TooMany);
        }
        // One that replaces another counts in full: no shim does that.
        let held = self.held.as_mut().ok_or(Refused::OfUser)?;
        held.grow(NAME_BYTES + text.len()).map_err(|_| Refused::OfUser)?;
        names.insert(number, text.as_str().into());
        Ok(())
    }

    /// The region of this number; `None` if none was sent.
    pub(crate) fn region(&self, number: u16) -> Option<String> {
        find(&self.regions, number)
    }

    /// The algorithm of this number; `None` if none was sent.
    pub(crate) fn algorithm(&self, number: u16) -> Option<String> {
        find(&self.algorithms, number)
    }
}

fn find(names: &HashMap<u16, Box<str>>, number: u16) -> Option<String> {
    if number == 0 { Some(String::new()) } else { names.get(&number).map(|name| name.to_string()) }
}
