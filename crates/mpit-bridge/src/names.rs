//! What the numbers of one rank's frames mean: reported once per connection, before they are used.

use crate::frame::Name;
use crate::quota::{HeldResource, Quotas, Resource, User};
use std::collections::HashMap;
use std::sync::Arc;
use throughline_sample::admission::PATH_BYTES_MAX;

/// Most names of each kind from one rank: a shim has 1,023 paths, 255 regions and fewer algorithms.
const NAMES_MAX: usize = 1024;
/// What a name takes beside its text: its place in the table and in the heap.
const NAME_BYTES: usize = 48;

/// Names by their numbers; 0 always means none.
#[derive(Debug)]
pub(crate) struct Names {
    regions: HashMap<u16, Box<str>>,
    algorithms: HashMap<u16, Box<str>>,
    /// Of each path its innermost region, and the path around it, whose number is smaller; 0: there is none.
    paths: HashMap<u16, (u16, Box<str>)>,
    /// The bytes of them that count against the user's share.
    held: Option<HeldResource>,
}

/// Why a name was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameError {
    /// The rank has as many as any shim can have, or it names a path around it that there is not.
    TooMany,
    /// All names of his ranks are the user's share.
    OfUser,
    /// His new names came too fast: it has a number in place of its name, so that its calls count all the same.
    TooFast,
}

impl Names {
    /// None yet.
    pub(crate) fn new(quotas: &Arc<Quotas>, user: &User) -> Self {
        // Nothing of it can always be had.
        let held = quotas.hold(user, Resource::NameBytes, 0).ok();
        Self { regions: HashMap::new(), algorithms: HashMap::new(), paths: HashMap::new(), held }
    }

    /// Takes over a name of a region or algorithm.
    pub(crate) fn learn(&mut self, name: &Name, user: &User) -> Result<(), NameError> {
        let (names, number, text, what) = match name {
            Name::Region(number, text) => (&mut self.regions, *number, text, "region"),
            Name::Algorithm(number, text) => (&mut self.algorithms, *number, text, "algorithm"),
            Name::Path(number, text, parent) => return self.learn_path(*number, text, *parent, user),
            Name::Communicator(..) | Name::Setting(..) => return Ok(()),
        };
        let before = names.get(&number);
        if before.is_some_and(|before| **before == **text) {
            return Ok(());
        }
        if before.is_none() && names.len() >= NAMES_MAX {
            return Err(NameError::TooMany);
        }
        // One that replaces another counts in full: no shim does that.
        let held = self.held.as_mut().ok_or(NameError::OfUser)?;
        held.grow(NAME_BYTES + text.len()).map_err(|_| NameError::OfUser)?;
        if held.admit_name(user, text) {
            names.insert(number, text.as_str().into());
            return Ok(());
        }
        names.insert(number, unnamed(what, number)?);
        Err(NameError::TooFast)
    }

    fn learn_path(&mut self, number: u16, region: &str, parent: u16, user: &User) -> Result<(), NameError> {
        let before = self.paths.get(&number);
        if before.is_some_and(|(around, name)| *around == parent && **name == *region) {
            return Ok(());
        }
        // A smaller number that is known: nothing goes in a circle.
        let has_parent = parent == 0 || (parent < number && self.paths.contains_key(&parent));
        if number == 0 || !has_parent || (before.is_none() && self.paths.len() >= NAMES_MAX) {
            return Err(NameError::TooMany);
        }
        let held = self.held.as_mut().ok_or(NameError::OfUser)?;
        held.grow(NAME_BYTES + region.len()).map_err(|_| NameError::OfUser)?;
        self.paths.insert(number, (parent, region.into()));
        // A path is a key of its own: one region within two others is two.
        let Some(path) = self.path(number) else { return Ok(()) };
        if self.held.as_ref().is_some_and(|held| held.admit_name(user, &path)) {
            return Ok(());
        }
        self.paths.insert(number, (0, unnamed("path", number)?));
        Err(NameError::TooFast)
    }

    /// The text of the path of this number: names separated by `/`, in which `/` and `\` have a `\` before them. `None` if it
    /// was not sent, or is longer than the database takes.
    pub(crate) fn path(&self, number: u16) -> Option<String> {
        let mut regions = Vec::new();
        let mut at = number;
        while at != 0 {
            let (parent, region) = self.paths.get(&at)?;
            regions.push(region);
            at = *parent;
        }
        let mut text = String::new();
        for region in regions.into_iter().rev() {
            if !text.is_empty() {
                text.push('/');
            }
            for character in region.chars() {
                if matches!(character, '/' | '\\') {
                    text.push('\\');
                }
                text.push(character);
            }
            if text.len() > PATH_BYTES_MAX {
                return None;
            }
        }
        Some(text).filter(|text| !text.is_empty())
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

/// What stands for a name that came too fast: the same few for everybody.
fn unnamed(what: &str, number: u16) -> Result<Box<str>, NameError> {
    let is_of_shim = usize::from(number) < NAMES_MAX;
    if is_of_shim { Ok(format!("({what} {number})").into()) } else { Err(NameError::TooMany) }
}

fn find(names: &HashMap<u16, Box<str>>, number: u16) -> Option<String> {
    if number == 0 { Some(String::new()) } else { names.get(&number).map(|name| name.to_string()) }
}
