//! From measured MPI traffic to loads on links: once a second reads what ranks have sent, and sets how fast the counters
//! and the GPUs move.

use super::doubles::Gpus;
use super::flows::{Load, Network, TrafficMatrix};
use super::inject::Injector;
use super::meter::Meter;
use super::mpi::RANKS;
use throughline_query::recent::{Client, peer_totals};

/// What links of the simulated fabric carry, bytes per second, whatever their width and speed (`[sweep]
/// assumed_bytes_per_second` of the crawler). A program of four ranks on one machine is far from filling a real link, and
/// bytes that are counted must be bytes that were sent, or nothing adds up. The program pauses 100 ms in each round, so its
/// rate depends little on the machine: the heavier pair of ranks sends some 150 MB/s, the other one half of it (see
/// `traffic.c`), well below the 90 % at which the alerts fire.
pub const LINK_BYTES_PER_SECOND: u32 = 150_000_000;

/// The GPUs' links are not counted against anything: they move so many times more, or nothing would be seen of it.
const GPU_TIMES: f64 = 100.0;

/// Turns traffic between ranks into loads.
pub struct Driver {
    network: Network,
    gpus: Vec<Gpus>,
    meter: Meter,
    loads: Vec<Load>,
    measured: TrafficMatrix,
}

impl Driver {
    /// For ranks that are connected by this network, each with its node's GPUs.
    pub fn new(network: Network, gpus: Vec<Gpus>) -> Self {
        Self { network, gpus, meter: Meter::default(), loads: Vec::new(), measured: Vec::new() }
    }

    /// One round: reads, and sets.
    ///
    /// # Errors
    /// The database does not answer, or a scenario can't be written.
    pub async fn round(&mut self, client: &Client, injector: &Injector) -> anyhow::Result<()> {
        self.meter.take(peer_totals(client).await?);
        self.measure(self.meter.demand(RANKS, now()));
        injector.set(self.loads.clone());
        for (rank, gpus) in self.gpus.iter().enumerate() {
            let sent: f64 = self.measured.get(rank).map_or(0.0, |row| row.iter().sum());
            let received: f64 = self.measured.iter().filter_map(|row| row.get(rank)).sum();
            gpus.show(sent * GPU_TIMES, received * GPU_TIMES)?;
        }
        Ok(())
    }

    /// Takes the measured traffic and makes the loads.
    fn measure(&mut self, measured: TrafficMatrix) {
        self.loads = self.network.load(&measured);
        self.measured = measured;
    }

    /// Bytes per second that ranks really send, in all.
    pub fn measured_bytes_per_second(&self) -> f64 {
        self.measured.iter().flatten().sum()
    }

    /// Routes and links.
    pub fn network(&self) -> &Network {
        &self.network
    }
}

/// UTC nanoseconds.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::ATTAINABLE_SHARE;
    use crate::flows::tests::{SPEED, two_leaves};

    fn traffic(heavy: f64) -> TrafficMatrix {
        let mut demand = vec![vec![0.0; RANKS]; RANKS];
        for (from, to, share) in [(0, 1, 1.0), (1, 0, 1.0), (2, 3, 0.5), (3, 2, 0.5), (1, 2, 0.01)] {
            demand[from][to] = heavy * share;
        }
        demand
    }

    #[test]
    fn the_heavy_pair_fills_its_links_and_the_other_stays_clearly_below() {
        let mut driver = Driver::new(two_leaves(), Vec::new());
        for slower in [1.0, 0.99, 1.2] {
            driver.measure(traffic(SPEED * slower));
            let use_of = |from: usize, to: usize| {
                let links = driver.network().links().iter().zip(&driver.loads);
                let over =
                    links.filter(|(link, _)| driver.network().pairs_over(link.id).contains(&(from, to)));
                over.map(|(link, load)| load.carried / link.bytes_per_second).collect::<Vec<_>>()
            };
            assert!(use_of(0, 1).iter().all(|share| (0.95..=ATTAINABLE_SHARE + 1e-9).contains(share)));
            assert!(use_of(2, 3).iter().all(|share| (0.4..0.8).contains(share)), "{:?}", use_of(2, 3));
        }
    }
}
