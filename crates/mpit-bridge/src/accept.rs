//! Who may connect: limits for all and for each user.

use crate::status::Reason;
use std::collections::HashMap;

/// All connections of the node.
#[derive(Debug)]
pub(crate) struct Registry {
    limit: usize,
    limit_per_user: usize,
    connections: usize,
    per_user: HashMap<u32, usize>,
}

impl Registry {
    pub(crate) fn new(limit: usize, limit_per_user: usize) -> Self {
        Self { limit, limit_per_user, connections: 0, per_user: HashMap::new() }
    }

    /// Counts a connection in, or says why it may not.
    pub(crate) fn connect(&mut self, uid: u32) -> Result<(), Reason> {
        if self.connections >= self.limit {
            return Err(Reason::TooMany);
        }
        let of_user = self.per_user.entry(uid).or_default();
        if *of_user >= self.limit_per_user {
            return Err(Reason::TooManyOfUser);
        }
        *of_user += 1;
        self.connections += 1;
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, uid: u32) {
        self.connections = self.connections.saturating_sub(1);
        if let Some(of_user) = self.per_user.get_mut(&uid) {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                self.per_user.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_for_all_and_for_each_user() {
        let mut registry = Registry::new(3, 2);
        assert_eq!(registry.connect(1), Ok(()));
        assert_eq!(registry.connect(1), Ok(()));
        assert_eq!(registry.connect(1), Err(Reason::TooManyOfUser));
        assert_eq!(registry.connect(2), Ok(()));
        assert_eq!(registry.connect(3), Err(Reason::TooMany));
        registry.disconnect(1);
        assert_eq!(registry.connect(3), Ok(()));
    }
}
