//! fio's job files, as far as their keys mean the same here.
//!
//! A file has one job, with `[global]` before it. Each key becomes a parameter of the workload; one that is not known is listed
//! with its line, and so is one whose value means something else here. Sizes count in powers of 1024, as fio's do. What a file leaves out has fio's
//! default, not the workload's (reads in order, psync, one I/O at a time, through the page cache, until the size was read or written once), and what fio counts
//! by job (`size`, `number_ios`, `rate_iops`) counts for all jobs here (fio's HOWTO, "Job file parameters").

use std::collections::BTreeMap;

/// A job read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FioJob {
    /// Parameters of the workload, as typed in a study.
    pub parameters: BTreeMap<String, String>,
    /// Lines that have no effect here.
    pub ignored: Vec<Ignored>,
}

/// A line without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its number, from 1.
    pub line: usize,
    /// Its key.
    pub key: String,
    /// Why.
    pub why: &'static str,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// A value cannot be read.
    #[error("line {line}: {key} = {value}; write {right}")]
    Value {
        /// The line.
        line: usize,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would be right.
        right: &'static str,
    },
    /// There is not exactly one job.
    #[error("{found} jobs ({names}); keep one in the file")]
    Jobs {
        /// How many.
        found: usize,
        /// Their names.
        names: String,
    },
}

/// Keys that change nothing of what is measured here.
const HARMLESS: &[&str] = &[
    "name",
    "group_reporting",
    "stonewall",
    "thread",
    "norandommap",
    "randrepeat",
    "refill_buffers",
    "scramble_buffers",
    "registerfiles",
    "fixedbufs",
    "nonvectored",
    "invalidate",
    "fallocate",
    "create_on_open",
    "percentile_list",
    "description",
];

impl FioJob {
    /// Reads the text of a job file.
    ///
    /// # Errors
    /// A value that cannot be read, or several jobs or none.
    pub fn read(text: &str) -> Result<FioJob, FioError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines: Vec<_> = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';'])).collect();
        let names: Vec<&str> =
            lines.iter().filter_map(|(_, line)| section(line)).filter(|name| *name != "global").collect();
        if names.len() != 1 {
            return Err(FioError::Jobs { found: names.len(), names: names.join(", ") });
        }
        let named = lines.iter().find(|(_, line)| section(line).is_some_and(|name| name != "global"));
        let mut reader = Reader { line: named.map_or(0, |(line, _)| *line), jobs: 1, ..Reader::default() };
        for (line, text) in lines.into_iter().filter(|(_, line)| section(line).is_none()) {
            let (key, value) = text.split_once('=').unwrap_or((text, "1"));
            reader.take(line, key.trim(), value.trim())?;
        }
        Ok(reader.finish())
    }
}

