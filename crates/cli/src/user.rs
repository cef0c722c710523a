//! Who runs a command, as it is noted in the database.

use throughline_sample::admission::{NAME_BYTES_MAX, is_deceptive};

/// Whether nothing in a text is shown as something else.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(is_deceptive)
}

/// Who runs this: the user, and who became root by sudo.
pub(crate) fn user() -> String {
    let id = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    let name = user.map_or_else(|| id.to_string(), |user| user.name);
    match std::env::var("SUDO_USER") {
        Ok(other) if id.is_root() && other.len() <= NAME_BYTES_MAX && is_plain(&other) => {
            format!("{name} (sudo by {other})")
        }
        _ => name,
    }
}
