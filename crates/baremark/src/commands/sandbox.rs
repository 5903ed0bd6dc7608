//! `baremark sandbox`: the program as the launcher of a sandbox, between whoever wants it and the program inside.

use crate::exit::{Exit, Refusal};
use baremark_environments::sandbox::launcher::{self, Orders};
use baremark_sys::sandbox::Layer;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the sandbox is, and what runs in it.
#[derive(clap::Args)]
pub struct SandboxArgs {
    /// What separates it from this machine [default: everything]
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', value_parser = layer)]
    layers: Vec<Layer>,
    /// A folder that may be written
    #[arg(long, value_name = "FOLDER")]
    write: Vec<PathBuf>,
    /// A file or folder that is seen, wherever it lies
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// The most memory
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// A CPU that may be used
    #[arg(long, value_name = "NUMBER")]
    cpu: Vec<usize>,
    /// The program's file and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

fn layer(name: &str) -> Result<Layer, String> {
    let names = || Layer::ALL.map(Layer::name).join(", ");
    Layer::of_name(name).ok_or_else(|| format!("unknown layer; write {}", names()))
}

/// Launches the program and ends as it has ended.
pub fn run(args: &SandboxArgs) -> Result<(String, Exit), Refusal> {
    let orders = Orders {
        layers: if args.layers.is_empty() { Layer::ALL.to_vec() } else { args.layers.clone() },
        write: args.write.clone(),
        read: args.read.clone(),
        memory_bytes: args.memory,
        cpus: args.cpu.clone(),
        command: args.command.clone(),
    };
    let status = launcher::launch(&orders).map_err(Refusal::failure)?;
    Ok((String::new(), Exit::Program(status)))
}
