//! Defaults, the example file, and settings that are refused.

use super::*;

const EXAMPLE: &str = include_str!("../../../../deploy/config/agent.toml");

/// The example with every key switched on: `#key = …` is a key, `# text` is a comment.
fn switched_on() -> String {
    let is_key = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let line = |line: &'static str| line.strip_prefix('#').filter(is_key).unwrap_or(line);
    EXAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_shows_every_key_with_its_default() {
    let example: Config = toml::from_str(&switched_on()).unwrap();
    // These depend on the machine, and the example shows root's.
    let mut expected = Config {
        node: Name::new("node001").ok(),
        state_dir: Some("/var/lib/throughline".into()),
        run_dir: Some("/run/throughline".into()),
        ..Config::default()
    };
    expected.mpi.socket = Some("/run/throughline/mpi.sock".into());
    expected.mpi.pvars = Some(Vec::new());
    expected.mpi.slurm_conf = Some("/etc/slurm/slurm.conf".into());
    expected.control.socket = Some("/run/throughline/agent.sock".into());
    expected.control.socket_mode = SocketMode::new("0600").ok();
    expected.cupti.leases = Some("/run/throughline/gpu-leases".into());
    expected.cupti.user = Some("throughline".to_owned());
    assert!(example.delivery.tls.is_some() && example.delivery.token_file.is_some());
    expected.delivery.tls.clone_from(&example.delivery.tls);
    expected.delivery.token_file.clone_from(&example.delivery.token_file);
    assert_eq!(example, expected);
    expected.delivery.tls = None;
    expected.delivery.token_file = None;
    // A default that is filled in by serde would hide a key that the example lacks.
    let all = throughline_daemon::config::print(&expected).unwrap();
    for key in all.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
        assert!(EXAMPLE.contains(&format!("#{key} = ")), "{key} is not in deploy/config/agent.toml");
    }
    let as_it_is: Config = toml::from_str(EXAMPLE).unwrap();
    assert_eq!(as_it_is, Config::default());
}

#[test]
fn what_depends_on_the_machine_is_filled_in() {
    let mut config = Config { node: Name::new("n1").ok(), ..Config::default() };
    let places = config.resolve(Some(Path::new("/srv/t"))).unwrap();
    assert_eq!(places.node, "n1");
    assert_eq!(places.mpi_socket, Path::new("/srv/t/run/mpi.sock"));
    let printed = throughline_daemon::config::print(&config).unwrap();
    assert!(printed.contains("socket = \"/srv/t/run/mpi.sock\""), "{printed}");
    // What is printed is read back the same.
    assert_eq!(toml::from_str::<Config>(&printed).unwrap(), config);
    let named = Config::default().resolve(None).unwrap().node;
    assert!(Name::new(&named).is_ok());
}

#[test]
fn a_long_socket_path_is_refused_only_where_it_is_used() {
    let long = PathBuf::from("/").join("x".repeat(120));
    let mut config = Config::default();
    assert!(config.clone().resolve(Some(&long)).unwrap_err().to_string().contains("107"));
    config.mpi.enabled = false;
    config.control.socket = Some("/run/agent.sock".into());
    assert!(config.resolve(Some(&long)).is_ok());
}

#[test]
fn an_empty_library_is_refused() {
    let mut config = Config::default();
    config.nvml.library = PathBuf::new();
    // The loader would take it for the program itself.
    assert!(config.resolve(Some(Path::new("/srv/t"))).unwrap_err().to_string().contains("nvml.library"));
}
