//! Why a transaction that changes the schema did not succeed: worth another try, or not.

use tokio_postgres::error::SqlState;

use crate::error::Error;

/// Why a transaction that changes the schema did not succeed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Others use what has to be changed: the same succeeds later.
    Busy(tokio_postgres::Error),
    Failed(Error),
}

impl Fault {
    /// For `map_err` of statements of such a transaction.
    pub(crate) fn sql(what: &str) -> impl FnOnce(tokio_postgres::Error) -> Fault + '_ {
        move |error| match error.code() {
            // The last one is "tuple concurrently updated": somebody changed the rights of the same object.
            Some(
                &SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::INTERNAL_ERROR,
            ) => Fault::Busy(error),
            _ => Fault::Failed(Error::from_postgres(what, &error)),
        }
    }
}
