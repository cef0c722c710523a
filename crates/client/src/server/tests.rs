//! Requests to servers that answer in every way, over TCP and TLS, on free ports of this machine.

use super::*;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use throughline_daemon::{ExitStatus, Token};

const TOKEN: &str = "0123456789abcdef";

/// Answers each connection's first request with the same text, and notes the request.
struct Fake {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn start(answer: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, requests) = (answer.to_owned(), Arc::new(Mutex::default()));
        let noted = Arc::clone(&requests);
        // Ends with the process: it has nothing to clean up.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                match &tls {
                    None => reply(stream, &answer, &noted),
                    Some(tls) => {
                        let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                        reply(StreamOwned::new(connection, stream), &answer, &noted);
                    }
                }
            }
        });
        Self { port, requests }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.port)
    }
}

fn reply(mut stream: impl Read + Write, answer: &str, noted: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let mut byte = [0];
    // A client that does not trust the certificate goes away before it sends anything.
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        request.push(byte[0]);
    }
    noted.lock().unwrap().push(String::from_utf8(request).unwrap());
    _ = stream.write_all(answer.as_bytes());
    _ = stream.flush();
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn versioned(status: &str, body: &str) -> String {
    answer(status, &our_version(), body)
}

fn our_version() -> String {
    format!("{}: {}\r\n", throughline_api::VERSION_HEADER, throughline_api::VERSION)
}

fn settings(server: String) -> Settings {
    Settings { server, token: None, token_source: None, ca_file: None }
}

fn with_token(server: String) -> Settings {
    let token = Some(Token::parse("a test", TOKEN).unwrap());
    Settings { token, token_source: Some("THROUGHLINE_TOKEN".into()), ..settings(server) }
}

/// What a request ends with.
fn failure(settings: Settings) -> (ExitStatus, String) {
    let error = Server::new(settings).unwrap().get::<serde_json::Value>(&["jobs"], &[]).unwrap_err();
    let failure = Failure::from(error);
    (failure.status, failure.to_string())
}

fn failure_of(status: &str, headers: &str, body: &str) -> (ExitStatus, String) {
    failure(settings(Fake::start(&answer(status, headers, body), None).url("http")))
}

#[test]
fn parts_and_values_are_escaped_and_the_token_is_sent() {
    let fake = Fake::start(&versioned("200 OK", "{\"a\":1}"), None);
    let server = Server::new(with_token(fake.url("http") + "/prefix")).unwrap();
    let parts = ["jobs", "pbs:12[3].s/x@1000", "ranks"];
    let value: serde_json::Value = server.get(&parts, &[("q", "a b&c=ä")]).unwrap();
    assert_eq!(value["a"], 1);
    let mut text = String::new();
    server.stream(&["events"], &[]).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"a\":1}");
    let requests = fake.requests.lock().unwrap();
    let first = requests[0].to_lowercase();
    assert!(
        first.starts_with(
            "get /prefix/api/v1/jobs/pbs%3a12%5b3%5d.s%2fx%401000/ranks?q=a%20b%26c%3d%c3%a4 http/1.1"
        ),
        "{first}"
    );
    assert!(first.contains(&format!("authorization: bearer {TOKEN}\r\n")), "{first}");
    assert!(requests[1].starts_with("GET /prefix/api/v1/events HTTP"), "{}", requests[1]);
}

#[test]
fn a_server_that_is_not_there_is_69_with_address_and_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (status, message) = failure(settings(format!("http://127.0.0.1:{free}")));
    assert_eq!(status, ExitStatus::Unavailable);
    for part in [&format!("http://127.0.0.1:{free}"), "refused", "throughline serve", "--server"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let (status, message) = failure(settings("http://no-such-host.invalid:1".into()));
    assert_eq!(status, ExitStatus::Unavailable);
    assert!(message.contains("no-such-host.invalid") && message.contains("check the URL"), "{message}");
}

#[test]
fn access_that_is_refused_is_77_and_says_which_token_is_needed() {
    let body =
        r#"{"error":{"code":"unauthorized","message":"10.0.0.9 may not read","remedy":"send a token"}}"#;
    let refusal = || Fake::start(&versioned("401 Unauthorized", body), None).url("http");
    let (status, message) = failure(settings(refusal()));
    assert_eq!(status, ExitStatus::Permission);
    assert!(
        message.contains("10.0.0.9 may not read; name the file of its token with --token-file"),
        "{message}"
    );
    let (_, message) = failure(with_token(refusal()));
    assert!(message.contains("the token is that of THROUGHLINE_TOKEN"), "{message}");
    assert!(!message.contains(TOKEN), "{message}");
    let body = r#"{"error":{"code":"forbidden","message":"user 7 may not","remedy":"add the user to query.local_users"}}"#;
    let (status, message) =
        failure(settings(Fake::start(&versioned("403 Forbidden", body), None).url("http")));
    assert_eq!(status, ExitStatus::Permission);
    assert!(message.contains("user 7 may not; add the user to query.local_users"), "{message}");
    // A reverse proxy's own refusal is no answer of the API's.
    let (status, message) = failure_of("403 Forbidden", "", "<html>");
    assert_eq!(status, ExitStatus::Permission);
    assert!(message.contains("403 Forbidden; the administrator"), "{message}");
}

