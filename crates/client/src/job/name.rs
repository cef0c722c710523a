//! Which job a name on the command line means: the server decides, and names the nearest where it means none.

use crate::{Error, Server};
use throughline_api::jobs::JobName;
use throughline_daemon::{ExitStatus, Failure};

/// Codes of answers that are no fault of the server: no such job, or several.
const NO_JOB: [&str; 2] = ["not_found", "ambiguous"];

/// The key of the job that is meant by a key, a scheduler's id, the unique beginning of either, `last` or `last-N`. `last`
/// counts jobs of this user only, but for root.
///
/// # Errors
/// 1: no such job, with the nearest names, or several. Otherwise see [`Error`].
pub fn find(server: &Server, name: &str) -> Result<String, Failure> {
    let user = nix::unistd::getuid();
    let uid = user.to_string();
    let query = if user.is_root() { &[][..] } else { &[("uid", uid.as_str())] };
    match server.get::<JobName>(&["job-names", name], query) {
        Ok(found) => Ok(found.job_key),
        Err(Error::Api { error, .. }) if NO_JOB.contains(&error.code.as_str()) => {
            Err(Failure::new(ExitStatus::Failed, error.text()))
        }
        Err(error) => Err(error.into()),
    }
}
