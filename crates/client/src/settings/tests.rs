//! Which server and which token are used, from options, environment and files.

use super::*;
use std::os::unix::fs::PermissionsExt;

const TOKEN: &str = "0123456789abcdef";

struct Site {
    folder: tempfile::TempDir,
    environment: Environment,
}

impl Site {
    /// With this user and site configuration.
    fn new(user: &str, site: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = ["user.toml", "site.toml"].map(|name| folder.path().join(name));
        for (file, text) in files.iter().zip([user, site]) {
            std::fs::write(file, text.replace("DIR", folder.path().to_str().unwrap())).unwrap();
        }
        Self { folder, environment: Environment { files: files.to_vec(), ..Environment::default() } }
    }

    fn token(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, format!("{TOKEN}{name}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn settings(&self, server: Option<&str>) -> Result<Settings, String> {
        let connection = Connection { server: server.map(str::to_owned), ..Connection::default() };
        Settings::from(&connection, &self.environment).map_err(|failure| failure.to_string())
    }
}

fn authorization(settings: &Settings) -> Option<String> {
    settings.token.as_ref().map(Token::authorization)
}

#[test]
fn the_server_comes_from_option_environment_user_site_or_default() {
    let mut site = Site::new("server = 'https://user.example/'", "server = 'https://site.example'");
    site.environment.server = Some("http://environment.example:1".to_owned());
    let server = |site: &Site, option| site.settings(option).unwrap().server;
    assert_eq!(
        server(&site, Some("https://option.example:9460/prefix/")),
        "https://option.example:9460/prefix"
    );
    assert_eq!(server(&site, None), "http://environment.example:1");
    site.environment.server = None;
    assert_eq!(server(&site, None), "https://user.example");
    site.environment.files.remove(0);
    assert_eq!(server(&site, None), "https://site.example");
    site.environment.files = vec!["/nonexistent/client.toml".into()];
    assert_eq!(server(&site, None), DEFAULT_SERVER);
}

#[test]
fn a_configured_token_is_sent_to_its_own_server_only() {
    let site = Site::new(
        "server = 'https://a.example'\ntoken_file = 'DIR/a'\nca_file = 'DIR/ca'",
        "server = 'https://b.example'\ntoken_file = 'DIR/b'",
    );
    site.token("a", 0o600);
    site.token("b", 0o640);
    let found = site.settings(None).unwrap();
    assert_eq!(authorization(&found).unwrap(), format!("Bearer {TOKEN}a"));
    assert_eq!(found.ca_file, Some(site.folder.path().join("ca")));
    let found = site.settings(Some("https://b.example/")).unwrap();
    assert_eq!((authorization(&found).unwrap(), found.ca_file.clone()), (format!("Bearer {TOKEN}b"), None));
    assert!(found.token_source.unwrap().contains("site.toml"));
    for other in ["https://c.example", "https://a.example:444", "http://a.example", DEFAULT_SERVER] {
        assert_eq!(authorization(&site.settings(Some(other)).unwrap()), None, "{other}");
    }
}

#[test]
fn a_token_of_the_environment_is_used_for_any_server_but_never_unencrypted() {
    let mut site = Site::new("", "");
    site.environment.token = Some(format!("{TOKEN}e"));
    let found = site.settings(Some("https://a.example")).unwrap();
    assert_eq!(authorization(&found).unwrap(), format!("Bearer {TOKEN}e"));
    site.environment.token_file = Some(site.token("f", 0o600));
    let found = site.settings(Some("http://[::1]:9460")).unwrap();
    assert_eq!(authorization(&found).unwrap(), format!("Bearer {TOKEN}f"));
    assert!(found.is_local());
    let error = site.settings(Some("http://a.example")).unwrap_err();
    assert!(error.contains("unencrypted") && error.contains("https://"), "{error}");
}

#[test]
fn the_example_has_every_key_and_what_holds_is_printed_without_the_token() {
    let example = include_str!("../../../../deploy/config/client.toml");
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
    let keys: Vec<&str> = example.lines().filter(is_key).map(|line| &line[1..]).collect();
    let config: ClientConfig =
        config::parse(&keys.join("\n"), Path::new("client.toml"), std::iter::empty()).unwrap();
    assert!(config.server.is_some() && config.token_file.is_some() && config.ca_file.is_some());
    assert_eq!(keys.len(), 3);
    let mut site = Site::new("server = 'https://a.example'\nca_file = 'DIR/ca'", "");
    site.environment.token = Some(format!("{TOKEN}e"));
    let text = site.settings(None).unwrap().described();
    assert!(text.starts_with("server = \"https://a.example\"\nca_file = "), "{text}");
    assert!(text.contains("# the token is that of THROUGHLINE_TOKEN") && !text.contains(TOKEN), "{text}");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let mut site = Site::new("sever = 'https://a.example'", "");
    let error = site.settings(None).unwrap_err();
    assert!(error.contains("user.toml, line 1") && error.contains("sever"), "{error}");
    site.environment.files.clear();
    for (url, why) in [
        ("monitor:9460", "scheme"),
        ("ftp://monitor", "the scheme is ftp"),
        ("https://ada:secret@monitor", "not used"),
        ("https://monitor?x=1", "only scheme, host, port and path"),
        ("https://", "https://"),
        ("not a url", "expected a URL"),
    ] {
        let error = site.settings(Some(url)).unwrap_err();
        assert!(error.starts_with("--server = ") && error.contains(why), "{url}: {error}");
    }
    site.environment.token_file = Some(site.token("open", 0o644));
    let error = site.settings(Some("https://a.example")).unwrap_err();
    assert!(error.contains("THROUGHLINE_TOKEN_FILE") && error.contains("chmod 600"), "{error}");
    site.environment.token_file = None;
    site.environment.token = Some("short".to_owned());
    let error = site.settings(Some("https://a.example")).unwrap_err();
    assert!(error.contains("THROUGHLINE_TOKEN") && !error.contains("short"), "{error}");
}
