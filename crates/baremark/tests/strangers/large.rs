//! Files that are made to take time and memory: bundles, results of other programs, compared files, fio's job files and studies. Whoever reads
//! one takes at most 256 MiB, whatever is in it. The time of a CPU is printed; what grows with the square of a size would take hours, after which
//! the command is ended.

use crate::bench::{Bench, text};
use crate::bundled;
use baremark_bundle::{Bundle, MOST_BYTES, pack, unpack};
use baremark_sys::subreaper;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most memory.
const MEMORY: u64 = 256 << 20;
/// After which a command never ends.
const HANGS: Duration = Duration::from_secs(550);

/// Exit code and output of a command within these bounds.
fn bounded(bench: &Bench, arguments: &[&str]) -> (Option<i32>, String) {
    let said = bench.path("said");
    let output = File::create(&said).unwrap();
    let mut command = bench.command(arguments);
    let mut child = command.stdout(output.try_clone().unwrap()).stderr(output).stdin(Stdio::null()).spawn().unwrap();
    // The peak that the kernel has at the end is at least that of the process which started it. What is reached and given back between two looks
    // is missed.
    let (done, id) = (Arc::new(AtomicBool::new(false)), child.id());
    let watched = Arc::clone(&done);
    let watcher = thread::spawn(move || {
        let mut peak = 0;
        while !watched.load(Ordering::Relaxed) {
            peak = peak.max(peak_of(id));
            thread::sleep(Duration::from_millis(2));
        }
        peak
    });
    let ended = subreaper::wait(id, Instant::now() + HANGS).unwrap();
    done.store(true, Ordering::Relaxed);
    let peak = watcher.join().unwrap();
    let Some(ended) = ended else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{arguments:?} has not ended after {HANGS:?}");
    };
    let used = ended.used.user + ended.used.system;
    let said = text(&fs::read(&said).unwrap());
    let said: String = said.chars().take(4000).collect();
    println!("{arguments:?}: {:.2} s, {} MiB", used.as_secs_f64(), peak >> 20);
    assert!(peak <= MEMORY, "{arguments:?} took {} MiB: {said}", peak >> 20);
    assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{arguments:?}: {said}");
    (ended.status.code(), said)
}

/// The most memory that a process has had at once, in bytes; 0 of one that has ended.
fn peak_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

/// A file of `before`, so many of `one`, and `after`.
fn write(bench: &Bench, name: &str, [before, one, after]: [&str; 3], count: usize) {
    let mut file = BufWriter::new(File::create(bench.path(name)).unwrap());
    file.write_all(before.as_bytes()).unwrap();
    for _ in 0..count {
        file.write_all(one.as_bytes()).unwrap();
    }
    file.write_all(after.as_bytes()).unwrap();
    file.flush().unwrap();
}

const HYPERFINE: [&str; 2] =
    ["{\"results\": [{\"command\": \"true\", \"mean\": 0.5, \"median\": 0.5, \"times\": [", "0.5]}]}"];
/// The same up to a command of any length.
const COMMAND: &str = "{\"results\": [{\"mean\": 1, \"median\": 1, \"command\": \"";

/// Files of other programs, with what is said of them; `None` where they are read.
fn of_others(bench: &Bench) -> Vec<(&'static str, Option<&'static str>)> {
    let mib = "x".repeat(1 << 20);
    let [hyperfine, end] = HYPERFINE;
    write(bench, "deep.json", ["{\"command\": 1, \"median\": 1, \"results\": ", "[", ""], 1_000_000);
    write(bench, "values.json", [hyperfine, "0.5,", end], 100_000);
    write(bench, "text.json", [COMMAND, &mib, "\", \"times\": [1, 2, 3]}]}"], 30);
    write(bench, "long.json", [COMMAND, &mib, "\", \"times\": [1, 2, 3]}]}"], 40);
    write(bench, "objects.json", ["{\"command\": 1, \"median\": 1, \"results\": [", "{},", "{}]}"], 3_000_000);
    write(
        bench,
        "keys.json",
        ["{\"command\": 1, \"median\": 1, \"results\": [], ", "\"a\": 1, ", "\"b\": 1}"],
        1_000_000,
    );
    write(bench, "escapes.json", [COMMAND, "\\u0041", "\", \"times\": [1]}]}"], 6_000_000);
    write(bench, "deep.xml", ["<PhoronixTestSuite>", "<a>", ""], 1_000_000);
    write(bench, "wide.xml", ["<PhoronixTestSuite>", "<a>b</a>", "</PhoronixTestSuite>"], 1_000_000);
    write(
        bench,
        "lines.txt",
        ["Running 30s test @ http://127.0.0.1/\n", "  4 threads and 100 connections\n", ""],
        1_000_000,
    );
    vec![
        ("deep.json", Some("recursion limit")),
        ("values.json", None),
        ("text.json", Some("more than 16 MiB of names of benchmarks")),
        ("long.json", Some("longer than 32 MiB")),
        ("objects.json", Some("its values take more than 128 MiB of memory")),
        ("keys.json", Some("the key \"a\" is there twice")),
        ("escapes.json", Some("longer than 32 MiB")),
        ("deep.xml", Some("more than 64 elements are open at once")),
        ("wide.xml", Some("more than 1000000 elements")),
        ("lines.txt", Some("wrk")),
    ]
}

