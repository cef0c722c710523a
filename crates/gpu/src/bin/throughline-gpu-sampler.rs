//! The sampler as a program of its own, for tests and for trying a library by hand. The agent contains the
//! same code and starts itself; it does not need this program. It must do nothing but call the sampler.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == throughline_gpu::SUBCOMMAND => throughline_gpu::sampler_main(arguments),
        Some(word) if word == throughline_gpu::cupti::CUPTI_SUBCOMMAND => {
            throughline_gpu::cupti::cupti_sampler_main(arguments)
        }
        Some(word) if word == throughline_gpu::cupti::CHIPS_SUBCOMMAND => {
            throughline_gpu::cupti::chips_main(arguments)
        }
        _ => {
            eprintln!(
                "usage: throughline-gpu-sampler {}|{}|{} ARGUMENTS",
                throughline_gpu::SUBCOMMAND,
                throughline_gpu::cupti::CUPTI_SUBCOMMAND,
                throughline_gpu::cupti::CHIPS_SUBCOMMAND
            );
            ExitCode::from(64)
        }
    }
}
