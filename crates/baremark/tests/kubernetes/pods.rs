//! Pods of Kubernetes. No cluster is at hand: the calls of kubectl are answered by a script over `podman kube play`, which
//! runs the same manifests. It keeps its containers and images in a folder of its own.

use crate::bench::{Bench, signal, text};
use crate::sites::{NEVER, Program, as_lab, cpu, lab, print_times, trial_of, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::kubernetes::{Kubernetes, Settings};
use baremark_model::site::Environment;
use baremark_sys::process_tree;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const IMAGE: &str = "localhost/baremark-kubernetes:1";

/// kubectl, as far as it is used. Files in its folder say what it refuses (`denied`), which state a pod stays in (`unready`),
/// and whether streams into pods break (`cut`).
const KUBECTL: &str = r#"#!/bin/sh
folder=$(dirname "$0")
export CONTAINERS_CONF="$folder/containers.conf" CONTAINERS_STORAGE_CONF="$folder/storage.conf"
{ printf '%s\n' "$@"; echo; } >>"$folder/calls"
while :; do
    case $1 in
    --context=* | --namespace=*) shift ;;
    *) break ;;
    esac
done
case "$*" in
"auth can-i "*)
    action="$3 $4${5:+/${5#--subresource=}}"
    if [ -e "$folder/denied" ] && grep -qx "$action" "$folder/denied"; then
        echo no
        exit 1
    fi
    echo yes
    ;;
"create --validate=strict --filename=-")
    if [ -e "$folder/unready" ]; then
        cat >/dev/null
    else
        podman kube play --quiet --network none - >/dev/null
    fi
    ;;
"wait --for=condition=Ready pod/"*)
    if [ -e "$folder/unready" ]; then
        # kubectl fails then, and sleep would not: whoever asked has given up long before.
        exec sleep "$(($(echo "${4#--timeout=}" | tr -d s) + 60))"
    fi
    [ "$(podman inspect --format '{{.State.Status}}' "${3#pod/}-agent")" = running ]
    ;;
"exec --stdin "*" --container agent -- sh -c "*)
    container=$(podman inspect --format '{{.Id}}' "$3-agent") || exit 1
    shift 6
    # As a node does it: podman's own exec passes 8 MB a second.
    if [ -e "$folder/cut" ]; then
        head -c 1000 | /usr/sbin/runc exec "$container" "$@"
    else
        exec /usr/sbin/runc exec "$container" "$@"
    fi
    ;;
"get pod "*" --output=json")
    if [ -e "$folder/unready" ]; then
        state="\"waiting\":$(cat "$folder/unready")"
        phase=Pending
    else
        found=$(podman inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$3-agent") || exit 1
        case $found in
        running*) phase=Running state='"running":{}' ;;
        *" 0") phase=Succeeded state='"terminated":{"reason":"Completed","exitCode":0}' ;;
        *) phase=Failed state="\"terminated\":{\"reason\":\"Error\",\"exitCode\":${found#* }}" ;;
        esac
    fi
    cat <<END
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$3"},"status":{"phase":"$phase","containerStatuses":[
{"name":"agent","image":"x","imageID":"","ready":false,"restartCount":0,"state":{$state}}]}}
END
    ;;
"delete pod "*" --ignore-not-found --now --timeout=6s")
    podman pod rm --force --time 1 --ignore "$3"
    ;;
"delete pods --wait=false --ignore-not-found --selector=app.kubernetes.io/managed-by=baremark --field-selector=status.phase!=Pending,status.phase!=Running,status.phase!=Unknown")
    podman pod ps --filter label=app.kubernetes.io/managed-by=baremark --format '{{.Name}} {{.Status}}' |
        while read -r pod status; do
            [ "$status" = Running ] || podman pod rm --force --time 1 "$pod"
        done
    ;;
*)
    echo "error: not known here: $*" >&2
    exit 1
    ;;
esac
"#;

