//! The kinds of counters that have rollups and encoded chunks, and their tables and columns.

use throughline_sample::catalogue::Table;

/// What a table of rollups is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Ports of the fabric.
    IbPorts,
    /// Ports of hosts' own adapters.
    HostPorts,
    /// NVLinks of a GPU.
    Nvlinks,
    /// PCIe of a GPU. Without rollups.
    GpuPcie,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::IbPorts, Kind::HostPorts, Kind::Nvlinks, Kind::GpuPcie];

    /// Its place in [`Kind::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Whether several may read the same thing, each with counters of its own.
    pub const fn has_sources(self) -> bool {
        matches!(self, Kind::Nvlinks | Kind::GpuPcie)
    }

    /// The table of rollups, where there are some, and the name of the kind in `minute_late`.
    pub const fn table(self) -> &'static str {
        match self {
            Kind::IbPorts => "ib_port_minutes",
            Kind::HostPorts => "host_port_minutes",
            Kind::Nvlinks => "nvlink_minutes",
            Kind::GpuPcie => "gpu_pcie_minutes",
        }
    }

    /// The table of readings in the catalogue.
    pub const fn catalogue(self) -> Table {
        match self {
            Kind::IbPorts => Table::IbPortCounters,
            Kind::HostPorts => Table::HostPortCounters,
            Kind::Nvlinks => Table::NvlinkCounters,
            Kind::GpuPcie => Table::GpuPcieCounters,
        }
    }

    /// The table of readings.
    pub const fn readings(self) -> &'static str {
        self.catalogue().name()
    }

    /// Column of the thing in both tables.
    pub const fn id(self) -> &'static str {
        match self {
            Kind::IbPorts => "port_id",
            Kind::HostPorts => "host_port_id",
            Kind::Nvlinks | Kind::GpuPcie => "gpu_id",
        }
    }

    /// The function of the schema that returns readings, rows and packed ones, from a time to a time.
    pub const fn readings_between(self) -> &'static str {
        match self {
            Kind::IbPorts => "ib_port_readings",
            Kind::HostPorts => "host_port_readings",
            Kind::Nvlinks => "nvlink_readings",
            Kind::GpuPcie => "gpu_pcie_readings",
        }
    }

    /// What names one of its readings, in both tables and of what [`Kind::readings_between`] returns.
    pub const fn key(self) -> &'static str {
        match self {
            Kind::IbPorts => "port_id, time",
            Kind::HostPorts => "host_port_id, time",
            Kind::Nvlinks | Kind::GpuPcie => "gpu_id, time, source",
        }
    }

    /// The kind's name for `row_rules_of`.
    pub const fn rules(self) -> &'static str {
        match self {
            Kind::IbPorts => "ib_port",
            Kind::HostPorts => "host_port",
            Kind::Nvlinks | Kind::GpuPcie => "gpu",
        }
    }

    /// The kind whose rollups have a column of a table of readings.
    pub fn keeping(table: Table, column: &str) -> Option<Kind> {
        let (kind, columns) = match table {
            Table::IbPortCounters => {
                (Kind::IbPorts, ["transmit_data_bytes", "receive_data_bytes", "rate_bytes_per_second"])
            }
            Table::HostPortCounters => (
                Kind::HostPorts,
                ["port_data_transmitted_bytes", "port_data_received_bytes", "rate_bytes_per_second"],
            ),
            Table::NvlinkCounters => {
                (Kind::Nvlinks, ["transmit_bytes", "receive_bytes", "speed_bytes_per_second"])
            }
            _ => return None,
        };
        columns.contains(&column).then_some(kind)
    }

    /// The table of all such things.
    pub const fn keys(self) -> &'static str {
        match self {
            Kind::IbPorts => "ib_port_key",
            Kind::HostPorts => "host_port_key",
            Kind::Nvlinks | Kind::GpuPcie => "gpu_key",
        }
    }

    /// The table of blocks.
    pub const fn blocks(self) -> &'static str {
        match self {
            Kind::IbPorts => "ib_port_blocks",
            Kind::HostPorts => "host_port_blocks",
            Kind::Nvlinks => "nvlink_blocks",
            Kind::GpuPcie => "gpu_pcie_blocks",
        }
    }

    /// The kind of a table of readings that has blocks.
    pub fn of(table: Table) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.catalogue() == table)
    }
}