fn section(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

/// What has been read so far, with what only makes sense together.
#[derive(Default)]
struct Reader {
    job: FioJob,
    directory: Option<String>,
    file: Option<String>,
    /// The line of the job's name.
    line: usize,
    /// What `rw` says last.
    access: Option<Access>,
    /// The share of reads of a mix.
    mix: Option<String>,
    /// The exponent of zipf, with its line.
    zipf: Option<(usize, String)>,
    jobs: u64,
    /// Bytes, I/Os and I/Os a second of each job.
    size: Option<u64>,
    operations: Option<u64>,
    rate: Option<u64>,
    /// Bytes of an I/O, on average.
    block: Option<u64>,
    time_based: bool,
    /// Whether the engine issues one I/O after the other.
    synchronous: bool,
}

/// Whether offsets are random, and the share of reads; none where it is a mix.
type Access = (bool, Option<&'static str>);

/// The engine, the bytes of an I/O, the accesses and the share of reads of a mix where a file names none.
const ENGINE: &str = "psync";
const BLOCK: u64 = 4096;
const ACCESS: Access = (false, Some("100 %"));
const MIX: &str = "50 %";

impl Reader {
    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.job.parameters.insert(key.to_owned(), value.into());
    }

    fn ignore(&mut self, line: usize, key: &str, why: &'static str) {
        self.job.ignored.push(Ignored { line, key: key.to_owned(), why });
    }

    fn take(&mut self, line: usize, key: &str, value: &str) -> Result<(), FioError> {
        let wrong = |right| FioError::Value { line, key: key.to_owned(), value: value.to_owned(), right };
        let bytes = || size(value).ok_or_else(|| wrong("a size such as 4k, 1m or 10g"));
        let time = || duration(value).ok_or_else(|| wrong("a time such as 30, 500ms or 2m"));
        let number = || value.parse::<u64>().ok().ok_or_else(|| wrong("a whole number"));
        // fio takes variables from its environment; a study that did would be another one at each site.
        if value.contains("${") && !matches!(key, "filename" | "directory") {
            return Err(wrong("the value itself; environment variables are not expanded"));
        }
        match key {
            "rw" | "readwrite" => {
                let right = "read, write, rw, randread, randwrite or randrw";
                self.access = Some(access(value).ok_or_else(|| wrong(right))?);
            }
            "rwmixread" => self.mix = Some(format!("{} %", number()?)),
            "rwmixwrite" => self.mix = Some(format!("{} %", 100 - number()?.min(100))),
            "bs" | "blocksize" => {
                self.block = Some(bytes()?);
                self.set("block", format!("{} B", bytes()?));
            }
            "bssplit" => {
                let (mix, mean) = split(value).ok_or_else(|| wrong("sizes with percentages such as 4k/60:64k/40"))?;
                self.block = Some(mean);
                self.set("block", mix);
            }
            "ba" | "blockalign" => self.set("align", format!("{} B", bytes()?)),
            "size" | "filesize" => self.size = Some(bytes()?),
            "iodepth" => self.set("depth", number()?.to_string()),
            "numjobs" => {
                self.jobs = number()?.max(1);
                self.set("jobs", self.jobs.to_string());
            }
            "runtime" | "timeout" => self.set("duration", format!("{} ms", time()?)),
            "ramp_time" => self.set("warm_up", format!("{} ms", time()?)),
            "number_ios" => self.operations = Some(number()?),
            "rate_iops" => self.rate = Some(number()?),
            "rate_process" => self.set("arrival", if value == "poisson" { "poisson" } else { "constant" }),
            "fdatasync" => self.set("sync_every", number()?.to_string()),
            "fsync" => {
                self.set("sync_every", number()?.to_string());
                if number()? > 0 {
                    self.ignore(
                        line,
                        key,
                        "fdatasync is called for fsync, and need not write what is known of the file",
                    );
                }
            }
            "sync" => self.set("durable", if matches!(value, "0" | "none") { "false" } else { "true" }),
            "direct" => self.set("cache", if value == "1" { "direct" } else { "buffered" }),
            "buffered" => self.set("cache", if value == "1" { "buffered" } else { "direct" }),
            "directory" => self.directory = Some(path(value).ok_or_else(|| wrong(ONE_PATH))?),
            "filename" => self.file = Some(path(value).ok_or_else(|| wrong(ONE_PATH))?),
            "ioengine" => self.engine(line, value),
            "random_distribution" => self.distribution(line, value).ok_or_else(|| wrong("random or zipf:1.2"))?,
            "verify" => self.set("verify", if matches!(value, "0" | "none") { "false" } else { "true" }),
            "randseed" => self.ignore(line, key, "the study's seed decides"),
            "time_based" if value == "1" => self.time_based = true,
            _ if HARMLESS.contains(&key) => {}
            _ => self.ignore(line, key, "unknown key"),
        }
        Ok(())
    }

    fn engine(&mut self, line: usize, value: &str) {
        match value {
            "io_uring" => self.set("engine", "io_uring"),
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => {
                self.set("engine", "threads");
                self.synchronous = true;
            }
            "libaio" => {
                self.set("engine", "io_uring");
                self.ignore(line, "ioengine", "io_uring is used for libaio");
            }
            _ => self.ignore(line, "ioengine", "unknown engine"),
        }
    }

    fn distribution(&mut self, line: usize, value: &str) -> Option<()> {
        self.zipf = match value.split_once(':') {
            None if value == "random" => None,
            Some(("zipf", exponent)) => {
                exponent.parse::<f64>().ok()?;
                Some((line, exponent.to_owned()))
            }
            _ => return None,
        };
        Some(())
    }

    fn finish(mut self) -> FioJob {
        match (self.directory.take(), self.file.take()) {
            (Some(folder), None) => self.set("path", folder),
            // As fio has it: an absolute name is not below the folder.
            (Some(folder), Some(file)) if !file.starts_with('/') => self.target(format!("{folder}/{file}")),
            (_, Some(file)) => self.target(file),
            (None, None) => {}
        }
        self.accesses();
        self.left_out();
        self.of_all_jobs();
        self.job
    }

    /// As fio has it, the share of a mix is of mixed accesses alone, and a distribution of random offsets alone.
    fn accesses(&mut self) {
        let (is_random, share) = self.access.unwrap_or(ACCESS);
        let mix = self.mix.take().unwrap_or_else(|| MIX.to_owned());
        self.set("read_share", share.map_or(mix, str::to_owned));
        self.set("pattern", if is_random { "random" } else { "sequential" });
        match self.zipf.take() {
            None => {}
            Some((_, exponent)) if is_random => {
                self.set("pattern", "zipf");
                self.set("exponent", exponent);
            }
            Some((line, _)) => self.ignore(line, "random_distribution", "offsets are in order"),
        }
    }

    /// What the file leaves out, as fio has it.
    fn left_out(&mut self) {
        let has = |reader: &Self, key: &str| reader.job.parameters.contains_key(key);
        if !has(self, "engine") {
            self.engine(self.line, ENGINE);
        }
        if self.synchronous && self.job.parameters.get("depth").is_some_and(|depth| depth != "1") {
            self.ignore(self.line, "iodepth", "a job of a synchronous engine has one I/O outstanding");
        }
        if self.synchronous || !has(self, "depth") {
            self.set("depth", "1");
        }
        if !has(self, "cache") {
            self.set("cache", "buffered");
        }
        if !has(self, "duration") {
            let why = "without it a phase ends when the size was read or written once, after number_ios, or after the workload's duration";
            self.ignore(self.line, "runtime", why);
        }
    }

    /// What fio counts by job. Jobs that name no file have one each.
    fn of_all_jobs(&mut self) {
        let names_one = ["file", "device"].iter().any(|key| self.job.parameters.contains_key(*key));
        if let Some(size) = self.size {
            let files = if names_one { 1 } else { self.jobs };
            self.set("size", format!("{} B", size.saturating_mul(files)));
        }
        let once = self.size.filter(|_| !self.time_based).map(|size| size.div_ceil(self.block.unwrap_or(BLOCK).max(1)));
        let each = self.operations.into_iter().chain(once).min();
        if let Some(each) = each {
            self.set("operations", each.saturating_mul(self.jobs).to_string());
        }
        let mixed =
            self.job.parameters.get("read_share").is_some_and(|share| !["0 %", "100 %"].contains(&share.as_str()));
        if self.rate.is_some() && mixed {
            self.ignore(
                self.line,
                "rate_iops",
                "it is of reads and writes together here; fio limits each of them to it",
            );
        }
        if let Some(rate) = self.rate {
            self.set("rate", rate.saturating_mul(self.jobs).to_string());
        }
    }

    /// What lies below `/dev` is a device, but for shared memory. Where this is wrong, the site finds out and refuses it.
    fn target(&mut self, name: String) {
        let is_device = name.starts_with("/dev/") && !name.starts_with("/dev/shm/");
        self.set(if is_device { "device" } else { "file" }, name);
    }
}

/// The accesses of a value of `rw`.
fn access(value: &str) -> Option<Access> {
    match value {
        "read" => Some((false, Some("100 %"))),
        "write" => Some((false, Some("0 %"))),
        "rw" | "readwrite" => Some((false, None)),
        "randread" => Some((true, Some("100 %"))),
        "randwrite" => Some((true, Some("0 %"))),
        "randrw" => Some((true, None)),
        _ => None,
    }
}

const ONE_PATH: &str = "one path without variables; a colon that is part of it as \\:";

/// A path as fio writes it, where a colon separates several; `None` of an empty one too.
fn path(text: &str) -> Option<String> {
    let plain = text.replace("\\:", "\u{0}");
    let is_one = !plain.is_empty() && !plain.contains([':', '$']);
    is_one.then(|| plain.replace('\u{0}', ":"))
}

/// Bytes of `4k`, `4kb`, `4ki`, `1m`.
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("ib").trim_end_matches(['b', 'i']) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Milliseconds of `30`, `30s`, `500ms`, `2m`, `1h`.
fn duration(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `4k/60:64k/40` as this workload's `block`, and the mean size in bytes.
fn split(text: &str) -> Option<(String, u64)> {
    let part = |part: &str| {
        let (bytes, weight) = part.split_once('/')?;
        Some((size(bytes)?, u64::from(weight.parse::<u32>().ok()?)))
    };
    let parts: Vec<(u64, u64)> = text.split(':').map(part).collect::<Option<_>>()?;
    let sum = |of: fn(&(u64, u64)) -> u64| parts.iter().map(of).fold(0, u64::saturating_add);
    let mean = sum(|(bytes, weight)| bytes.saturating_mul(*weight)).checked_div(sum(|(_, weight)| *weight))?;
    let words = parts.iter().map(|(bytes, weight)| format!("{bytes} B: {weight}")).collect::<Vec<_>>();
    Some((words.join(", "), mean))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_usual_job_becomes_parameters_and_what_is_unknown_is_listed_by_line() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\ntime_based\nruntime=2m\nthinktime=100\n\n[job]\nrw=randrw\n\
                    rwmixread=70\nbssplit=4k/60:64k/40\niodepth=16\nnumjobs=2\nsize=1g\nramp_time=500ms\n\
                    random_distribution=zipf:1.2\nfsync=32\ndirectory=/data\nwrite_lat_log=x\n";
        let job = FioJob::read(text).unwrap();
        let expected = [
            ("block", "4096 B: 60, 65536 B: 40"),
            ("cache", "direct"),
            ("depth", "16"),
            ("duration", "120000 ms"),
            ("engine", "io_uring"),
            ("exponent", "1.2"),
            ("jobs", "2"),
            ("path", "/data"),
            ("pattern", "zipf"),
            ("read_share", "70 %"),
            ("size", "2147483648 B"),
            ("sync_every", "32"),
            ("warm_up", "500 ms"),
        ];
        assert_eq!(job.parameters, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let ignored: Vec<_> = job.ignored.iter().map(|line| (line.line, line.key.as_str())).collect();
        assert_eq!(ignored, [(3, "ioengine"), (7, "thinktime"), (18, "fsync"), (20, "write_lat_log")]);
    }

    #[test]
    fn a_file_without_a_name_is_refused_with_its_line() {
        for text in ["[a]\nfilename=\n", "[a]\ndirectory=\n", "[a]\ndirectory=/data\nfilename=\n"] {
            let refused = FioJob::read(text).expect_err(text).to_string();
            let line = text.lines().count();
            assert!(refused.contains(&format!("line {line}")) || refused.contains(&format!(":{line}")), "{refused}");
        }
    }

    #[test]
    fn what_fio_counts_by_job_counts_for_all() {
        let of = |text: &str, key: &str| {
            FioJob::read(&format!("[a]\nrw=read\nbs=64k\n{text}")).unwrap().parameters.remove(key).unwrap_or_default()
        };
        let four = "numjobs=4\nruntime=10\ntime_based\nsize=1m\nrate_iops=100\nnumber_ios=50\n";
        assert_eq!([of(four, "size"), of(four, "rate"), of(four, "operations")], ["4194304 B", "400", "200"]);
        let one_file = format!("{four}filename=/srv/data\n");
        assert_eq!([of(&one_file, "size"), of(&one_file, "rate")], ["1048576 B", "400"], "all jobs use the one file");
        let mixed = FioJob::read("[a]\nrw=randrw\nioengine=io_uring\nruntime=1\nrate_iops=100\n").unwrap();
        assert_eq!(mixed.ignored.iter().map(|line| line.key.as_str()).collect::<Vec<_>>(), ["rate_iops"]);
        assert_eq!(of("numjobs=4\nruntime=10\nsize=1m\n", "operations"), "64", "16 I/Os of each job are its size");
        assert_eq!(of("numjobs=2\nruntime=10\nsize=1m\nnumber_ios=5\n", "operations"), "10", "whichever is first");
    }

    #[test]
    fn what_a_file_leaves_out_has_fios_default() {
        let job = FioJob::read("[a]\nrw=randread\nsize=1m\n").unwrap();
        let of = |key: &str| job.parameters.get(key).map_or("", String::as_str);
        assert_eq!([of("engine"), of("depth"), of("cache"), of("operations")], ["threads", "1", "buffered", "256"]);
        assert_eq!(job.ignored.iter().map(|line| (line.line, line.key.as_str())).collect::<Vec<_>>(), [(1, "runtime")]);
        let deep = FioJob::read("[a]\nrw=read\nioengine=sync\niodepth=32\nruntime=1\n").unwrap();
        assert_eq!(deep.parameters["depth"], "1", "a synchronous engine has one");
        assert_eq!(deep.ignored[0].key, "iodepth");
        let uring = FioJob::read("[a]\nrw=read\nioengine=io_uring\niodepth=32\ndirect=1\nruntime=1\n").unwrap();
        assert_eq!((uring.parameters["depth"].as_str(), uring.parameters["cache"].as_str()), ("32", "direct"));
    }

    #[test]
    fn reads_without_a_mix_and_the_order_of_keys_do_not_matter() {
        let share = |text: &str| FioJob::read(&format!("[a]\n{text}")).unwrap().parameters["read_share"].clone();
        assert_eq!([share("rw=randrw"), share("rwmixread=80\nrw=rw"), share("rw=write")], ["50 %", "80 %", "0 %"]);
        let zipf = FioJob::read("[a]\nrandom_distribution=zipf:0.9\nrw=randread").unwrap();
        assert_eq!(zipf.parameters["pattern"], "zipf");
        let file = FioJob::read("[a]\nfilename=/dev/sdz\nrw=read").unwrap();
        assert_eq!(file.parameters["device"], "/dev/sdz");
        let of = |text: &str| {
            let mut job = FioJob::read(&format!("[a]\nrw=read\n{text}")).unwrap().parameters;
            ["device", "file", "path"].map(|key| job.remove(key).unwrap_or_default())
        };
        assert_eq!(of("directory=/dev\nfilename=sdz"), ["/dev/sdz", "", ""]);
        assert_eq!(
            of("directory=/srv\nfilename=/dev/disk/by-path/pci-0000\\:00"),
            ["/dev/disk/by-path/pci-0000:00", "", ""]
        );
        assert_eq!(of("filename=/dev/shm/data"), ["", "/dev/shm/data", ""]);
        assert_eq!(of("directory=/srv\nfilename=data"), ["", "/srv/data", ""]);
        for several in ["filename=/dev/sda:/dev/sdb", "filename=${DEV}", "directory=$HOME"] {
            let why = FioJob::read(&format!("[a]\nrw=read\n{several}")).unwrap_err().to_string();
            assert!(why.contains("write one path without variables"), "{why}");
        }
    }

    /// The first `rw` decided on offsets, so that `rw=read` in [global] made a job of `rw=randread` sequential, and a mix after `rw=randread` made it write.
    #[test]
    fn the_last_value_of_a_key_counts_and_a_mix_is_of_mixed_accesses_alone() {
        let of = |text: &str| {
            let job = FioJob::read(text).unwrap();
            let listed: Vec<usize> = job.ignored.iter().map(|line| line.line).collect();
            let [pattern, share] = ["pattern", "read_share"].map(|key| job.parameters[key].clone());
            (pattern, share, listed)
        };
        let random = |share: &str| ("random".to_owned(), share.to_owned(), Vec::new());
        assert_eq!(of("[global]\nrw=read\nruntime=1\n[a]\nrw=randwrite\n"), random("0 %"));
        assert_eq!(of("[global]\nrw=randread\nruntime=1\n[a]\nrw=randrw\n"), random("50 %"));
        assert_eq!(of("[a]\nrw=randread\nrwmixread=70\nruntime=1\n"), random("100 %"));
        let even = "[global]\nrandom_distribution=zipf:1.2\nruntime=1\n[a]\nrw=randread\nrandom_distribution=random\n";
        assert_eq!(of(even), random("100 %"));
        let ordered = |share: &str, listed: Vec<usize>| ("sequential".to_owned(), share.to_owned(), listed);
        assert_eq!(of("[a]\nrw=write\nrandom_distribution=zipf:1.2\nruntime=1\n"), ordered("0 %", vec![3]));
        assert_eq!(of("[a]\nsize=1m\nruntime=1\n"), ordered("100 %", Vec::new()), "fio's default");
    }

    #[test]
    fn several_jobs_and_wrong_values_are_refused_by_name() {
        let said = |text: &str| FioJob::read(text).unwrap_err().to_string();
        assert_eq!(said("[a]\nrw=read\n[b]\nrw=write"), "2 jobs (a, b); keep one in the file");
        assert_eq!(said("rw=read"), "0 jobs (); keep one in the file");
        assert_eq!(said("[a]\n\nbs=4q"), "line 3: bs = 4q; write a size such as 4k, 1m or 10g");
        for key in ["size", "ioengine", "sync", "direct", "verify", "thinktime"] {
            let expected =
                format!("line 2: {key} = ${{X}}; write the value itself; environment variables are not expanded");
            assert_eq!(said(&format!("[a]\n{key}=${{X}}")), expected);
        }
        assert_eq!(said("[a]\nrw=trim"), "line 2: rw = trim; write read, write, rw, randread, randwrite or randrw");
    }
}
