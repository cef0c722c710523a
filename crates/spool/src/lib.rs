//! A bounded, crash-safe log of records on disk. Knows bytes, not SQL.
