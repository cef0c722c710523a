//! The PCIe links of a host's adapters beside what their ports carry. Pure.

use super::answer::rounded;
pub use throughline_api::broadcast::Pcie;

/// A port of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct PortOf<'a> {
    /// The adapter's name.
    pub device: &'a str,
    /// Of the adapter's PCIe link, as last read with the port's counters.
    pub pcie_bytes_per_second: Option<i64>,
    /// The port's speed in one direction.
    pub bytes_per_second: Option<i64>,
    /// Sent per second.
    pub out: Option<f64>,
    /// Received per second.
    pub received: Option<f64>,
}

/// The link of an adapter of these ports. All ports of an adapter share it: a share needs the bytes of all.
pub fn pcie_of(ports: &[PortOf<'_>], device: &str) -> Option<Pcie> {
    let own = || ports.iter().filter(|port| port.device == device);
    let bytes_per_second = own().find_map(|port| port.pcie_bytes_per_second).filter(|bytes| *bytes > 0)?;
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let share = |bytes: f64| rounded(bytes / bytes_per_second as f64);
    let sum = |value: fn(&PortOf<'_>) -> Option<f64>| own().map(value).sum::<Option<f64>>().map(share);
    Some(Pcie {
        bytes_per_second,
        ports_bytes_per_second: own().map(|port| port.bytes_per_second).sum(),
        out_share: sum(|port| port.out),
        in_share: sum(|port| port.received),
    })
}
#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, out: Option<f64>) -> PortOf<'_> {
        PortOf {
            device,
            pcie_bytes_per_second: (device == "mlx5_0").then_some(16_000),
            bytes_per_second: Some(10_000),
            out,
            received: Some(1_000.0),
        }
    }

    #[test]
    fn ports_of_one_adapter_share_its_link() {
        let ports = [port("mlx5_0", Some(8_000.0)), port("mlx5_0", Some(4_000.0)), port("mlx5_1", Some(1.0))];
        let both = Pcie {
            bytes_per_second: 16_000,
            ports_bytes_per_second: Some(20_000),
            out_share: Some(0.75),
            in_share: Some(0.125),
        };
        assert_eq!(pcie_of(&ports, "mlx5_0"), Some(both));
        assert_eq!(pcie_of(&ports, "mlx5_1"), None, "not read");
        // One port that is not read makes the share unknown, not small.
        let silent = [port("mlx5_0", None), port("mlx5_0", Some(4_000.0))];
        assert_eq!(pcie_of(&silent, "mlx5_0").unwrap().out_share, None);
    }
}
