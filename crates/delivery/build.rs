//! Generates the gRPC client and server of proto/collect.proto with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/collect.proto");
    let descriptors = protox::compile(["collect.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
