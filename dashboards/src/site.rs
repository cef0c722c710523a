//! What a site decides about all dashboards at once: colours with their thresholds, and where our own pages are.

use serde::Deserialize;

/// The values that the committed files are made of.
const DEFAULT: &str = include_str!("../site.toml");

/// Shares from here on are above 100 % in every rounding that is shown, which no link can be.
pub const OVER_FULL: f64 = 1.0005;
/// What is shown instead of such a share.
pub const OVER_FULL_TEXT: &str = "> 100 %, uneven readings";
/// Its colour.
pub const OVER_FULL_COLOUR: &str = "#b877d9";

/// Colours and addresses of one site. Keys that a file leaves out have the defaults of `dashboards/site.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Where browsers reach `throughline serve`, without a slash at the end; empty for no links to its pages.
    pub pages_url: String,
    /// For shares of a link's own speed.
    pub utilisation: Scale,
    /// For shares of the time in which a port could not send.
    pub waiting: Scale,
    /// For counts of errors.
    pub errors: Scale,
}

/// Steps of a value and their colours, ascending from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale(Vec<(f64, String)>);

impl Scale {
    /// `(from, colour)`, ascending.
    pub fn steps(&self) -> &[(f64, String)] {
        &self.0
    }

    /// The steps with names and both ends: `(name, from, until, colour)`, ascending.
    pub fn classes(&self) -> Vec<(String, f64, f64, &str)> {
        let percent = |share: f64| format!("{} %", (share * 1000.0).round() / 10.0);
        let mut classes = Vec::new();
        for (at, (from, colour)) in self.0.iter().enumerate() {
            let until = self.0.get(at + 1).map_or(f64::from(u32::MAX), |(until, _)| *until);
            let name = match at {
                0 => String::from("idle"),
                _ if *from >= OVER_FULL => OVER_FULL_TEXT.to_owned(),
                _ => format!("up to {}", percent(until.min(1.0))),
            };
            classes.push((name, *from, until, colour.as_str()));
        }
        classes
    }

    fn new(name: &str, steps: Vec<(f64, String)>) -> Result<Self, SiteError> {
        let fail = |cause: &str| SiteError(format!("{name}: {cause}"));
        if steps.first().is_none_or(|(from, _)| *from != 0.0) {
            return Err(fail("the first step is from 0.0, like [0.0, \"#8e8e8e\"]"));
        }
        if !steps.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(fail("each step begins above the one before"));
        }
        // The node graph takes nothing else; tables and charts take these too.
        let is_colour = |text: &str| {
            text.len() == 7 && text.starts_with('#') && text[1..].bytes().all(|b| b.is_ascii_hexdigit())
        };
        match steps.iter().find(|(_, colour)| !is_colour(colour)) {
            Some((_, colour)) => Err(fail(&format!("'{colour}' is no colour like \"#37872d\""))),
            None => Ok(Self(steps)),
        }
    }

    /// A scale of shares: what is above 1 has a colour of its own.
    fn of_shares(name: &str, steps: Vec<(f64, String)>) -> Result<Self, SiteError> {
        let mut scale = Self::new(name, steps)?;
        if scale.0.last().is_some_and(|(from, _)| *from < OVER_FULL) {
            scale.0.push((OVER_FULL, OVER_FULL_COLOUR.to_owned()));
        }
        Ok(scale)
    }
}

/// Why a site's file can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SiteError(String);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pages_url: Option<String>,
    utilisation: Option<Vec<(f64, String)>>,
    waiting: Option<Vec<(f64, String)>>,
    errors: Option<Vec<(f64, String)>>,
}

impl Site {
    /// Reads a site's file; keys that it leaves out have their defaults.
    ///
    /// # Errors
    /// With the line of a wrong key or value, or the name of the scale that is none.
    pub fn parse(text: &str) -> Result<Self, SiteError> {
        let read = |text: &str| toml::from_str::<File>(text).map_err(|error| SiteError(error.to_string()));
        let (file, default) = (read(text)?, read(DEFAULT)?);
        let shares = |name: &str, steps: Option<_>, default: Option<_>| {
            Scale::of_shares(name, steps.or(default).unwrap_or_default())
        };
        let pages_url = file.pages_url.or(default.pages_url).unwrap_or_default();
        let is_address = ["http://", "https://"].iter().any(|scheme| pages_url.starts_with(scheme));
        if !pages_url.is_empty() && (!is_address || pages_url.contains(['$', '?', '#', ' '])) {
            return Err(SiteError(format!("pages_url: '{pages_url}' is no address like https://HOST/PATH")));
        }
        Ok(Self {
            pages_url: pages_url.trim_end_matches('/').to_owned(),
            utilisation: shares("utilisation", file.utilisation, default.utilisation)?,
            waiting: shares("waiting", file.waiting, default.waiting)?,
            errors: Scale::new("errors", file.errors.or(default.errors).unwrap_or_default())?,
        })
    }
}

impl Default for Site {
    /// The values of `dashboards/site.toml`.
    ///
    /// # Panics
    /// Never: a test reads that file.
    #[allow(clippy::expect_used)] // The text is a constant of this program.
    fn default() -> Self {
        Self::parse(DEFAULT).expect("dashboards/site.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_papers() {
        let site = Site::default();
        let from: Vec<f64> = site.utilisation.steps().iter().map(|(from, _)| *from).collect();
        assert_eq!(from[2..], [0.25, 0.5, 0.75, OVER_FULL]);
        assert_eq!(Site::parse("").unwrap(), site);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, cause) in [
            ("pages = ''", "pages"),
            ("pages_url = 'net.example.org'", "no address"),
            ("errors = []", "errors: the first step"),
            ("waiting = [[0.1, '#000000']]", "waiting: the first step"),
            ("utilisation = [[0.0, '#000000'], [0.5, '#000000'], [0.5, '#000000']]", "above the one before"),
            ("utilisation = [[0.0, 'dark-green']]", "'dark-green' is no colour"),
        ] {
            let error = Site::parse(text).unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
