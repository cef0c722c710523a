//! From where on a link is shown as busy and as full, or as waiting, on the map and the pages of nodes: the thresholds of the alerts, or the site's own.

use serde::{Deserialize, Serialize};
use throughline_daemon::Failure;

/// `[query.thresholds]`: the same names and keys as in the file of the alerts' thresholds. What is not given is as in this
/// build's `alerts/thresholds.toml`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThresholdsConfig {
    /// Of an NVLink, the share of its speed.
    #[serde(rename = "NvlinkSaturated", skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<ThresholdConfig>,
    /// Of a port of an adapter or a switch, the share of its speed.
    #[serde(rename = "InfinibandLinkSaturated", skip_serializing_if = "Option::is_none")]
    pub port: Option<ThresholdConfig>,
    /// Of a port of the fabric, the share of the time in which data waited to be sent.
    #[serde(rename = "InfinibandLinkCongested", skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ThresholdConfig>,
}

/// One threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdConfig {
    /// Full above this share.
    pub fires_above: f64,
    /// Busy above this share; `fires_above` where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_above: Option<f64>,
}

/// Where a threshold comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This build's `alerts/thresholds.toml`.
    Default,
    /// `[query.thresholds]` of server.toml.
    Site,
}

/// From where on links of a kind are shown as busy and as full, shares of their speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// Name of the alert with the same threshold.
    pub alert: &'static str,
    /// Busy above this.
    pub busy_above: f64,
    /// Full above this.
    pub full_above: f64,
    /// Whose it is.
    pub origin: Origin,
}

/// Those of all kinds of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// NVLinks.
    pub nvlink: Threshold,
    /// Ports of adapters and switches.
    pub port: Threshold,
    /// Time in which data waits at a port.
    pub waiting: Threshold,
}

/// Those of a node's links.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OfNode {
    nvlink: Threshold,
    port: Threshold,
}

/// Those of the links of the fabric, by what is shown of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OfFabric {
    utilisation: Threshold,
    waiting: Threshold,
}

impl Thresholds {
    /// For the page of a node.
    #[must_use]
    pub fn of_node(&self) -> OfNode {
        OfNode { nvlink: self.nvlink, port: self.port }
    }

    /// For the map.
    #[must_use]
    pub fn of_fabric(&self) -> OfFabric {
        OfFabric { utilisation: self.port, waiting: self.waiting }
    }
}

/// The alerts that have them.
const NVLINK: &str = "NvlinkSaturated";
const PORT: &str = "InfinibandLinkSaturated";
const WAITING: &str = "InfinibandLinkCongested";

impl Default for Thresholds {
    fn default() -> Thresholds {
        let none = ThresholdsConfig::default();
        Thresholds {
            nvlink: of(NVLINK, none.nvlink),
            port: of(PORT, none.port),
            waiting: of(WAITING, none.waiting),
        }
    }
}

impl ThresholdsConfig {
    /// With the defaults of the alerts.
    ///
    /// # Errors
    /// A share is not above 0 and at most 1, or it is full before it is busy (64).
    pub fn thresholds(&self) -> Result<Thresholds, Failure> {
        for (alert, given) in [(NVLINK, self.nvlink), (PORT, self.port), (WAITING, self.waiting)] {
            let Some(ThresholdConfig { fires_above, holds_above }) = given else { continue };
            let busy = holds_above.unwrap_or(fires_above);
            if !(fires_above > 0.0 && fires_above <= 1.0 && busy > 0.0 && busy <= fires_above) {
                return Err(Failure::usage(format!(
                    "query.thresholds.{alert}: fires_above = {fires_above}, holds_above = {busy}: must be shares above 0 and at \
                     most 1, holds_above no larger than fires_above"
                )));
            }
        }
        Ok(Thresholds {
            nvlink: of(NVLINK, self.nvlink),
            port: of(PORT, self.port),
            waiting: of(WAITING, self.waiting),
        })
    }
}

fn of(alert: &'static str, site: Option<ThresholdConfig>) -> Threshold {
    let (given, origin) = match site {
        Some(given) => (given, Origin::Site),
        None => (built_in(alert), Origin::Default),
    };
    let ThresholdConfig { fires_above, holds_above } = given;
    Threshold { alert, busy_above: holds_above.unwrap_or(fires_above), full_above: fires_above, origin }
}

/// As this build's file of thresholds has it.
fn built_in(alert: &str) -> ThresholdConfig {
    let known = throughline_alerts::threshold(alert);
    known.map_or(ThresholdConfig { fires_above: 1.0, holds_above: None }, |known| ThresholdConfig {
        fires_above: known.fires_above,
        holds_above: known.holds_above,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_alerts_and_a_site_has_its_own() {
        let usual = Thresholds::default();
        for (threshold, alert) in [(usual.nvlink, NVLINK), (usual.port, PORT), (usual.waiting, WAITING)] {
            let known = throughline_alerts::threshold(alert).unwrap();
            assert_eq!(
                (threshold.full_above, Some(threshold.busy_above)),
                (known.fires_above, known.holds_above)
            );
            assert_eq!(threshold.origin, Origin::Default);
        }
        let own = |fires_above, holds_above| ThresholdsConfig {
            nvlink: Some(ThresholdConfig { fires_above, holds_above }),
            ..ThresholdsConfig::default()
        };
        let site = own(0.7, Some(0.5)).thresholds().unwrap();
        assert_eq!(
            (site.nvlink.busy_above, site.nvlink.full_above, site.nvlink.origin),
            (0.5, 0.7, Origin::Site)
        );
        assert_eq!(site.port, usual.port);
        assert_eq!(own(0.7, None).thresholds().unwrap().nvlink.busy_above, 0.7);
        for (fires, holds) in [(0.0, None), (1.5, None), (0.5, Some(0.6)), (f64::NAN, None)] {
            let wrong = own(fires, holds).thresholds().unwrap_err().to_string();
            assert!(wrong.contains("query.thresholds.NvlinkSaturated"), "{wrong}");
        }
    }
}