/// Podman in the role of a cluster, until it is dropped.
struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// `None`, with the reason printed, where there can be none.
    fn start() -> Option<Self> {
        let needs = ["/usr/bin/podman", "/usr/sbin/runc", "/usr/bin/busybox", "/usr/libexec/podman/catatonit"];
        if let Some(missing) = needs.into_iter().find(|file| !Path::new(file).exists()) {
            assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "{missing} is demanded");
            eprintln!("skipped: environment kubernetes: {missing} does not exist");
            return None;
        }
        let cluster = Cluster { folder: TempDir::new().unwrap() };
        let path = |name: &str| cluster.path(name).display().to_string();
        let ulimits = r#"["nofile=1024:1024", "nproc=1024:1024"]"#;
        let engine = format!("runtime = \"runc\"\nlock_type = \"file\"\ntmp_dir = \"{}\"", path("libpod"));
        let engine = format!("[engine]\n{engine}\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n");
        cluster.write("containers.conf", &format!("[containers]\ndefault_ulimits = {ulimits}\n{engine}"));
        let storage = format!("graphroot = \"{}\"\nrunroot = \"{}\"", path("storage"), path("run"));
        cluster.write("storage.conf", &format!("[storage]\ndriver = \"vfs\"\n{storage}\n"));
        cluster.write("kubectl", KUBECTL);
        fs::set_permissions(cluster.path("kubectl"), Permissions::from_mode(0o755)).unwrap();
        cluster.import();
        Some(cluster)
    }

    /// An image of busybox, which must be static.
    fn import(&self) {
        let root = self.path("root");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy("/usr/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "wc", "chmod", "mkdir", "sleep"] {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        let tar = self.path("root.tar");
        let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status().unwrap();
        assert!(packed.success());
        let output = self.podman(&["import", "--quiet", "-c", "ENV PATH=/bin", tar.to_str().unwrap(), IMAGE]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn podman(&self, words: &[&str]) -> Output {
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.path("storage.conf"));
        command.args(words).stdin(Stdio::null()).output().unwrap()
    }

    fn kubernetes(&self, program: PathBuf, settings: Settings) -> Kubernetes {
        Kubernetes::with_kubectl(program, settings, self.path("kubectl"))
    }

    fn lines(&self, words: &[&str]) -> Vec<String> {
        text(&self.podman(words).stdout).lines().map(str::to_owned).collect()
    }

    fn pods(&self) -> Vec<String> {
        self.lines(&["pod", "ps", "--format", "pod {{.Name}}"])
    }

    /// The processes that run the program as it was brought into a pod, by the file in the pod's own root.
    fn agents(&self) -> Vec<u32> {
        let known = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let roots = fs::read_dir(self.path("storage/vfs/dir")).into_iter().flatten().flatten();
        let brought: Vec<_> =
            roots.filter_map(|root| fs::metadata(root.path().join("tmp/baremark")).ok()).map(known).collect();
        let runs = |pid: &u32| fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|exe| brought.contains(&known(exe)));
        let listed = fs::read_dir("/proc").unwrap().flatten();
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(runs).collect()
    }

    fn left(&self) -> Vec<String> {
        let agents = self.agents().into_iter().map(|pid| format!("process {pid}"));
        agents.chain(self.lines(&["ps", "--all", "--format", "container {{.Names}}"])).chain(self.pods()).collect()
    }

    /// The calls of kubectl, each once, as their words.
    fn calls(&self) -> BTreeSet<Vec<String>> {
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        calls.trim_end().split("\n\n").map(|call| call.lines().map(str::to_owned).collect()).collect()
    }
}

