//! Tests of the server's configuration.

use super::*;
use throughline_daemon::config;

fn read(text: &str) -> Result<ServerConfig, Failure> {
    let config: ServerConfig = config::parse(text, Path::new("server.toml"), std::iter::empty())?;
    config.check()?;
    Ok(config)
}

#[test]
fn defaults_hold_and_survive_printing() {
    let config = read("").unwrap();
    assert_eq!(config.collect.listen.port(), 9463);
    assert_eq!(config.query.listen.port(), 9460);
    assert_eq!(read(&config::print(&config).unwrap()).unwrap(), config);
}

#[test]
fn a_printed_configuration_has_no_password() {
    let url = "'postgresql://me:s3cret@localhost/x'";
    let all = format!("[database]\nurl = {url}\ndirect_url = {url}\nread_url = {url}");
    let config = read(&all).unwrap();
    let text = config::print(&config).unwrap();
    assert!(text.contains("postgresql://me:***@localhost/x") && !text.contains("s3cret"), "{text}");
}

#[test]
fn a_printed_webhook_has_no_path() {
    let config = read("[report]\nwebhook = 'https://chat.example/hooks/s3cret'").unwrap();
    let text = config::print(&config).unwrap();
    assert!(text.contains("https://chat.example/***") && !text.contains("s3cret"), "{text}");
}

#[test]
fn the_example_names_every_key_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/server.toml");
    let example = std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&example).unwrap(), ServerConfig::default());
    let keys = example.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    let all = read(&keys.collect::<Vec<_>>().join("\n")).unwrap();
    let without = ServerConfig {
        database: DatabaseConfig::default(),
        collect: CollectConfig { tls: None, token_file: None, ..all.collect.clone() },
        query: QueryConfig {
            tls: None,
            token_file: None,
            proxy: None,
            thresholds: ThresholdsConfig::default(),
            promql_url: None,
            promql_ca_file: None,
            promql_token_file: None,
            promql_headers: BTreeMap::new(),
            ..all.query.clone()
        },
        export: ExportConfig::default(),
        retention: RetentionConfig { table_seconds: BTreeMap::new(), ..all.retention.clone() },
        groups: BTreeMap::new(),
        report: report::ReportConfig::default(),
        ..all.clone()
    };
    assert_eq!(without, ServerConfig::default());
    assert!(all.database.url.is_some() && all.database.pg_bin.is_some());
    assert!(all.database.direct_url.is_some() && all.database.read_url.is_some());
    assert!(all.collect.tls.is_some() && all.collect.token_file.is_some());
    assert!(all.query.tls.is_some() && all.query.token_file.is_some() && all.query.proxy.is_some());
    assert!(all.query.promql_url.is_some() && all.query.promql_ca_file.is_some());
    assert!(all.query.promql_token_file.is_some() && all.query.promql_headers.len() == 1);
    let shown = all.query.thresholds.thresholds().unwrap();
    let usual = ThresholdsConfig::default().thresholds().unwrap();
    assert_eq!(
        (shown.nvlink.full_above, shown.port.busy_above),
        (usual.nvlink.full_above, usual.port.busy_above)
    );
    assert!(all.report.webhook.is_some() && all.report.token_file.is_some() && all.report.ca_file.is_some());
    assert_eq!(all.export.remote_write.len(), 1);
    assert_eq!((all.retention.table_seconds.len(), all.groups.len()), (1, 2));
}

#[test]
fn each_wrong_value_names_its_key() {
    for (text, key) in [
        ("[collect]\nlisten = '0.0.0.0:9463'", "collect.listen"),
        ("[collect]\nlisten = 'nowhere'", "line 2"),
        ("[collect]\nconnections_max = 0", "collect.connections_max"),
        ("[collect]\nwriters = 0", "collect.writers"),
        ("[collect]\nwriters = 17", "collect.writers"),
        ("[collect]\nconnections_per_sender_max = 0", "collect.connections_per_sender_max"),
        ("[retention]\ndefault_seconds = 0", "retention.default_seconds"),
        ("[retention.table_seconds]\nmpi_op = 60", "retention.table_seconds.mpi_op"),
        ("[retention]\nminutes_seconds = 0", "retention.minutes_seconds"),
        ("[retention]\nevents_seconds = 0", "retention.events_seconds"),
        ("[retention]\njobs_seconds = 86400", "retention.jobs_seconds"),
        ("[upkeep]\ninterval_seconds = 0", "upkeep.interval_seconds"),
        ("[groups]\nlustre = []", "groups.lustre"),
        ("[groups]\nlustre = ['']", "groups.lustre"),
        ("[query]\nlisten = '0.0.0.0:9460'", "query.listen"),
        ("[query]\nlisten = '[::]:9460'\ntoken_file = '/t'", "query.tls"),
        ("[query]\nproxy = { user_header = 'X-User', addresses = [] }", "query.proxy.addresses"),
        ("[query]\nsamples_max = 0", "query.samples_max"),
        ("[query]\nproxy = { user_header = 'X-User', addresses = ['127.0.0.1'] }", "query.proxy.local_users"),
        ("[query]\nparallel_max = 1000", "query.parallel_max"),
        ("[query]\nconnections_max = 0", "query.connections_max"),
        ("[query]\nprometheus_urls = ['127.0.0.1:9090']", "query.prometheus_urls"),
        ("[query]\nhosts = ['http://a']", "query.hosts"),
        ("[query.thresholds]\nNvlinkSaturated = { fires_above = 90 }", "query.thresholds.NvlinkSaturated"),
        ("[database]\nurl = 'postgresql://a:b/c'", "database.url"),
        ("[database]\nread_url = 'host=/tmp user=a'", "database.read_url is set and database.url is not"),
        ("[database]\ndirect_url = 'host=/tmp user=a'", "database.direct_url is set"),
        ("[database]\nurl = 'host=/tmp user=a'\nread_url = 'postgresql://me@far/x'", "database.read_url"),
        (
            "[database]\nurl = 'host=/tmp user=a'\nread_url = 'host=/tmp user=throughline_read'",
            "database.read_url: throughline_read is the login of people",
        ),
        ("[database]\nread_lag_seconds_max = 0", "database.read_lag_seconds_max = 0"),
        ("[report]\nwebhook = 'ftp://a/b'", "report.webhook"),
        ("[report]\nwebhook = 'http://a/b'\ntoken_file = '/t'", "report.token_file"),
        ("[export]\nremote_write = [{ url = 'nowhere' }]", "export.remote_write.url"),
        ("[export]\nremote_write = [{ url = 'http://a:b@c/' }]", "export.remote_write.url"),
        ("[export]\nremote_write = [{ url = 'http://a/', protocol = 3 }]", "protocol"),
        ("[export]\nremote_write = [{ url = 'http://a/', name = 'a b' }]", "export.remote_write.name"),
        (
            "[export]\nremote_write = [{ url = 'http://a/', delay_seconds = 0 }]",
            "export.remote_write.delay_seconds",
        ),
        (
            "[export]\nremote_write = [{ url = 'http://a/', headers = { Host = 'b' } }]",
            "export.remote_write.headers",
        ),
        ("[export]\nremote_write = [{ url = 'http://a/' }, { url = 'http://b/' }]", "two receivers"),
        ("[querry]\n", "querry"),
        ("collect.enabled = false\nquery.enabled = false\nupkeep.enabled = false", "nothing to serve"),
    ] {
        let failure = read(text).unwrap_err();
        assert!(failure.to_string().contains(key), "{failure}");
        assert_eq!(failure.status, throughline_daemon::ExitStatus::Usage);
    }
}
