//! What times inside MPI are shares of, on the whole of a page.

use throughline_api::jobs::Job;

/// A time and its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceTime {
    /// All of it.
    pub seconds: f64,
    /// `of the ranks' time` or `of the MPI time`.
    pub name: &'static str,
    /// Of a column, to the right, beside one of times: `<OF RANKS'` or `<OF MPI`.
    pub heading: &'static str,
}

impl ReferenceTime {
    /// The time of the ranks; time inside MPI where that of the ranks is not known or threads were inside at the same time.
    /// `None` where nothing was inside.
    #[must_use]
    pub fn of(job: &Job) -> Option<Self> {
        match (job.observed_seconds(), job.mpi_seconds()) {
            (Some(seconds), Some(_)) if job.mpi_time_share().is_some() => {
                Some(Self { seconds, name: "of the ranks' time", heading: "<OF RANKS'" })
            }
            (_, Some(seconds)) if seconds > 0.0 => {
                Some(Self { seconds, name: "of the MPI time", heading: "<OF MPI" })
            }
            _ => None,
        }
    }
}