impl Drop for Cluster {
    /// With what watches over its containers, and cleans up behind them in its folder when they have ended.
    fn drop(&mut self) {
        let folder = self.folder.path().display().to_string();
        let of_ours = |words: &[String]| words.iter().any(|word| word.contains(&folder));
        let busy = || process_tree::with_command(of_ours).is_ok_and(|found| !found.is_empty());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let removed = self.podman(&["pod", "rm", "--all", "--force", "--time", "1"]).status.success();
            if (removed && !busy()) || Instant::now() >= deadline {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn settings() -> Settings {
    Settings {
        image: IMAGE.to_owned(),
        context: Some("test".to_owned()),
        namespace: Some("lab".to_owned()),
        memory_bytes: Some(256 << 20),
        time: Duration::from_secs(300),
        ..Settings::default()
    }
}

#[test]
fn a_pod_conforms_and_kubectl_knows_every_option() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    let kubernetes = cluster.kubernetes(program.path(), settings());
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| cluster.left() };
    assert_eq!(conformance(&kubernetes, &place), Ok(()));
    let calls = cluster.calls();
    assert!(calls.iter().all(|call| call[..2] == ["--context=test", "--namespace=lab"]), "{calls:?}");
    options_are_known(&calls, &cluster.path("nowhere"));
}

/// Repeats calls by the real kubectl, with a cluster that does not answer: an option that it does not know is reported before.
fn options_are_known(calls: &BTreeSet<Vec<String>>, config: &Path) {
    let cluster = "clusters:\n- {name: c, cluster: {server: 'http://127.0.0.1:1'}}\n";
    let context = "contexts:\n- {name: test, context: {cluster: c, user: u}}\nusers:\n- {name: u, user: {}}\n";
    fs::write(config, format!("apiVersion: v1\nkind: Config\n{cluster}{context}")).unwrap();
    let ask = |call: &Vec<String>| {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(call).env("KUBECONFIG", config).env("HOME", config.parent().unwrap());
        kubectl.stdin(Stdio::null()).output()
    };
    if let Err(why) = ask(&vec!["version".to_owned()]) {
        eprintln!("skipped: the options of kubectl: {why}");
        return;
    }
    let kinds: BTreeSet<&str> = calls.iter().map(|call| call[2].as_str()).collect();
    // A pod's state is read only where it takes long to get ready.
    let always = BTreeSet::from(["auth", "create", "delete", "exec", "wait"]);
    assert_eq!(kinds.iter().copied().filter(|kind| *kind != "get").collect::<BTreeSet<_>>(), always);
    let distinct: BTreeSet<Vec<String>> =
        calls.iter().map(|call| call.iter().map(|word| without_name(word)).collect()).collect();
    let wrong: Vec<String> = thread::scope(|scope| {
        let asked: Vec<_> = distinct.iter().map(|call| scope.spawn(move || (call, ask(call).unwrap()))).collect();
        let answers = asked.into_iter().map(|asked| asked.join().unwrap());
        let wrong = answers.map(|(call, output)| (call, text(&output.stderr))).filter(|(call, said)| {
            let expected = if call[2] == "create" { "no objects passed to create" } else { "127.0.0.1:1" };
            !said.contains(expected)
        });
        wrong.map(|(call, said)| format!("{call:?}: {said}")).collect()
    });
    assert_eq!(wrong, [""; 0]);
}

/// A word of a call with one name for all pods.
fn without_name(word: &str) -> String {
    let is_name = word.trim_start_matches("pod/").strip_prefix("baremark-").is_some_and(|rest| rest.len() == 16);
    if is_name { format!("{}x", &word[..word.len() - 16]) } else { word.to_owned() }
}

#[test]
fn a_killed_lab_leaves_a_pod_that_ends_and_the_next_one_deletes_it() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    let kubectl = cluster.path("kubectl");
    let told = [("BAREMARK_PLAYED_KUBECTL", kubectl.as_path())];
    let mut lab = lab("pods::a_lab_to_be_killed", &program, &told);
    // The same file runs before, to print its version.
    let is_agent = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"agent\0"));
    wait_for(|| cluster.agents().into_iter().find(is_agent));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| cluster.agents().is_empty().then_some(()));
    wait_for(|| cluster.lines(&["ps", "--quiet"]).is_empty().then_some(()));
    assert_eq!(cluster.pods().len(), 1, "it has ended and is still listed");
    drop(cluster.kubernetes(program.path(), settings()).start(&NEVER).unwrap());
    assert_eq!(cluster.left(), [""; 0]);
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let kubectl = std::env::var_os("BAREMARK_PLAYED_KUBECTL").unwrap();
        Kubernetes::with_kubectl(program, settings(), kubectl).start(&NEVER).unwrap()
    });
}

