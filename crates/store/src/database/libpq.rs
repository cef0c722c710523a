//! What PostgreSQL's own programs need to log in as this program does: variables of libpq, as arguments of a process are read by everybody.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::tls::Check;
use super::{Database, host_name};
use crate::error::Error;

impl Database {
    /// The environment of a program that is to do everything: the superuser of a private cluster, or the user of the URL.
    pub(crate) fn libpq_environment(&self) -> Result<Vec<(&'static str, OsString)>, Error> {
        let config = self.login(self.admin.as_ref().unwrap_or(&self.writer))?;
        let mut all: Vec<(&'static str, OsString)> = vec![("PGAPPNAME", "throughline".into())];
        let mut put = |name, value: String| {
            if !value.is_empty() {
                all.push((name, value.into()));
            }
        };
        let joined = |parts: Vec<String>| parts.join(",");
        put("PGHOST", joined(config.get_hosts().iter().map(host_name).collect()));
        put("PGHOSTADDR", joined(config.get_hostaddrs().iter().map(ToString::to_string).collect()));
        put("PGPORT", joined(config.get_ports().iter().map(ToString::to_string).collect()));
        put("PGUSER", config.get_user().unwrap_or_default().to_owned());
        put("PGDATABASE", config.get_dbname().or(config.get_user()).unwrap_or_default().to_owned());
        put("PGOPTIONS", config.get_options().unwrap_or_default().to_owned());
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
            put("PGTARGETSESSIONATTRS", "read-write".to_owned());
        }
        put("PGSSLMODE", self.libpq_mode(config.get_ssl_mode()).to_owned());
        for (name, path) in self.tls.iter().flat_map(|tls| {
            let identity = tls.identity.as_ref();
            // libpq looks into a home folder otherwise, the driver at the system's authorities.
            let system = (tls.check != Check::Nothing).then(|| "system".into());
            [
                ("PGSSLROOTCERT", tls.authorities.clone().or(system)),
                ("PGSSLCERT", identity.map(|(certificate, _)| certificate.clone())),
                ("PGSSLKEY", identity.map(|(_, key)| key.clone())),
            ]
        }) {
            put(name, path.map(|path| path.display().to_string()).unwrap_or_default());
        }
        if let Some(password) = config.get_password() {
            all.push(("PGPASSWORD", OsString::from_vec(password.to_vec())));
        }
        Ok(all)
    }

    fn libpq_mode(&self, mode: SslMode) -> &'static str {
        match (self.tls.as_ref().map(|tls| tls.check), mode) {
            (None, _) => "disable",
            (Some(Check::Authority), _) => "verify-ca",
            (Some(Check::AuthorityAndName), _) => "verify-full",
            (Some(Check::Nothing), SslMode::Prefer) => "prefer",
            (Some(Check::Nothing), _) => "require",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_the_same_login_in_variables() {
        let url = "postgresql://me:se%20cret@db.example:5433/metrics?sslmode=verify-full&sslrootcert=/ca.pem";
        let all = Database::from_url(url).unwrap().libpq_environment().unwrap();
        let of = |name| {
            all.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_string_lossy().into_owned())
        };
        for (name, value) in [
            ("PGHOST", "db.example"),
            ("PGPORT", "5433"),
            ("PGUSER", "me"),
            ("PGDATABASE", "metrics"),
            ("PGPASSWORD", "se cret"),
            ("PGSSLMODE", "verify-full"),
            ("PGSSLROOTCERT", "/ca.pem"),
        ] {
            assert_eq!(of(name).as_deref(), Some(value), "{name}");
        }
    }
}
