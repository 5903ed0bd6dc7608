//! Block devices and folders that a study of disks names: refused before anything runs. No device of these names exists.

use crate::common::bench::{Bench, text, unbroken};

const DEVICE: &str = "/dev/baremark-test-absent";

const DESIGN: &str = "[factors]\nenvironment = \"native\"\nranks = 1\n[design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n";

fn study(workload: &str) -> String {
    format!("[study]\ntitle = \"t\"\n[workload]\n{workload}\n{DESIGN}")
}

fn tile(member: &str) -> String {
    let member = format!(
        "[tile.members.disk]\nworkload = \"block\"\nsize = \"16 MiB\"\nlimit = \"write_mean_us < 5000000\"\nthroughput = \"iops\"\n{member}"
    );
    study(&format!("kind = \"tile\"\nmost = 1\nduration = \"1 s\"\nwarm_up = \"0 s\"\n{member}"))
}

/// Studies that would overwrite the device, by each way to name it.
fn ways(bench: &Bench) -> Vec<(&'static str, String)> {
    let job = bench.write("a.fio", format!("[a]\nrw=randwrite\nsize=16m\nfilename={DEVICE}\n"));
    let folder = bench.write("b.fio", "[a]\nrw=randwrite\nsize=16m\ndirectory=/dev\nfilename=baremark-test-absent\n");
    let block = |keys: &str| study(&format!("kind = \"block\"\nsize = \"16 MiB\"\n{keys}"));
    vec![
        ("arm", block(&format!("device = {DEVICE:?}"))),
        ("fio job file", block(&format!("job = {job:?}"))),
        ("fio job file, with a folder", block(&format!("job = {folder:?}"))),
        ("fio job in the study", block(&format!("job_text = \"[a]\\nrw=randwrite\\nsize=16m\\nfilename={DEVICE}\""))),
        ("member of a tile", tile(&format!("device = {DEVICE:?}"))),
        ("fio job file of a member", tile(&format!("job = {job:?}"))),
    ]
}

#[test]
fn a_device_is_asked_for_whatever_names_it_and_a_plan_prints_how_much_is_written() {
    let bench = Bench::new();
    for (way, study) in ways(&bench) {
        bench.write("study.toml", study);
        for arguments in
            [&["run", "study.toml"][..], &["run", "study.toml", "--allow-destructive", "/dev/baremark-test-other"]]
        {
            let output = bench.run(arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{way}: {said}");
            let expected =
                format!("{DEVICE} would be overwritten; if its content can go, add --allow-destructive {DEVICE}");
            assert!(said.contains(&expected), "{way}: {said}");
        }
        let output = bench.run(&["plan", "study.toml"]);
        let said = unbroken(&output.stdout);
        let expected = format!("native: overwrites {DEVICE} from its start, at most 16 MiB");
        assert!(output.status.success() && said.contains(&expected), "{way}: {said}{}", text(&output.stderr));
    }
    assert!(!bench.store().exists(), "no run was begun");
}

/// A plan has the text of a job file, so that another file of this name has no effect on the run.
#[test]
fn the_text_of_a_job_file_travels_with_the_plan() {
    let bench = Bench::new();
    let job = bench.write("a.fio", "[a]\nrw=randread\nsize=16m\nfilename=/srv/first\n");
    let of = |study: String, key: &str| {
        bench.write("study.toml", study);
        let plan = bench.json(&["plan", "study.toml", "--json"]);
        plan["arms"][0]["arm"]["parameters"][key].to_string()
    };
    let block = of(study(&format!("kind = \"block\"\njob = {job:?}")), "job_text");
    let member = of(tile(&format!("job = {job:?}")), "tile.members.disk.job_text");
    for text in [block, member] {
        assert!(text.contains("filename=/srv/first"), "{text}");
    }
}

#[test]
fn a_job_file_that_cannot_be_read_is_refused_with_its_name() {
    let bench = Bench::new();
    let wrong = bench.write("wrong.fio", "[a]\nrw=randwrite\nbs=4q\n");
    let too_deep = bench.write("deep.fio", "[a]\nrw=randwrite\nioengine=io_uring\niodepth=100000\n");
    for (file, said) in [
        (bench.path("absent.fio"), "cannot be read: No such file"),
        (bench.path("."), "cannot be read: it is not a regular file"),
        (wrong, "line 3: bs = 4q; write a size"),
        (too_deep, "depth = 100000 is out of range"),
    ] {
        for study in [study(&format!("kind = \"block\"\njob = {file:?}")), tile(&format!("job = {file:?}"))] {
            bench.write("study.toml", study);
            let output = bench.run(&["plan", "study.toml"]);
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}

/// Thirty trials failed, one after the other, of a study whose folder was mistyped.
#[test]
fn a_folder_that_takes_no_file_is_said_before_anything_runs() {
    let bench = Bench::new();
    let file = bench.path("file");
    std::fs::write(&file, "").unwrap();
    let kept = bench.path("kept");
    std::fs::create_dir(&kept).unwrap();
    let missing = bench.path("missing");
    // The file system of this test may have no O_DIRECT.
    let of = |path: &std::path::Path| {
        study(&format!("kind = \"block\"\nsize = \"1 MiB\"\ncache = \"buffered\"\npath = {path:?}"))
    };
    for path in [&missing, &file] {
        bench.write("study.toml", of(path));
        for command in ["run", "plan"] {
            let output = bench.run(&[command, "study.toml"]);
            let said = unbroken(&output.stderr);
            let refused =
                said.contains("creating a file in ") && said.contains("path: name a folder in which files can");
            assert!(output.status.code() == Some(2) && refused, "{command}: {said}");
        }
    }
    bench.write("study.toml", of(&kept));
    let output = bench.run(&["plan", "study.toml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0, "nothing is left");
    assert!(!bench.store().exists(), "no run was begun");
}