#[test]
fn imported_files() {
    let bench = Bench::new();
    for (name, refused) in of_others(&bench) {
        let (code, said) = bounded(&bench, &["import", name, "--quiet"]);
        assert_eq!(code, Some(if refused.is_some() { 2 } else { 0 }), "{name}: {said}");
        assert!(said.contains(refused.unwrap_or("values: 100001")), "{name}: {said}");
    }
    write(&bench, "table.csv", ["test,seconds\n", "a name that is there many times,1.25\n", ""], 20_000);
    let (code, said) = bounded(&bench, &["import", "table.csv", "--quiet", "--columns", "test,seconds:lower:s"]);
    assert!(code == Some(0) && said.contains("values: 20000"), "{said}");
    // A column that nobody asked for is not kept: a table took seven times its size in memory.
    let row = format!("sort,1.25,{}\n", "x".repeat(60 << 10));
    write(&bench, "comments.csv", ["test,seconds,comment\n", &row, ""], 1000);
    let (code, said) = bounded(&bench, &["import", "comments.csv", "--quiet", "--columns", "test,seconds:lower:s"]);
    assert!(code == Some(0) && said.contains("values: 1000"), "{said}");
}

#[test]
fn compared_files() {
    let bench = Bench::new();
    let [hyperfine, end] = HYPERFINE;
    write(&bench, "sound.json", [hyperfine, "0.5,", end], 10);
    for (name, refused) in of_others(&bench) {
        let (code, said) = bounded(&bench, &["compare", "sound.json", name]);
        let expected = refused.unwrap_or("100001 values, more than the");
        assert!(code == Some(2) && said.contains(expected), "{name}: {said}");
    }
    let document = "{\"format\": \"baremark-result/3\", \"trials\": [";
    let format = baremark_model::document::FORMAT;
    let document = document.replace("baremark-result/3", format);
    write(&bench, "trials.json", [&document, "{},", "{}]}"], 2_000_000);
    write(&bench, "deep-trials.json", [&document, "[", ""], 1_000_000);
    let mib = "x".repeat(1 << 20);
    write(&bench, "title.json", [&document.replace("trials\": [", "title\": \""), &mib, "\"}"], 30);
    for (name, says) in [
        ("trials.json", "its values take more than"),
        ("deep-trials.json", "is a result document that is cut off"),
        ("title.json", "missing field"),
    ] {
        let (code, said) = bounded(&bench, &["compare", name, "sound.json"]);
        assert!(code == Some(2) && said.contains(says), "{name}: {said}");
    }
    // What goes on for ever or never begins, and a folder of many files.
    fs::create_dir(bench.path("many")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.path("many/a.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.path("zero.json")).unwrap();
    for number in 0..200 {
        write(&bench, &format!("many/{number}.json"), [hyperfine, &format!("0.5{number:03},"), end], 1000);
    }
    let (code, said) = bounded(&bench, &["compare", "many", "sound.json"]);
    assert!(code == Some(2) && said.contains("that the files of a side may still have"), "{said}");
    let (code, said) = bounded(&bench, &["compare", "zero.json", "sound.json"]);
    assert!(code == Some(2), "{said}");
}

/// A folder has what it has: what is no result is named and left out, and what is a damaged one is not.
#[test]
fn a_folder_of_results_and_other_files_is_compared_without_these() {
    let bench = Bench::new();
    let [hyperfine, end] = HYPERFINE;
    for side in ["old", "new"] {
        fs::create_dir(bench.path(side)).unwrap();
        for number in 0..3 {
            let value = format!("0.5{number},");
            write(&bench, &format!("{side}/{number}.json"), [hyperfine, &value, end], 10);
        }
    }
    bench.write("old/package.json", "{\"name\": \"a package\"}");
    bench.write("old/list.json", "[1, 2]");
    let (code, said) = bounded(&bench, &["compare", "old", "new"]);
    assert_eq!(code, Some(0), "{said}");
    let warned = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        warned.contains("left out, neither a result document nor results of a program that is recognised: old/list.json, old/package.json"),
        "{said}"
    );
    let (_, said) = bounded(&bench, &["compare", "old", "old/package.json"]);
    let remedy = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        remedy.contains("old/package.json is neither a result document nor results of another program: its format is not recognised; name a run"),
        "{said}"
    );
    assert!(
        remedy.contains("`baremark import FILE --format FORMAT --as NAME`") && !remedy.contains("--columns"),
        "{said}"
    );
    let document = format!("{{\"format\": \"{}\", \"trials\": [{{", baremark_model::document::FORMAT);
    bench.write("old/document.json", document);
    let (code, said) = bounded(&bench, &["compare", "old", "new"]);
    assert!(code == Some(2) && said.contains("document.json") && said.contains("that is cut off"), "{said}");
    fs::remove_file(bench.path("old/document.json")).unwrap();
    bench.write(
        "old/cut.json",
        "{\"results\": [{\"command\": \"true\", \"mean\": 0.5, \"median\": 0.5, \"times\": [0.5, 0.",
    );
    let (code, said) = bounded(&bench, &["compare", "old", "new"]);
    assert!(code == Some(2) && said.contains("cut.json") && said.contains("cut off"), "{said}");
    fs::create_dir(bench.path("others")).unwrap();
    bench.write("others/package.json", "{}");
    let (code, said) = bounded(&bench, &["compare", "others", "new"]);
    assert!(code == Some(2) && said.contains("no file in it is a result document"), "{said}");
}

