//! `baremark-gpu`: the programs of the study `gpu`.

use baremark_gpu::arguments::Arguments;
use baremark_gpu::member::{self, On};
use baremark_gpu::mix::{self, Mode};
use baremark_gpu::net::BATCH;
use baremark_gpu::vulkan::{Choice, Device};
use baremark_gpu::{render, train};
use std::process::ExitCode;

const HELP: &str = "\
baremark-gpu COMMAND [--OPTION VALUE]...

Commands:
  mix      run members `render` and one `train`; print their times as JSON
  render   draw fixed frames of a CAD-like scene off-screen (a member)
  train    train a small convolutional network on digits (a member)
  device   print the Vulkan device that would be used
  help     print this text

Options, with the defaults:
  --device vulkan        vulkan: a GPU if there is one, else a software driver; none: frames by the software driver, training in plain Rust;
                         software: the software driver for both
  --mode together        of mix: together, sequential (each kind alone, one after the other), render or train (that kind alone)
  --gpu-memory 24        of mix: GiB of GPU memory of all members that draw
  --profile 8            of mix: GiB of GPU memory of each of them; gpu-memory / profile members draw
  --train-profile 8      of mix: GiB of GPU memory of the member that trains
  --memory 0             MiB of private memory of each member; 0 for no limit
  --frames 30            frames of each member that draws
  --width 1280 --height 720
  --detail 4             gear boxes along a side of the scene
  --epochs 2             epochs of training
  --digits 2048          digits of an epoch, rounded down to whole batches of 64
  --threads 0            threads of training in plain Rust; 0 for one a CPU
  --device-memory 8192   of render and train: MiB of the device's memory
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_else(|| "help".to_owned());
    match done(&command, words) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("baremark-gpu {command}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What a command prints.
fn done(command: &str, words: impl Iterator<Item = String>) -> Result<String, String> {
    let mut arguments = Arguments::read(words)?;
    match command {
        "mix" => mixed(&mut arguments),
        "render" => rendered(&mut arguments),
        "train" => trained(&mut arguments),
        "device" => device(&mut arguments),
        "help" | "--help" | "-h" => Ok(HELP.trim_end().to_owned()),
        _ => Err("unknown command; `baremark-gpu help` lists them".to_owned()),
    }
}

/// Options of one kind of member, read and left as they were typed.
fn of_render(arguments: &mut Arguments) -> Result<[(&'static str, u64); 4], String> {
    Ok([
        ("frames", arguments.number("frames", 30, (1, 100_000))?),
        ("width", arguments.number("width", 1280, (16, 8192))?),
        ("height", arguments.number("height", 720, (16, 8192))?),
        ("detail", arguments.number("detail", 4, (1, 64))?),
    ])
}

fn of_train(arguments: &mut Arguments) -> Result<[(&'static str, u64); 3], String> {
    Ok([
        ("epochs", arguments.number("epochs", 2, (1, 100_000))?),
        ("digits", arguments.number("digits", 2048, (BATCH as u64, 1 << 20))?),
        ("threads", arguments.number("threads", 0, (0, 4096))?),
    ])
}

fn mixed(arguments: &mut Arguments) -> Result<String, String> {
    let all = arguments.number("gpu-memory", 24, (1, 65_536))?;
    let profile = arguments.number("profile", 8, (1, all))?;
    let of_train_gib = arguments.number("train-profile", 8, (1, 65_536))?;
    let memory = arguments.number("memory", 0, (0, 1 << 40))?;
    let limits = |gib: u64| [("device-memory", 1024 * gib), ("memory", memory)];
    let settings = mix::Settings {
        mode: arguments.word("mode", &Mode::WORDS)?,
        on: arguments.word("device", &On::WORDS)?,
        renders: usize::try_from(all / profile).map_err(|_too_many| "--gpu-memory: too much".to_owned())?,
        render: of_render(arguments)?.into_iter().chain(limits(profile)).collect(),
        train: of_train(arguments)?.into_iter().chain(limits(of_train_gib)).collect(),
    };
    arguments.none_left()?;
    as_json(&mix::run(&settings)?)
}

/// The limit of the device's memory in bytes; that of the process is set.
fn limited(arguments: &mut Arguments) -> Result<u64, String> {
    let device = arguments.number("device-memory", 8192, (1, 1 << 40))?;
    let own = arguments.number("memory", 0, (0, 1 << 40))?;
    if own > 0 {
        member::limit_memory(own << 20)?;
    }
    Ok(device << 20)
}

fn rendered(arguments: &mut Arguments) -> Result<String, String> {
    let on = arguments.word("device", &On::WORDS)?;
    let [frames, width, height, detail] = of_render(arguments)?.map(|(_, value)| value);
    let device_bytes = limited(arguments)?;
    arguments.none_left()?;
    let size = (width as u32, height as u32);
    as_json(&render::run(render::Settings { on, frames: frames as u32, detail: detail as u16, size, device_bytes })?)
}

fn trained(arguments: &mut Arguments) -> Result<String, String> {
    let on = arguments.word("device", &On::WORDS)?;
    let [epochs, digits, threads] = of_train(arguments)?.map(|(_, value)| value);
    let device_bytes = limited(arguments)?;
    arguments.none_left()?;
    let digits = digits as usize / BATCH * BATCH;
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    };
    as_json(&train::run(train::Settings { on, epochs: epochs as u32, digits, threads, device_bytes })?)
}

fn device(arguments: &mut Arguments) -> Result<String, String> {
    let on = arguments.word("device", &On::WORDS)?;
    arguments.none_left()?;
    let choice = if on == On::Vulkan { Choice::Any } else { Choice::Software };
    let device = Device::open(choice, 0).map_err(|why| why.to_string())?;
    Ok(format!("{} ({})", device.name(), if device.is_hardware() { "a GPU" } else { "the processor" }))
}

fn as_json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|why| why.to_string())
}