#[test]
fn another_version_is_69_and_names_both() {
    for (theirs, remedy) in [
        ("2.0", "use the `throughline` of the server's release"),
        ("1.0", "upgrade `throughline serve`"),
        ("0.9", "upgrade `throughline serve`"),
        ("new", "upgrade `throughline serve`"),
    ] {
        let header = format!("throughline-api-version: {theirs}\r\n");
        let (status, message) = failure_of("200 OK", &header, "{}");
        assert_eq!(status, ExitStatus::Unavailable);
        let ours = throughline_api::VERSION;
        let both = format!("has version {theirs} of the API, and this program needs {ours}");
        assert!(message.contains(&both) && message.contains(remedy), "{message}");
    }
    let later = answer("200 OK", "throughline-api-version: 1.99\r\n", "{}");
    let server = Server::new(settings(Fake::start(&later, None).url("http"))).unwrap();
    assert_eq!(server.get::<serde_json::Value>(&["jobs"], &[]).unwrap(), serde_json::json!({}));
}

#[test]
fn an_answer_of_something_else_is_69_and_is_described() {
    let (redirect, version) = ("location: https://portal.example/login\r\n", our_version());
    for (status, headers, body, said) in [
        ("200 OK", "", "<html>", "it answers 200 OK with application/json"),
        ("302 Found", redirect, "", "it redirects to https://portal.example/login"),
        ("200 OK", &version, "<html>", "its answer to /api/v1/jobs does not fit"),
        ("502 Bad Gateway", &version, "<html>", "it answers /api/v1/jobs with 502"),
    ] {
        let (exit, message) = failure_of(status, headers, body);
        assert_eq!(exit, ExitStatus::Unavailable);
        assert!(
            message.contains(said) && message.contains("not the API of `throughline serve`"),
            "{message}"
        );
    }
    let (status, message) = failure(settings(Fake::start("SSH-2.0-OpenSSH_9.2\r\n", None).url("http")));
    assert_eq!(status, ExitStatus::Unavailable);
    assert!(message.contains("http://localhost:"), "{message}");
}

#[test]
fn an_error_of_the_api_keeps_its_message_and_remedy() {
    for (status, code, exit) in [
        ("503 Service Unavailable", "database_absent", ExitStatus::Unavailable),
        ("429 Too Many Requests", "busy", ExitStatus::Unavailable),
        ("404 Not Found", "not_found", ExitStatus::Failed),
        ("504 Gateway Timeout", "too_slow", ExitStatus::Failed),
    ] {
        let body =
            format!(r#"{{"error":{{"code":"{code}","message":"what","remedy":"do this","limit":"x"}}}}"#);
        let (found, message) = failure(settings(Fake::start(&versioned(status, &body), None).url("http")));
        assert_eq!(found, exit, "{code}");
        assert!(message.ends_with(": what; do this"), "{message}");
    }
}

/// A certificate for `localhost` and its own authority, as PEM and for a server.
fn certificate() -> (String, Arc<ServerConfig>) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = builder
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(key.cert.der().to_vec())], private);
    (key.cert.pem(), Arc::new(config.unwrap()))
}

#[test]
fn https_is_trusted_by_the_named_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other, none, absent] = ["own", "other", "none", "absent"].map(|name| folder.path().join(name));
    let (pem, config) = certificate();
    std::fs::write(&own, pem).unwrap();
    std::fs::write(&other, certificate().0).unwrap();
    std::fs::write(&none, "no certificate").unwrap();
    let fake = Fake::start(&versioned("200 OK", "[7]"), Some(config));
    let trusting = |file: &Path| Settings { ca_file: Some(file.to_owned()), ..with_token(fake.url("https")) };
    let value: Vec<u8> = Server::new(trusting(&own)).unwrap().get(&["jobs"], &[]).unwrap();
    assert_eq!(value, [7]);
    let (status, message) = failure(trusting(&other));
    assert_eq!(status, ExitStatus::Unavailable);
    assert!(message.contains("invalid peer certificate") && message.contains("--ca-file"), "{message}");
    // The token went to the trusted one only.
    let sent = fake.requests.lock().unwrap().iter().filter(|request| request.contains(TOKEN)).count();
    assert_eq!(sent, 1);
    let wrong = |file: &Path| Server::new(trusting(file)).unwrap_err();
    assert_eq!(wrong(&none).status, ExitStatus::Usage);
    assert!(wrong(&none).to_string().contains("no certificate in it"));
    assert_eq!(wrong(&absent).status, ExitStatus::Unavailable);
    // HTTPS to a server without TLS.
    let plain = Fake::start(&versioned("200 OK", "[7]"), None);
    let (status, message) = failure(Settings { ca_file: Some(own), ..settings(plain.url("https")) });
    assert_eq!(status, ExitStatus::Unavailable);
    assert!(message.contains(&plain.url("https")), "{message}");
    drop(TcpStream::connect(("127.0.0.1", plain.port)));
}
