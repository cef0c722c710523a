//! The wire of a build, by its own schema: batches are JSON here, and become what the build's `.proto` files say. So one sender
//! serves any build.

use anyhow::{Context, anyhow, ensure};
use bytes::{Buf, BufMut, Bytes};
use prost_reflect::prost::Message as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor,
    SerializeOptions, Value as Field,
};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Raw {
        Raw
    }
}
impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}
impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}

/// What a build's schema files say.
pub struct Schema {
    /// The method that takes batches.
    pub put: MethodDescriptor,
    /// That of crawlers' leases.
    pub lease: MethodDescriptor,
    batch: MessageDescriptor,
}

/// Folders of schema files, below a checkout.
const FOLDERS: [&str; 2] = ["crates/sample/proto", "crates/delivery/proto"];

impl Schema {
    /// Reads the schema files of a checkout.
    ///
    /// # Errors
    /// They are not there, or are not of this form: a method that takes a stream of messages with an encoded `Batch`.
    pub fn of(checkout: &Path) -> anyhow::Result<Self> {
        let folders = FOLDERS.map(|folder| checkout.join(folder));
        let mut files = Vec::new();
        for folder in &folders {
            let entries =
                std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            files.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "proto")));
        }
        let pool = DescriptorPool::from_file_descriptor_set(protox::compile(files, folders)?)?;
        let method = |streams: bool| {
            let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
            let mut methods = methods.filter(move |method| method.is_client_streaming() == streams);
            methods.next().ok_or_else(|| anyhow!("{}: no method of this kind", checkout.display()))
        };
        let batch =
            pool.all_messages().find(|message| message.name() == "Batch").context("no message Batch")?;
        Ok(Self { put: method(true)?, lease: method(false)?, batch })
    }

    /// Whether batches of crawlers say which fabric they see, and not only its subnet prefix.
    pub fn knows_fabrics(&self) -> bool {
        self.batch.get_field_by_name("fabric").is_some()
    }

    /// A batch as JSON, with the names of its fields as in the schema.
    ///
    /// # Errors
    /// The bytes are no batch.
    pub fn batch_to_json(&self, bytes: &[u8]) -> anyhow::Result<Value> {
        let message = DynamicMessage::decode(self.batch.clone(), bytes)?;
        let options = SerializeOptions::new().use_proto_field_name(true);
        Ok(message.serialize_with_options(serde_json::value::Serializer, &options)?)
    }

    fn batch_to_bytes(&self, batch: &Value) -> anyhow::Result<Vec<u8>> {
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let message = DynamicMessage::deserialize_with_options(self.batch.clone(), batch, &options);
        Ok(message.with_context(|| format!("{batch:.300}"))?.encode_to_vec())
    }

    /// A request to put one batch.
    fn request(&self, line: &Value, sequence: u64) -> anyhow::Result<Bytes> {
        let mut message = DynamicMessage::new(self.put.input());
        message.set_field_by_name("spool_id", Field::Bytes(spool_bytes(line)?));
        message.set_field_by_name("sequence", Field::U64(sequence));
        message.set_field_by_name("batch", Field::Bytes(self.batch_to_bytes(&line["batch"])?.into()));
        Ok(message.encode_to_vec().into())
    }
}

/// Where a method is served.
pub fn path_of(method: &MethodDescriptor) -> anyhow::Result<PathAndQuery> {
    Ok(format!("/{}/{}", method.parent_service().full_name(), method.name()).try_into()?)
}

fn spool_bytes(line: &Value) -> anyhow::Result<Bytes> {
    let text = line["spool"].as_str().context("a line without spool")?;
    let bytes: Result<Vec<u8>, _> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16)).collect();
    Ok(bytes?.into())
}

/// Sends the lines of the recorded input, one after the other: each is committed before the next, so that the numbers that
/// a database gives its rows are the same each time.
pub struct Sender<'a> {
    schema: &'a Schema,
    channel: Channel,
    streams: HashMap<String, (mpsc::Sender<Bytes>, Streaming<Bytes>)>,
    /// Of the last line; rising, as each spool's have to.
    sequence: u64,
}

impl<'a> Sender<'a> {
    /// Connects to a server's listener for batches.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(schema: &'a Schema, address: &str) -> anyhow::Result<Self> {
        let channel = Endpoint::try_from(format!("http://{address}"))?.connect().await?;
        Ok(Self { schema, channel, streams: HashMap::new(), sequence: 0 })
    }

    /// Sends one line and waits until the server has stored it.
    ///
    /// # Errors
    /// It does not fit the schema, or the server refuses it.
    pub async fn send(&mut self, line: &Value) -> anyhow::Result<()> {
        let spool = line["spool"].as_str().context("a line without spool")?.to_owned();
        if !self.streams.contains_key(&spool) {
            let opened = self.open(line).await?;
            self.streams.insert(spool.clone(), opened);
        }
        let (requests, responses) = self.streams.get_mut(&spool).context("a stream")?;
        self.sequence += 1;
        requests
            .send(self.schema.request(line, self.sequence)?)
            .await
            .context("the server ended the stream")?;
        loop {
            let bytes = responses.message().await?.context("the server ended the stream")?;
            let response = DynamicMessage::decode(self.schema.put.output(), bytes)?;
            let text = response.to_string();
            ensure!(!response.has_field_by_name("refusal"), "a batch is refused: {text}");
            let stored = response.get_field_by_name("acknowledged").and_then(|field| field.as_u64());
            if stored >= Some(self.sequence) {
                return Ok(());
            }
        }
    }

    async fn open(&self, line: &Value) -> anyhow::Result<(mpsc::Sender<Bytes>, Streaming<Bytes>)> {
        let (requests, queue) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(queue));
        for (key, value) in line["metadata"].as_object().into_iter().flatten() {
            let value = AsciiMetadataValue::try_from(value.as_str().unwrap_or_default())?;
            request.metadata_mut().insert(AsciiMetadataKey::from_bytes(key.as_bytes())?, value);
        }
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await?;
        let response = client.streaming(request, path_of(&self.schema.put)?, Raw).await?;
        Ok((requests, response.into_inner()))
    }
}
