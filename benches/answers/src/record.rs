//! Records what senders send: stands between them and a server, passes everything on, and writes each batch as a line of JSON.

use crate::wire::{Raw, Schema, path_of};
use anyhow::Context;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use prost_reflect::DynamicMessage;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::SystemTime;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::server::{NamedService, StreamingService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// Metadata by which a sender says what it understands.
const SENDERS_WORDS: &str = "throughline-";

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

#[derive(Clone)]
struct Recorder {
    schema: Arc<Schema>,
    upstream: Channel,
    file: Arc<Mutex<File>>,
}

impl NamedService for Recorder {
    const NAME: &'static str = "throughline.collect.v1.Collect";
}

impl Recorder {
    fn note(&self, bytes: &[u8], words: &Map<String, Value>) -> anyhow::Result<()> {
        let request = DynamicMessage::decode(self.schema.put.input(), bytes)?;
        let field = |name: &str| request.get_field_by_name(name).context("a field of a request");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let line = json!({
            "at": u64::try_from(at)?,
            "spool": hex(field("spool_id")?.as_bytes().context("bytes")?),
            "metadata": words,
            "batch": self.schema.batch_to_json(field("batch")?.as_bytes().context("bytes")?)?,
        });
        let mut file = self.file.lock().map_err(|_| anyhow::anyhow!("the file"))?;
        Ok(writeln!(file, "{line}")?)
    }
}

/// What a sender says of itself in the metadata of its stream.
fn words(metadata: &MetadataMap) -> Map<String, Value> {
    let pairs = metadata.iter().filter_map(|pair| match pair {
        KeyAndValueRef::Ascii(key, value) => Some((key.to_string(), json!(value.to_str().ok()?))),
        KeyAndValueRef::Binary(..) => None,
    });
    pairs.filter(|(key, _)| key.starts_with(SENDERS_WORDS)).collect()
}

impl StreamingService<Bytes> for Recorder {
    type Response = Bytes;
    type ResponseStream = Streaming<Bytes>;
    type Future = Answer<Response<Streaming<Bytes>>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let recorder = self.clone();
        Box::pin(async move {
            let (metadata, _, stream) = request.into_parts();
            let (words, noted) = (words(&metadata), recorder.clone());
            let requests = stream.filter_map(Result::ok).map(move |bytes| {
                if let Err(error) = noted.note(&bytes, &words) {
                    eprintln!("not recorded: {error:#}");
                }
                bytes
            });
            let path = path_of(&recorder.schema.put).map_err(|error| Status::internal(error.to_string()))?;
            let mut client = tonic::client::Grpc::new(recorder.upstream);
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut passed = Request::new(requests);
            *passed.metadata_mut() = metadata;
            client.streaming(passed, path, Raw).await
        })
    }
}

/// Passes a request with one answer on.
struct Lease(Recorder);

impl tonic::server::UnaryService<Bytes> for Lease {
    type Response = Bytes;
    type Future = Answer<Response<Bytes>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let recorder = self.0.clone();
        Box::pin(async move {
            let path =
                path_of(&recorder.schema.lease).map_err(|error| Status::internal(error.to_string()))?;
            let mut client = tonic::client::Grpc::new(recorder.upstream);
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            client.unary(request, path, Raw).await
        })
    }
}

impl tower::Service<http::Request<Body>> for Recorder {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let recorder = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw);
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            if name == recorder.schema.put.name() {
                Ok(grpc.streaming(recorder, request).await)
            } else {
                Ok(grpc.unary(Lease(recorder), request).await)
            }
        })
    }
}

/// Listens on one Unix socket, passes on to another one, and writes batches of a checkout's schema to a file, until killed.
///
/// # Errors
/// A socket or the file can't be used.
pub async fn run(checkout: &Path, listen: &Path, upstream: PathBuf, file: &Path) -> anyhow::Result<()> {
    let connect = move |_| {
        let upstream = upstream.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(upstream).await?)) }
    };
    let upstream =
        Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(connect));
    let schema = Arc::new(Schema::of(checkout)?);
    let recorder = Recorder { schema, upstream, file: Arc::new(Mutex::new(File::create(file)?)) };
    let connections = UnixListenerStream::new(UnixListener::bind(listen)?);
    Ok(Server::builder().add_service(recorder).serve_with_incoming(connections).await?)
}
