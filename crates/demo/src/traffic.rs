//! From measured MPI traffic to loads on links: once a second reads what ranks have sent, scales it, and sets
//! how fast the counters and the GPUs move.

use super::doubles::Gpus;
use super::flows::{Demand, Load, Network, scale_factor, scaled};
use super::inject::Injector;
use super::meter::Meter;
use super::mpi::RANKS;
use throughline_query::recent::{Client, peer_totals};

/// Demand on the busiest link, as a multiple of what it can carry: enough above 1 that it stays full
/// when the program is a little slower than when it was measured. The next flow has half of it (see
/// `traffic.c`), and stays well below the 90 % at which the alerts fire.
const TARGET: f64 = 1.25;

/// How far the busiest link's demand may drift, as a multiple of [`TARGET`], before the factor is set anew.
const DRIFT: std::ops::Range<f64> = 0.8..1.3;

/// For so many rounds in a row: a pause between two runs of the program is no drift.
const DRIFT_ROUNDS: u32 = 8;

/// The first factor waits until two measurements in a row agree this well, as a ratio of the two: a program that
/// is starting up is slower than it will be. But no longer than [`DRIFT_ROUNDS`].
const AGREEMENT: std::ops::Range<f64> = 0.85..1.18;

/// Turns traffic between ranks into loads.
pub struct Driver {
    network: Network,
    gpus: Vec<Gpus>,
    meter: Meter,
    factor: Option<f64>,
    last_ideal: Option<f64>,
    drifted: u32,
    loads: Vec<Load>,
    measured: Demand,
}

impl Driver {
    /// For ranks that are connected by this network, each with its node's GPUs.
    pub fn new(network: Network, gpus: Vec<Gpus>) -> Self {
        Self {
            network,
            gpus,
            meter: Meter::default(),
            factor: None,
            last_ideal: None,
            drifted: 0,
            loads: Vec::new(),
            measured: Vec::new(),
        }
    }

    /// One round: reads, and sets. Returns a new factor when there is one.
    ///
    /// # Errors
    /// The database does not answer, or a scenario can't be written.
    pub async fn round(&mut self, client: &Client, injector: &Injector) -> anyhow::Result<Option<f64>> {
        self.meter.take(peer_totals(client).await?);
        let news = self.measure(self.meter.demand(RANKS, now()));
        let factor = self.factor.unwrap_or(0.0);
        injector.set(self.loads.clone());
        for (rank, gpus) in self.gpus.iter().enumerate() {
            let sent: f64 = self.measured.get(rank).map_or(0.0, |row| row.iter().sum());
            let received: f64 = self.measured.iter().filter_map(|row| row.get(rank)).sum();
            gpus.show(sent * factor, received * factor)?;
        }
        Ok(news)
    }

    /// Takes the measured traffic, finds or corrects the factor, and makes the loads.
    fn measure(&mut self, measured: Demand) -> Option<f64> {
        let ideal = scale_factor(&self.network, &measured, TARGET);
        let within = match (self.factor, ideal) {
            (Some(factor), Some(ideal)) => DRIFT.contains(&(factor / ideal)),
            (None, Some(_)) => false,
            (_, None) => true, // Nothing flows: nothing to learn.
        };
        self.drifted = if within { 0 } else { self.drifted + 1 };
        let agree = |ideal: f64, last: f64| AGREEMENT.contains(&(ideal / last));
        let is_steady = ideal.zip(self.last_ideal).is_some_and(|(ideal, last)| agree(ideal, last));
        self.last_ideal = ideal;
        let due = self.drifted >= DRIFT_ROUNDS || (self.factor.is_none() && is_steady);
        let news = ideal.filter(|_| !within && due).map(round_to_two_digits);
        if news.is_some() {
            self.factor = news;
            self.drifted = 0;
        }
        self.loads = self.network.load(&scaled(&measured, self.factor.unwrap_or(0.0)));
        self.measured = measured;
        news
    }

    /// The factor in use.
    pub fn factor(&self) -> Option<f64> {
        self.factor
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

/// A factor that people can remember.
fn round_to_two_digits(factor: f64) -> f64 {
    if factor <= 0.0 {
        return factor;
    }
    let unit = 10_f64.powf(factor.log10().floor() - 1.0);
    (factor / unit).round() * unit
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

    fn traffic(heavy: f64) -> Demand {
        let mut demand = vec![vec![0.0; RANKS]; RANKS];
        for (from, to, share) in [(0, 1, 1.0), (1, 0, 1.0), (2, 3, 0.5), (3, 2, 0.5), (1, 2, 0.01)] {
            demand[from][to] = heavy * share;
        }
        demand
    }

    #[test]
    fn the_heavy_pair_fills_its_links_and_the_other_stays_clearly_below() {
        let mut driver = Driver::new(two_leaves(), Vec::new());
        assert!(driver.measure(traffic(0.0)).is_none() && driver.factor().is_none());
        assert_eq!(driver.measure(traffic(1.0)), None, "starting up");
        assert_eq!(driver.measure(traffic(2.8)), None);
        let factor = driver.measure(traffic(3.0)).unwrap();
        for slower in [1.0, 0.85, 1.2] {
            assert_eq!(driver.measure(traffic(3.0 * slower)), None);
            let use_of = |from: usize, to: usize| {
                let links = driver.network().links().iter().zip(&driver.loads);
                let over =
                    links.filter(|(link, _)| driver.network().pairs_over(link.id).contains(&(from, to)));
                over.map(|(link, load)| load.carried / link.bytes_per_second).collect::<Vec<_>>()
            };
            assert!(use_of(0, 1).iter().all(|share| (0.95..=ATTAINABLE_SHARE + 1e-9).contains(share)));
            assert!(use_of(2, 3).iter().all(|share| (0.4..0.8).contains(share)), "{:?}", use_of(2, 3));
        }
        assert!((factor * 3.0 / (SPEED * ATTAINABLE_SHARE) - TARGET).abs() < 0.1);
    }

    #[test]
    fn a_lasting_change_sets_the_factor_anew_and_a_pause_does_not() {
        let mut driver = Driver::new(two_leaves(), Vec::new());
        let first = (0..2).find_map(|_| driver.measure(traffic(3.0))).unwrap();
        for _ in 0..20 {
            assert_eq!(driver.measure(traffic(0.0)), None);
        }
        let news: Vec<f64> = (0..20).filter_map(|_| driver.measure(traffic(1.0))).collect();
        assert_eq!(news.len(), 1);
        assert!((news[0] / first - 3.0).abs() < 0.2);
    }

    #[test]
    fn factors_are_round() {
        assert!((round_to_two_digits(647.3) - 650.0).abs() < 1e-9);
        assert!((round_to_two_digits(0.0234) - 0.023).abs() < 1e-12);
    }
}
