//! Which performance variables the agent takes: those that it requested from its ranks. A shim that sends others did not
//! heed WELCOME, or is none.

use std::collections::HashSet;
use std::sync::Arc;

/// Most variables of one rank where the agent names none: as many as a shim reads.
const VARIABLES_MAX: usize = 256;
/// Elements of one variable: a shim leaves longer arrays out.
pub(crate) const ELEMENTS_MAX: u32 = 65_536;

/// The list, as in WELCOME: names, a star at the end of one stands for any rest.
#[derive(Clone, Debug)]
pub(crate) struct AllowList(Option<Arc<[String]>>);

impl AllowList {
    /// `None` leaves the choice to shims.
    pub fn new(names: Option<&[String]>) -> Self {
        Self(names.map(Into::into))
    }

    fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| {
            names.iter().any(|listed| match listed.strip_suffix('*') {
                Some(front) => name.starts_with(front),
                None => listed == name,
            })
        })
    }
}

/// The variables of one rank.
#[derive(Debug)]
pub(crate) struct Variables {
    list: AllowList,
    /// Names that were taken, so that a list of patterns is looked through once for each.
    taken: HashSet<Box<str>>,
}

impl Variables {
    pub fn new(list: AllowList) -> Self {
        Self { list, taken: HashSet::new() }
    }

    /// Whether readings of this variable are taken.
    pub fn admit(&mut self, name: &str) -> bool {
        if self.taken.contains(name) {
            return true;
        }
        let is_taken = self.taken.len() < VARIABLES_MAX && self.list.has(name);
        if is_taken {
            self.taken.insert(name.into());
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed() {
        let listed = ["queue_length".to_owned(), "mv2_coll_*".to_owned()];
        let mut variables = Variables::new(AllowList::new(Some(&listed)));
        assert!(variables.admit("queue_length") && variables.admit("mv2_coll_bcast_binomial"));
        assert!(!variables.admit("queue_length_2") && !variables.admit("x"));
        assert!(!Variables::new(AllowList::new(Some(&[]))).admit("x"));
        let mut any = Variables::new(AllowList::new(None));
        assert_eq!((0..1000).filter(|number| any.admit(&format!("v{number}"))).count(), VARIABLES_MAX);
    }
}