#[test]
fn bundles() {
    let bench = Bench::new();
    let bundle = unpack(bundled::bundled(&bench).as_slice()).unwrap();
    let trials: Value = serde_json::from_slice(&bundle.trials).unwrap();
    let verified = |name: &str, bundle: &Bundle| {
        fs::write(bench.path("large.tar.gz"), pack(bundle).unwrap()).unwrap();
        let (code, said) = bounded(&bench, &["verify", "large.tar.gz"]);
        assert!(matches!(code, Some(2 | 4)), "{name}: {said}");
        said
    };
    let trial = |change: &dyn Fn(&mut Value)| {
        let mut trials = trials.clone();
        change(&mut trials[0]["result"]["series"][0]);
        Bundle { trials: serde_json::to_vec(&trials).unwrap(), ..bundle.clone() }
    };
    let sample = |metric: String| json!({ "metric": metric, "value": 1.0 });
    let many = |count: usize| (0..count).map(|at| sample(format!("a{at}_p50_us"))).collect::<Vec<Value>>();
    let said = verified("metrics", &trial(&|phase| phase["samples"] = many(100_000).into()));
    assert!(said.contains("more metrics or distributions than any run has"), "{said}");
    // Distributions that are as long as they can be, in which every latency is there once.
    let whole: baremark_model::histogram::Histogram = (0..22_000_u64).map(|at| (at * at * 400, 1)).collect();
    let whole = baremark_model::hdr::encoded(&whole).unwrap();
    let point = json!({ "name": "all", "begin_ns": 0, "end_ns": 1, "histogram": whole, "distributions": ["wall_ms"] });
    let points = usize::try_from(MOST_BYTES[3]).unwrap() / (2 * point.to_string().len());
    // 900 percentiles of that distribution: 10.0 % to 99.9 %.
    let percentiles = (100..1000).map(|at| sample(format!("wall_p{}_{}_ms", at / 10, at % 10))).collect::<Vec<_>>();
    let said = verified(
        "points",
        &trial(&|phase| {
            phase["samples"] = percentiles.clone().into();
            phase["points"] = vec![point.clone(); points].into();
        }),
    );
    assert!(said.contains("NOT verified"), "{said}");
    // One long distribution, to which very many short ones are added.
    let short = baremark_model::hdr::encoded(&[(1, 1)].into_iter().collect()).unwrap();
    let short = json!({ "name": "", "begin_ns": 0, "end_ns": 1, "histogram": short, "distributions": ["wall_ms"] });
    let count = usize::try_from(MOST_BYTES[3]).unwrap() / (3 * short.to_string().len());
    let said = verified(
        "short points",
        &trial(&|phase| {
            phase["samples"] = percentiles.clone().into();
            phase["points"] = std::iter::once(&point).chain(std::iter::repeat_n(&short, count)).cloned().collect();
        }),
    );
    assert!(said.contains("NOT verified"), "{said}");
    let belongs = |count: usize| (0..count).map(|at| Value::from(format!("a{at}_us"))).collect::<Vec<Value>>();
    let said = verified(
        "distributions",
        &trial(&|phase| {
            phase["points"] =
                vec![json!({ "name": "all", "begin_ns": 0, "end_ns": 1, "distributions": belongs(9) })].into();
        }),
    );
    assert!(said.contains("more metrics or distributions than any run has"), "{said}");
    // Each of many trials with a distribution of its own; with twice as many, its values alone would take more memory than they may.
    let mut one = trials[0].clone();
    one["result"]["series"][0]["points"] = vec![point.clone()].into();
    one["result"]["series"][0]["samples"].as_array_mut().unwrap().push(sample("wall_p50_ms".to_owned()));
    let count = usize::try_from(MOST_BYTES[3]).unwrap() / (2 * one.to_string().len());
    let said = verified("trials", &Bundle { trials: serde_json::to_vec(&vec![one; count]).unwrap(), ..bundle.clone() });
    assert!(said.contains("NOT verified"), "{said}");
    // An archive of zeros, and a compressed file of more than there may be in memory.
    for (name, zeros) in [("zeros.tar.gz", 64 << 20), ("bomb.tar.gz", MEMORY + (64 << 20))] {
        let mut packed =
            flate2::write::GzEncoder::new(File::create(bench.path(name)).unwrap(), flate2::Compression::fast());
        let chunk = vec![0; 1 << 20];
        (0..zeros >> 20).for_each(|_| packed.write_all(&chunk).unwrap());
        packed.finish().unwrap();
        let (code, said) = bounded(&bench, &["verify", name]);
        assert_eq!(code, Some(2), "{said}");
    }
}

