//! Users of this machine that a configuration names.

use throughline_daemon::Failure;

/// The number and group of a user.
///
/// # Errors
/// There is none of this name, or the system can't say.
pub fn cupti_user(name: &str) -> Result<(u32, u32), Failure> {
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok((user.uid.as_raw(), user.gid.as_raw())),
        Ok(None) => Err(Failure::usage(format!(
            "configuration: cupti.user: there is no user {name} on this machine; name one that is, or leave the key out"
        ))),
        Err(errno) => {
            Err(Failure::usage(format!("configuration: cupti.user: cannot look {name} up: {errno}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cupti_user;

    #[test]
    fn users_are_looked_up_by_name() {
        assert_eq!(cupti_user("root").unwrap(), (0, 0));
        assert!(cupti_user("no-such-user-here").unwrap_err().to_string().contains("cupti.user"));
    }
}
