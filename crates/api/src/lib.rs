//! Requests and answers of the JSON API as types, for both sides of HTTP. `openapi.yaml` of the gateway is the contract.
//!
//! It must not do I/O, nor know the database.
