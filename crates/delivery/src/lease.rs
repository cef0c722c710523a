//! Requests to a collector for the decision which of several crawlers of a subnet sweeps. One connection, opened again when it broke.

use std::time::Duration;

use tonic::transport::Channel;

use crate::GrpcSink;
use crate::authorization::{Authorization, authorized};
use crate::sink::{Reason, Sink, SinkError};
use crate::wire::collect_client::CollectClient;
use crate::wire::{LeaseRequest, LeaseResponse};

/// A shorter lease would be lost to a single slow transaction of the database.
pub const LEASE_SHORTEST: Duration = Duration::from_secs(2);
/// With a longer one a subnet would stay unread for minutes after a crawler died.
pub const LEASE_LONGEST: Duration = Duration::from_secs(600);

/// Time for an answer: the shortest lease.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A connection with what its requests are authorised by, and the place of its address.
type Connected = (CollectClient<Channel>, Authorization, usize);

/// Requests leases from a collector.
pub struct Leases {
    sink: GrpcSink,
    client: Option<Connected>,
}

impl Leases {
    /// Connects with the first request.
    #[must_use]
    pub fn new(sink: GrpcSink) -> Leases {
        Leases { sink, client: None }
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// The collector or its database is away, or the request is not valid.
    pub async fn ask(&mut self, request: LeaseRequest) -> Result<LeaseResponse, SinkError> {
        let work = async {
            let (mut client, authorization, place) = match self.client.take() {
                Some(client) => client,
                None => {
                    let (channel, place) = self.sink.channel().await?;
                    (CollectClient::new(channel), self.sink.authorization()?, place)
                }
            };
            let answer = client.lease(authorized(request, authorization.as_ref())).await;
            let answer = answer.map_err(|status| self.sink.status(Some(place), &status))?.into_inner();
            self.client = Some((client, authorization, place));
            Ok(answer)
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT, work).await;
        let late = || self.sink.error(None, Reason::Silent, "no answer about the lease in 2 s");
        let answer = answer.unwrap_or_else(|_| Err(late()));
        // The next request goes to another collector, where there are several.
        answer.inspect_err(|error| self.sink.failed(error))
    }
}
