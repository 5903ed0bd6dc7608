//! Members as they are run: with their conductor, and by themselves, on the software driver where there is one.
#![allow(clippy::unwrap_used, clippy::allow_attributes, missing_docs, reason = "a test crate")]

use baremark_gpu::digits::drawn;
use baremark_gpu::net::{self, BATCH, LAYERS};
use baremark_gpu::net_vulkan::OnDevice;
use baremark_gpu::vulkan::{Choice, Device, Error, Purpose};
use serde_json::Value;
use std::process::{Command, Output};

/// The software driver; what is missing is counted as a skip.
fn software(limit: u64) -> Option<Device> {
    match Device::open(Choice::Software, limit) {
        Ok(device) => Some(device),
        Err(why @ (Error::Load(_) | Error::None { .. } | Error::Call { .. })) => {
            println!("skipped: Vulkan in software: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baremark-gpu")).args(arguments.split_whitespace()).output().unwrap()
}

fn mixed(arguments: &str) -> Value {
    let ran = run(&format!("mix {arguments}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

const SMALL: &str = "--frames 3 --width 160 --height 120 --detail 1 --epochs 2 --digits 512";

/// Training in plain Rust needs no driver, and learns.
#[test]
fn training_without_a_gpu_learns() {
    let of = mixed("--mode train --device none --epochs 3 --digits 1024");
    assert!(of["recognised_percent"].as_f64().unwrap() > 60.0, "{of}");
    assert!(of["train_s"].as_f64().unwrap() > 0.0 && of.get("render_s").is_none(), "{of}");
    assert_eq!(of["gpu_percent_blank"], "no GPU was used");
}

/// A network that was not trained enough is no result.
#[test]
fn a_network_that_has_not_learnt_is_refused() {
    let ran = run("mix --mode train --device none --epochs 1 --digits 64");
    let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && complaint.contains("train it longer"), "{complaint}");
}

#[test]
fn kernels_have_the_gradients_of_plain_rust() {
    let Some(device) = software(u64::MAX) else { return };
    let digits = drawn(2 * BATCH, 9);
    let weights = net::weights(4);
    let on_device = OnDevice::new(&device, &weights, &digits).unwrap();
    on_device.warm_up().unwrap();
    for (found, initial) in on_device.weights().unwrap().iter().zip(&weights) {
        assert_eq!(found, initial, "the warm-up leaves no trace");
    }
    let image = LAYERS[0].inputs();
    let second = &digits.pixels[BATCH * image..];
    let expected = net::gradient(&weights, second, &digits.labels[BATCH..], 2);
    let first_scores: Vec<f32> =
        digits.pixels.chunks(image).take(BATCH).flat_map(|image| net::outputs(&weights, image)[2].clone()).collect();
    near(&on_device.scores(0).unwrap(), &first_scores, "scores");
    for (index, (found, expected)) in on_device.gradient(1).unwrap().iter().zip(&expected).enumerate() {
        near(found, expected, &format!("gradient of layer {index}"));
    }
    let mut stepped = weights;
    net::step(&mut stepped, second, &digits.labels[BATCH..], 1);
    for (found, expected) in on_device.weights().unwrap().iter().zip(&stepped) {
        near(found, expected, "weights after a step");
    }
}

fn near(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let off = found.iter().zip(expected).fold(0.0_f32, |most, (one, other)| most.max((one - other).abs()));
    assert!(off <= 1e-4 * largest, "{what}: off by {off} of {largest}");
}

#[test]
fn both_modes_on_the_software_driver_and_without() {
    if software(0).is_none() {
        return;
    }
    for device in ["software", "none"] {
        let together = mixed(&format!("--mode together --gpu-memory 2 --profile 1 --device {device} {SMALL}"));
        let sequential = mixed(&format!("--mode sequential --gpu-memory 2 --profile 1 --device {device} {SMALL}"));
        let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("no {key} in {of}"));
        let sum = number(&sequential, "render_longest_s") + number(&sequential, "train_s");
        assert!((number(&sequential, "total_s") / sum - 1.0).abs() < 0.2, "{sequential}");
        assert!(
            number(&together, "overlap_percent") > 0.0 && number(&sequential, "overlap_percent") == 0.0,
            "{together}"
        );
        for of in [&together, &sequential] {
            assert_eq!((number(of, "renders"), number(of, "gpus")), (2.0, 0.0), "{of}");
            assert!(number(of, "cpu_percent") > 0.0 && number(of, "recognised_percent") > 60.0, "{of}");
            assert!(of.get("gpu_percent").is_none() && of["gpu_percent_blank"].is_string(), "{of}");
        }
    }
}

/// Both limits of a member's memory bind, and say so.
#[test]
fn memory_beyond_a_members_limit_is_refused() {
    let Some(device) = software(1 << 20) else { return };
    assert!(device.buffer(1 << 19, Purpose::Storage).is_ok());
    let why = device.buffer(1 << 20, Purpose::Storage).unwrap_err().to_string();
    assert!(why.contains("exceed the limit of 1048576"), "{why}");
    let ran = run("render --device software --device-memory 1");
    let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && complaint.contains("exceed the limit of 1048576"), "{complaint}");
    let ran = run(&format!("mix --mode train --device none --memory 2 {SMALL}"));
    assert!(!ran.status.success(), "2 MiB are too few to train");
}

/// A member whose conductor is gone ends, with its reason.
#[test]
fn a_member_without_a_conductor_ends() {
    let ran = run("train --device none --digits 64");
    let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && complaint.contains("baremark-gpu mix"), "{complaint}");
}
