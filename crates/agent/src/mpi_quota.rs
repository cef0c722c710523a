//! `[mpi.quota]`: what one user's ranks may use, and which times their records may have.

use serde::{Deserialize, Serialize};
use throughline_daemon::Seconds;
use throughline_mpit_bridge::{QuotaLimits, WindowLimits};

/// `[mpi.quota]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Rows that a user's ranks send in a second.
    pub rows_per_second_of_user: u32,
    /// Of these, of one job.
    pub rows_per_second_of_job: u32,
    /// Readings of performance variables of a user in a second.
    pub pvars_per_second_of_user: u32,
    /// Names of regions, paths and algorithms of a user in a second that are new on the node; more have numbers.
    pub names_per_second_of_user: u32,
    /// Ranks of a user that begin in a second.
    pub ranks_per_second_of_user: u32,
    /// Connections of a user taken in a second.
    pub connects_per_second_of_user: u32,
    /// How long before the start of its own process a record's time may lie.
    pub accept_past_seconds: Seconds,
    /// How far ahead of the agent's clock a record's time may lie.
    pub accept_future_seconds: Seconds,
}

impl Default for Quota {
    fn default() -> Self {
        let (limits, window) = (QuotaLimits::default(), WindowLimits::default());
        Self {
            rows_per_second_of_user: limits.rows_per_second_of_user,
            rows_per_second_of_job: limits.rows_per_second_of_job,
            pvars_per_second_of_user: limits.pvars_per_second_of_user,
            names_per_second_of_user: limits.names_per_second_of_user,
            ranks_per_second_of_user: limits.ranks_per_second_of_user,
            connects_per_second_of_user: limits.connects_per_second_of_user,
            accept_past_seconds: window.past.into(),
            accept_future_seconds: window.future.into(),
        }
    }
}

impl Quota {
    /// For the receiver.
    pub fn limits(&self) -> QuotaLimits {
        QuotaLimits {
            rows_per_second_of_user: self.rows_per_second_of_user,
            rows_per_second_of_job: self.rows_per_second_of_job,
            pvars_per_second_of_user: self.pvars_per_second_of_user,
            names_per_second_of_user: self.names_per_second_of_user,
            ranks_per_second_of_user: self.ranks_per_second_of_user,
            connects_per_second_of_user: self.connects_per_second_of_user,
            ..QuotaLimits::default()
        }
    }

    /// Which times are admitted.
    pub fn window(&self) -> WindowLimits {
        WindowLimits {
            past: self.accept_past_seconds.duration(),
            future: self.accept_future_seconds.duration(),
        }
    }
}
