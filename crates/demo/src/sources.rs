//! The sources that the demo shows, in the order of the layers, and which child delivers each.

/// A source as people know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// For people.
    pub name: &'static str,
    /// The hypertable of its rows.
    pub table: &'static str,
    /// The child that delivers them.
    pub child: &'static str,
}

/// All of them.
pub const SOURCES: [Source; 6] = [
    Source { name: "fabric ports (MADs)", table: "ib_port_counters", child: "fabric" },
    Source { name: "host ports (sysfs)", table: "host_port_counters", child: "agent-0" },
    Source { name: "NVLink (NVML)", table: "nvlink_counters", child: "agent-0" },
    Source { name: "MPI operations", table: "mpi_node_rows", child: "mpi" },
    Source { name: "MPI peers", table: "mpi_rank_peers", child: "mpi" },
    Source { name: "MPI variables (PVARs)", table: "mpi_pvars", child: "mpi" },
];
