//! Roles query and upkeep: HTTP, retention.
