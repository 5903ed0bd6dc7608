//! Compiles the shaders of `shaders/` to SPIR-V, so that no compiler is needed where the program runs.

use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use std::path::Path;
use std::{env, fs};

fn main() {
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    assert!(
        !features.split(',').any(|feature| feature == "crt-static"),
        "a static program cannot load a Vulkan driver; build with `make gpu-programs` in the project's root"
    );
    for name in ["train", "render"] {
        let path = format!("shaders/{name}.wgsl");
        println!("cargo::rerun-if-changed={path}");
        let source = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
        let bytes: Vec<u8> = compiled(&path, &source).iter().flat_map(|word| word.to_le_bytes()).collect();
        let out = env::var("OUT_DIR").expect("set by cargo");
        fs::write(Path::new(&out).join(format!("{name}.spv")), bytes).expect("writing into OUT_DIR");
    }
}

/// The module of one file with all its entry points. Coordinates are left as Vulkan has them: y points down.
fn compiled(path: &str, source: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|why| panic!("{}", why.emit_to_string_with_path(source, path)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|why| panic!("{path}: {}", why.emit_to_string(source)));
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        force_loop_bounding: false,
        ..spv::Options::default()
    };
    spv::write_vec(&module, &info, &options, None).unwrap_or_else(|why| panic!("{path}: {why}"))
}
