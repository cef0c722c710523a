//! What a job's traffic is counted by, and the sums.

/// How a cell is known: `kind` of the table mpi_node_traffic (docs/DATABASE.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Measured,
    Modelled,
    Logical,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Logical => "logical",
        }
    }
}

/// What is counted apart: an operation's number in frames, the direction, the peer's rank in MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CellKey {
    pub(crate) operation: u16,
    pub(crate) kind: Kind,
    pub(crate) is_read: bool,
    pub(crate) peer: u32,
}

/// A cell without its peer: what is one row.
pub(crate) type LineKey = (u16, Kind, bool);

impl CellKey {
    pub(crate) fn line(&self) -> LineKey {
        (self.operation, self.kind, self.is_read)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Sums {
    /// What a sum has grown by; one that fell began anew.
    pub(crate) fn since(self, before: Self) -> Self {
        if self.bytes < before.bytes || self.messages < before.messages {
            return self;
        }
        Self { bytes: self.bytes - before.bytes, messages: self.messages - before.messages }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.bytes = self.bytes.wrapping_add(more.bytes);
        self.messages = self.messages.wrapping_add(more.messages);
    }
}

/// Sums so far, and those of the last record.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) now: Sums,
    pub(crate) sent: Sums,
}
