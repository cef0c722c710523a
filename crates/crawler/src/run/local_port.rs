//! What changed of the crawler's own port from one look to the next, and what that is a reason for. Pure.

use super::trigger::Trigger;
use crate::transport::LocalPort;

/// Logical state Active.
const ACTIVE: u8 = 4;

/// Reasons to look at the subnet that two looks at the port give.
pub fn changes(before: &LocalPort, after: &LocalPort) -> Vec<Trigger> {
    let mut triggers = Vec::new();
    if before.state != after.state {
        let what = match (before.state == ACTIVE, after.state == ACTIVE) {
            (true, _) => "no longer active",
            (_, true) => "active",
            _ => "another state",
        };
        triggers.push(Trigger::LocalPort(what));
    }
    if before.lid != after.lid {
        triggers.push(Trigger::LocalPort("another LID"));
    }
    if before.subnet_prefix != after.subnet_prefix {
        triggers.push(Trigger::LocalPort("another subnet prefix"));
    }
    if before.sm_lid != after.sm_lid {
        triggers.push(Trigger::SmChange);
    }
    triggers
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::Guid;

    fn port() -> LocalPort {
        LocalPort {
            device: "mlx5_0".to_owned(),
            port: 1,
            port_guid: Guid(1),
            lid: 5,
            sm_lid: 1,
            service_level: 0,
            state: ACTIVE,
            subnet_prefix: 0xfe80_0000_0000_0000,
        }
    }

    #[test]
    fn each_change_is_a_reason() {
        assert_eq!(changes(&port(), &port()), []);
        let down = LocalPort { state: 1, ..port() };
        assert_eq!(changes(&port(), &down), [Trigger::LocalPort("no longer active")]);
        assert_eq!(changes(&down, &port()), [Trigger::LocalPort("active")]);
        assert_eq!(changes(&port(), &LocalPort { lid: 6, ..port() }), [Trigger::LocalPort("another LID")]);
        assert_eq!(changes(&port(), &LocalPort { sm_lid: 2, ..port() }), [Trigger::SmChange]);
    }
}
