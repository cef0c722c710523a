//! A request that the read replica did not answer is answered by the primary.

use crate::api_error::DatabaseAbsent;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use throughline_query::{ReadPath, at_primary as with_primary};

/// Works on a request, and once more with the primary where the replica was lost meanwhile or ended its statement.
pub async fn at_primary(State(path): State<ReadPath>, request: Request, next: Next) -> Response {
    if !path.uses_replica() {
        return next.run(request).await;
    }
    // What is written is written there, and once.
    if request.method() == Method::POST {
        return with_primary(next.run(request)).await;
    }
    // Requests of the API have no body.
    let (parts, _) = request.into_parts();
    let first = next.clone().run(Request::from_parts(parts.clone(), Body::empty()));
    tokio::select! {
        response = first => {
            if response.extensions().get::<DatabaseAbsent>().is_none() {
                return response;
            }
        }
        // One that hangs would be noticed much later by the connection.
        () = path.replica_lost() => {}
    }
    tracing::debug!(path = parts.uri.path(), "the replica did not answer a request: the primary does");
    with_primary(next.run(Request::from_parts(parts, Body::empty()))).await
}
