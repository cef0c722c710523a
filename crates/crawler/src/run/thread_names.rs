//! Names of the crawler's threads, as the label of their metrics has them.

/// The discovery thread.
pub const DISCOVERY: &str = "discovery";
/// The thread that queries the subnet administrator.
pub const ADMINISTRATION: &str = "administration";