#[test]
fn a_pod_that_ends_before_its_agent_says_why() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    let mut site = cluster.kubernetes(program.path(), settings()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    trial_of(&mut link, cpu(), 1 << 20).unwrap();
    let ended = cluster.podman(&["kill", "--all"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(link.from_agent.read(&mut [0]).unwrap(), 0, "the stream has ended");
    wait_for(|| cluster.lines(&["ps", "--quiet"]).is_empty().then_some(()));
    site.kill();
    let log = site.log().join("\n");
    assert!(log.contains("Kubernetes reports: pod baremark-"), "{log}");
    assert!(log.contains("is Failed (Error, exit code 137)"), "{log}");
    assert_eq!(cluster.left(), [""; 0]);
}

#[test]
fn a_program_that_does_not_arrive_whole_or_does_not_run_is_refused() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    cluster.write("cut", "");
    let why = cluster.kubernetes(program.path(), settings()).start(&NEVER).err().unwrap().to_string();
    let length = fs::metadata(program.path()).unwrap().len();
    assert!(why.contains("the program could not be brought into pod baremark-"), "{why}");
    assert!(why.contains(&format!("received 1000 of {length} bytes")), "{why}");
    fs::remove_file(cluster.path("cut")).unwrap();
    let foreign = cluster.path("foreign");
    fs::write(&foreign, b"\x7fELF but of no machine at all").unwrap();
    let why = cluster.kubernetes(foreign, settings()).start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("the program could not be brought into pod baremark-"), "{why}");
    assert_eq!(cluster.left(), [""; 0]);
}

/// The whole program, as a user runs it.
#[test]
fn a_study_compares_a_pod_with_native() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    let bench = Bench::new();
    let study = format!(
        "[study]\ntitle = \"a pod\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n\
         [factors]\nenvironment = [\"native\", \"kubernetes\"]\nranks = 1\n\
         [environments.kubernetes]\nimage = \"{IMAGE}\"\ncontext = \"test\"\nmemory = \"256 MiB\"\nfresh = \"run\"\n\
         [design]\nphase = \"20 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"1 min\"\n"
    );
    let study = bench.write("study.toml", study);
    let path = format!("{}:{}", cluster.folder.path().display(), std::env::var("PATH").unwrap());
    let document = program.document_with(&bench, &study, &[("PATH", &path)]);
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    let ratios = document["ratios"].as_array().unwrap();
    let of = ratios.iter().find(|row| row["treatment"]["environment"] == "kubernetes").unwrap();
    assert!(of["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{of}");
    assert_eq!(cluster.left(), [""; 0]);
    fs::write(cluster.path("denied"), "create pods\n").unwrap();
    let mut command = bench.command(&["plan", study.to_str().unwrap()]);
    let output = command.env("PATH", &path).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("no permission to create pods in the default namespace of context test"), "{said}");
}

/// A static program of this machine and the file that its argument names; a pod has the libraries of its image alone.
#[test]
fn one_program_runs_natively_and_in_a_pod_from_the_command_line() {
    let Some(cluster) = Cluster::start() else { return };
    let bench = Bench::new();
    bench.write("data", "some bytes\n".repeat(1234));
    let source = "#include <stdio.h>\nint main(int n, char **w) { FILE *f = fopen(w[1], \"r\"); unsigned long sum = 7; int c;\n\
        while (f && (c = fgetc(f)) != EOF) sum = sum * 31 + c; printf(\"sum %lu\\n\", sum % 1000003); return !f; }\n";
    let (from, to) = (bench.write("fold.c", source), bench.path("fold"));
    let built = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&to).arg(from).status().unwrap();
    assert!(built.success());
    let path = format!("{}:{}", cluster.folder.path().display(), std::env::var("PATH").unwrap());
    let places = ["--in", "native,kubernetes:test/lab", "--image", IMAGE];
    let more = ["--metric", "sum=sum ([0-9]+)", "--budget", "60s", "--precision", "20", "--", "./fold", "data"];
    let ran = bench.command(&[&["--json", "run"], &places[..], &more].concat()).env("PATH", &path).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == "sum");
    let sums: Vec<_> =
        rows.map(|row| (row["treatment"]["environment"].to_string(), row["estimate"].as_f64())).collect();
    assert_eq!(sums.len(), 2, "{sums:?}");
    assert!(sums.iter().all(|(_, sum)| sum.is_some_and(|sum| sum > 0.0) && *sum == sums[0].1), "{sums:?}");
    let calls = cluster.calls();
    assert!(calls.iter().all(|call| call[..2] == ["--context=test", "--namespace=lab"]), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call[2] == "create").count(), 1, "pods are made by one manifest");
    assert_eq!(cluster.left(), [""; 0]);
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_pods_take() {
    let (program, Some(cluster)) = (Program::new(), Cluster::start()) else { return };
    print_times(&cluster.kubernetes(program.path(), settings()), cpu());
}
