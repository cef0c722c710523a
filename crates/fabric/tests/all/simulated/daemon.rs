//! The daemon as a child process, a double of the collector and a second subnet manager, for the integration tests.

use super::{CRAWLER, Simulated};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use throughline_delivery::wire::collect_server::{Collect, CollectServer};
use throughline_delivery::wire::{
    ClockAnswer, ClockRequest, LeaseRequest, LeaseResponse, PutRequest, PutResponse,
};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Generous: tests wait for conditions.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Keeps what it gets and acknowledges it.
#[derive(Clone, Default)]
pub struct Double(Arc<Mutex<Vec<Batch>>>);

impl Double {
    /// A double that listens, and where.
    pub fn start(runtime: &tokio::runtime::Runtime) -> (Double, SocketAddr) {
        let double = Double::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder().add_service(CollectServer::new(double.clone()));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (double, address)
    }

    /// All that came.
    pub fn batches(&self) -> Vec<Batch> {
        self.0.lock().unwrap().clone()
    }

    /// The last ones that came, at most so many.
    pub fn newest(&self, count: usize) -> Vec<Batch> {
        let all = self.0.lock().unwrap();
        all[all.len().saturating_sub(count)..].to_vec()
    }

    /// All events that came.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().iter().flat_map(|batch| batch.events.clone()).collect()
    }
}

#[tonic::async_trait]
impl Collect for Double {
    type PutStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<PutResponse, Status>> + Send>>;

    async fn put(
        &self,
        request: Request<Streaming<PutRequest>>,
    ) -> Result<Response<Self::PutStream>, Status> {
        let mut stream = request.into_inner();
        let (acks, out) = tokio::sync::mpsc::channel(16);
        let kept = self.0.clone();
        tokio::spawn(async move {
            while let Some(Ok(put)) = stream.next().await {
                kept.lock().unwrap().push(Batch::decode(put.batch).unwrap());
                let ack = PutResponse {
                    spool_id: put.spool_id,
                    acknowledged: put.sequence,
                    refusal: None,
                    detail: None,
                };
                if acks.send(Ok(ack)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(out))))
    }

    type ClockStream = ReceiverStream<Result<ClockRequest, Status>>;

    /// It measures no clocks.
    async fn clock(&self, _: Request<Streaming<ClockAnswer>>) -> Result<Response<Self::ClockStream>, Status> {
        Err(Status::unimplemented("no clocks here"))
    }

    async fn lease(&self, request: Request<LeaseRequest>) -> Result<Response<LeaseResponse>, Status> {
        let holder = request.into_inner().name;
        let fabric = "double".to_owned();
        Ok(Response::new(LeaseResponse { granted: true, holder, fabric, ..LeaseResponse::default() }))
    }
}

/// A running daemon; killed if the test fails.
pub struct Daemon {
    child: Child,
    address: String,
    /// Where it runs.
    pub folder: PathBuf,
}

impl Daemon {
    pub fn start(simulated: &Simulated, configuration: &str) -> Daemon {
        Daemon::start_in(simulated, configuration, "state".into())
    }

    /// With a state folder that another one has had.
    pub fn start_in(simulated: &Simulated, configuration: &str, state: PathBuf) -> Daemon {
        Daemon::spawn(simulated.fabric.client(CRAWLER, None).unwrap(), configuration, state)
    }

    /// By a command that has a working folder of its own.
    pub fn spawn(mut command: Command, configuration: &str, state: PathBuf) -> Daemon {
        let folder = command.get_current_dir().unwrap().to_owned();
        std::fs::write(folder.join("fabric.toml"), configuration).unwrap();
        command.args(["run", "--config", "fabric.toml", "--state-dir"]).arg(state).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening fabric=").unwrap_or_else(|| panic!("{line}")).to_owned();
        Daemon { child, address, folder }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn metrics(&self) -> String {
        self.get("/metrics").1
    }

    /// Status and body of `/healthz`.
    pub fn health(&self) -> (u16, String) {
        self.get("/healthz")
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub fn stop(&mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let ended = self.child.wait().unwrap();
        ended.code().unwrap_or_else(|| panic!("{ended}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same; none where one of these managers breaks off.
pub fn until_unless_broken(
    managers: &mut [&mut Manager],
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Option<()> {
    let mut is_broken = false;
    until(what, || {
        is_broken = managers.iter_mut().any(|manager| manager.broke_off());
        is_broken || condition()
    });
    (!is_broken && !managers.iter_mut().any(|manager| manager.broke_off())).then_some(())
}

/// An opensm that ends with its owner.
pub struct Manager {
    process: Child,
    log: PathBuf,
}

/// An opensm that breaks off is started so often.
pub const MANAGER_TRIES: u32 = 10;

/// An opensm that says nothing for so long has broken off, too, though its process is there.
const MANAGER_DEADLINE: Duration = Duration::from_secs(30);

impl Manager {
    /// Brings the subnet up from this host, with this priority.
    pub fn start(simulated: &Simulated, host: &str, priority: u8) -> Manager {
        let started = (0..MANAGER_TRIES).find_map(|_| Manager::start_once(simulated, host, priority));
        started.expect("an opensm that comes to a subnet that is up")
    }

    /// The same; none where it breaks off. Libumad2sim passes it requests of PerfMgt that are for its node's adapter,
    /// which a kernel never does, and opensm 3.3.23 takes each of its own class for an answer to one of its own: it may
    /// end by SIGSEGV while a crawler asks.
    pub fn start_once(simulated: &Simulated, host: &str, priority: u8) -> Option<Manager> {
        let mut command = simulated.fabric.tool("opensm", Some(host)).unwrap();
        let folder = command.get_current_dir().unwrap().to_owned();
        let (log, settings) = (folder.join("opensm.log"), folder.join("opensm.conf"));
        // Its log is read for what stays in a buffer otherwise; and a standby takes over within two seconds.
        let options = "force_log_flush TRUE\nsminfo_polling_timeout 500\npolling_retry_number 3\n";
        std::fs::write(&settings, options).unwrap();
        command.env("OSM_TMP_DIR", &folder).env("OSM_CACHE_DIR", &folder);
        command.arg("-F").arg(&settings).arg("-f").arg(&log).args(["-p", &priority.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut manager = Manager { process: command.spawn().unwrap(), log };
        let start = Instant::now();
        while !manager.log().contains("SUBNET UP") {
            if manager.broke_off() || start.elapsed() >= MANAGER_DEADLINE {
                println!("no subnet that is up:\n{}", manager.log());
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(manager)
    }

    /// Whether it ended by SIGSEGV. It ends in no other way by itself.
    pub fn broke_off(&mut self) -> bool {
        let Some(ended) = self.process.try_wait().unwrap() else { return false };
        assert_eq!(ended.signal(), Some(nix::libc::SIGSEGV), "opensm ended:\n{}", self.log());
        println!("opensm broke off:\n{}", self.log());
        true
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