#[test]
fn studies() {
    let bench = Bench::new();
    let head = "[study]\ntitle = \"a study\"\n[workload]\nkind = \"fma\"\n";
    write(&bench, "deep.toml", [&format!("{head}[factors]\nranks = "), "[", ""], 500_000);
    // Each is unknown, and has its nearest one that is known.
    bench.write("keys.toml", format!("{head}{}", (0..80_000).map(|at| format!("a{at} = 1\n")).collect::<String>()));
    bench.write("tables.toml", format!("{head}{}", (0..80_000).map(|at| format!("[a{at}.b]\n")).collect::<String>()));
    write(&bench, "levels.toml", [&format!("{head}[factors]\nranks = ["), "1, ", "1]\n"], 300_000);
    write(&bench, "title.toml", ["[study]\ntitle = \"", "x", "\"\n[workload]\nkind = \"fma\"\n"], 1_000_000);
    write(&bench, "dots.toml", [head, "a.", "a = 1\n"], 400_000);
    write(&bench, "long.toml", [head, "# nothing at all\n", ""], 100_000);
    for (name, expected) in
        [("deep", 2), ("keys", 2), ("tables", 2), ("levels", 2), ("title", 0), ("dots", 2), ("long", 2)]
    {
        let (code, said) = bounded(&bench, &["plan", &format!("{name}.toml")]);
        assert_eq!(code, Some(expected), "{name}: {said}");
    }
    // Every combination of many levels.
    let levels: Vec<String> = (1..=200).map(|at| at.to_string()).collect();
    let factors = ["table", "lookahead", "ranks"].map(|factor| {
        let levels: Vec<String> =
            levels.iter().map(|at| if factor == "table" { format!("\"{at} MiB\"") } else { at.clone() }).collect();
        format!("{factor} = [{}]\n", levels.join(", "))
    });
    let text =
        format!("[study]\ntitle = \"a study\"\n[workload]\nkind = \"random-access\"\n[factors]\n{}", factors.concat());
    bench.write("product.toml", text);
    let (code, said) = bounded(&bench, &["plan", "product.toml"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn job_files() {
    let bench = Bench::new();
    let study = "[study]\ntitle = \"a study\"\n[workload]\nkind = \"block\"\njob = \"JOB\"\n";
    bench.write("study.toml", study.replace("JOB", bench.path("job.fio").to_str().unwrap()));
    let planned = |parts: [&str; 3], count: usize| {
        write(&bench, "job.fio", parts, count);
        bounded(&bench, &["plan", "study.toml"])
    };
    for (parts, count) in [
        (["", "[a]\n", ""], 250_000),
        (["[a]\n", "no_such_key=1\n", ""], 70_000),
        (["[a]\nfilename=", "x", "\n"], 1_000_000),
        (["[a]\n", "size=1g\n", ""], 130_000),
        (["[a]\nbssplit=", "4k/1:", "\n"], 200_000),
        (["[a]\nrw=randread\n", "=", "\n"], 1_000_000),
        (["[a]\n", "x=1\n", ""], 300_000),
    ] {
        let (code, said) = planned(parts, count);
        assert!(matches!(code, Some(0 | 2)), "{parts:?}: {code:?} {said}");
    }
}
