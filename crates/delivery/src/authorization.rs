//! What a request is authorised by.

use tonic::metadata::{Ascii, MetadataValue};

/// The value of its header, if there is one.
pub(crate) type Authorization = Option<MetadataValue<Ascii>>;

/// A request with its authorization header, if there is one.
pub(crate) fn authorized<T>(message: T, authorization: Option<&MetadataValue<Ascii>>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(value) = authorization {
        request.metadata_mut().insert("authorization", value.clone());
    }
    request
}
