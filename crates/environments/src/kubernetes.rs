//! A pod of a Kubernetes cluster, by the user's own `kubectl` with the user's configuration.
//!
//! Each site is one pod whose main process only waits. The program is brought by one `kubectl exec` and the agent is run by
//! another, whose streams are the agent's. When the lab is killed, the agent's input ends, the agent leaves, and the shell
//! around it ends the pod. A pod in which no agent was started ends by itself soon, and every pod at the deadline in its
//! manifest; the next lab deletes pods that have ended. The image needs `sh`, `mkdir`, `cat`, `wc`, `chmod` and `sleep`. Ports of a pod are not forwarded: kubectl's tunnel
//! would be what is measured.

mod manifest;
mod settings;
pub(crate) mod study;

pub use settings::Settings;

use crate::child::{self, Piped};
use crate::interruptible::{GLANCE, unless};
use baremark_model::image;
use baremark_model::site::{Environment, Link, Missing, Site, SiteError};
use manifest::{CONTAINER, MANAGED_BY, Pod, State};
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long the cluster may take to answer a question.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How long a deleted pod may take to be gone, before it is deleted without waiting for its node.
const DELETE_LIMIT: Duration = Duration::from_secs(6);
/// How long the program may take to be brought into a pod.
const BRING_LIMIT: Duration = Duration::from_secs(120);
/// How long a client may take to end once its pod is gone.
const END_LIMIT: Duration = Duration::from_secs(2);
/// How often the state of a pod that does not get ready is read.
const STATE_PAUSE: Duration = Duration::from_secs(2);

/// Receives the program, which has `$1` bytes, and runs its `--version`.
const BRING: &str = "umask 077; mkdir -p /tmp && cat >/tmp/baremark && chmod 700 /tmp/baremark || exit 1; \
    received=$(wc -c </tmp/baremark); \
    [ \"$received\" -eq \"$1\" ] || { echo \"received $received of $1 bytes\" >&2; exit 1; }; \
    /tmp/baremark --version >/dev/null";

/// Runs the agent, then ends the pod. The pause lets the agent's last lines pass before the connection breaks.
const AGENT: &str = ": >/tmp/baremark-used; TMPDIR=/tmp /tmp/baremark agent; code=$?; \
    { sleep 1; kill 1; } </dev/null >/dev/null 2>&1 & exit $code";

/// What the user must be allowed to do: a verb on pods, or on one of their subresources.
const PERMISSIONS: [(&str, Option<&str>); 5] =
    [("create", None), ("get", None), ("watch", None), ("delete", None), ("create", Some("exec"))];

/// `kubectl` for one namespace of one cluster.
struct Cluster {
    kubectl: OsString,
    context: Option<String>,
    namespace: Option<String>,
}

impl Cluster {
    /// `kubectl` up to its subcommand. A value is part of its option's word, so that it cannot become an option.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        for (option, value) in [("context", &self.context), ("namespace", &self.namespace)] {
            command.args(value.as_ref().map(|value| format!("--{option}={value}")));
        }
        command
    }

    fn exec(&self, pod: &str, script: &str) -> Command {
        let mut command = self.command();
        command.args(["exec", "--stdin", pod, "--container", CONTAINER, "--", "sh", "-c", script]);
        command
    }

    /// The namespace and context, for people.
    fn title(&self) -> String {
        let namespace = self.namespace.as_ref().map_or("the default namespace".into(), |it| format!("namespace {it}"));
        let context = self.context.as_ref().map_or("the current context".into(), |it| format!("context {it}"));
        format!("{namespace} of {context}")
    }
}

/// The kubernetes environment: one pod for each site.
pub struct Kubernetes {
    program: PathBuf,
    settings: Settings,
    cluster: Arc<Cluster>,
    probed: OnceLock<Result<(), Missing>>,
    swept: Once,
}

impl Kubernetes {
    /// With this program as the agent, usually the one that is running; it must be static.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Kubernetes::with_kubectl(program, settings, "kubectl")
    }

    /// The same with another program that takes kubectl's command line.
    #[must_use]
    pub fn with_kubectl(program: PathBuf, settings: Settings, kubectl: impl Into<OsString>) -> Self {
        let (context, namespace) = (settings.context.clone(), settings.namespace.clone());
        let cluster = Arc::new(Cluster { kubectl: kubectl.into(), context, namespace });
        Kubernetes { program, settings, cluster, probed: OnceLock::new(), swept: Once::new() }
    }

    fn try_out(&self) -> Result<(), Missing> {
        image::check(&self.settings.image).map_err(|why| Missing { what: why.what, remedy: why.remedy })?;
        PERMISSIONS.iter().try_for_each(|(verb, subresource)| self.is_allowed(verb, *subresource))
    }

    fn is_allowed(&self, verb: &str, subresource: Option<&str>) -> Result<(), Missing> {
        let mut command = self.cluster.command();
        command.args(["auth", "can-i", verb, "pods"]);
        command.args(subresource.map(|name| format!("--subresource={name}")));
        let ran = child::run(&mut command, ANSWER_LIMIT).map_err(|why| Missing {
            what: format!("Kubernetes cannot be used: {why}"),
            remedy: "install kubectl".to_owned(),
        })?;
        let title = self.cluster.title();
        if ran.well() {
            return Ok(());
        }
        if ran.said.iter().any(|line| line == "no" || line.starts_with("no -")) {
            let resource = subresource.map_or("pods".to_owned(), |name| format!("pods/{name}"));
            let what = format!("no permission to {verb} {resource} in {title}");
            let remedy = "get a role that allows create, get, list, watch and delete on pods, and create on pods/exec";
            return Err(Missing { what, remedy: remedy.to_owned() });
        }
        let what = format!("Kubernetes does not answer in {title}: {}", ran.failure());
        Err(Missing { what, remedy: "make `kubectl get pods` work with the same context and namespace".to_owned() })
    }

    /// Deletes pods that labs left and that have ended since. One that cannot be deleted is left: it uses no processor.
    fn sweep(&self) {
        let mut command = self.cluster.command();
        let (key, value) = MANAGED_BY;
        command.args(["delete", "pods", "--wait=false", "--ignore-not-found"]).args([
            format!("--selector={key}={value}"),
            "--field-selector=status.phase!=Pending,status.phase!=Running,status.phase!=Unknown".to_owned(),
        ]);
        drop(child::run(&mut command, ANSWER_LIMIT));
    }

    fn create(&self, pod: &OwnPod, interrupt: &AtomicBool) -> Result<(), SiteError> {
        let owner = owner();
        let written = Pod::new(&self.settings, &pod.name, &owner).json();
        let mut command = self.cluster.command();
        command.args(["create", "--validate=strict", "--filename=-"]);
        match finish(&mut command, Some(written), Instant::now() + ANSWER_LIMIT, interrupt)? {
            Ok(_) => Ok(()),
            Err(log) => Err(SiteError::NotReady { what: format!("pod {} could not be created", pod.name), log }),
        }
    }

    /// Waits until the pod is ready, has failed, or cannot become ready as it is.
    fn wait_until_ready(&self, pod: &OwnPod, interrupt: &AtomicBool) -> Result<(), SiteError> {
        let limit = self.settings.start_limit;
        let deadline = Instant::now() + limit;
        let mut command = self.cluster.command();
        command.args(["wait", "--for=condition=Ready"]).arg(format!("pod/{}", pod.name));
        let mut wait = Piped::spawn(command.arg(format!("--timeout={}s", limit.as_secs() + 1)))?;
        loop {
            let until = deadline.min(Instant::now() + STATE_PAUSE);
            let ended = ends(&mut wait, until, interrupt)?;
            if ended && wait.ended_well() {
                return Ok(());
            }
            let state = pod.state();
            if ended || Instant::now() >= deadline || state.as_ref().is_some_and(State::is_final) {
                wait.kill();
                let state =
                    state.map_or_else(|| format!("the state of pod {} is not known", pod.name), |s| s.to_string());
                let late = format!(" and was not ready within {} s", limit.as_secs());
                let what = state + if Instant::now() >= deadline { &late } else { "" };
                return Err(SiteError::NotReady { what, log: wait.log() });
            }
        }
    }

    fn bring(&self, pod: &OwnPod, interrupt: &AtomicBool) -> Result<(), SiteError> {
        let content = fs::read(&self.program).map_err(SiteError::io(format!("reading {}", self.program.display())))?;
        let mut command = self.cluster.exec(&pod.name, BRING);
        command.args(["sh".to_owned(), content.len().to_string()]);
        match finish(&mut command, Some(content), Instant::now() + BRING_LIMIT, interrupt)? {
            Ok(_) => Ok(()),
            Err(mut log) => {
                log.extend(pod.state().filter(State::is_final).map(|state| state.to_string()));
                Err(SiteError::NotReady {
                    what: format!("the program could not be brought into pod {}", pod.name),
                    log,
                })
            }
        }
    }
}

impl Environment for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    /// Asks the cluster whether it allows what is needed.
    fn probe(&self) -> Result<(), Missing> {
        self.probed.get_or_init(|| self.try_out()).clone()
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        self.swept.call_once(|| self.sweep());
        let pod = OwnPod::new(&self.cluster);
        self.create(&pod, interrupt)?;
        self.wait_until_ready(&pod, interrupt)?;
        self.bring(&pod, interrupt)?;
        let client = Piped::spawn(&mut self.cluster.exec(&pod.name, AGENT))?;
        Ok(Box::new(PodSite { client, pod, end: None }))
    }
}

/// A pod of this lab; deleted when this is dropped.
struct OwnPod {
    cluster: Arc<Cluster>,
    name: String,
    gone: bool,
}

impl OwnPod {
    /// A pod to be created, with a name that no other has.
    fn new(cluster: &Arc<Cluster>) -> Self {
        let name = format!("baremark-{:016x}", RandomState::new().build_hasher().finish());
        OwnPod { cluster: Arc::clone(cluster), name, gone: false }
    }

    /// Its state; `None` where the cluster does not know it or does not answer in time.
    fn state(&self) -> Option<State> {
        let mut command = self.cluster.command();
        command.args(["get", "pod", &self.name, "--output=json"]);
        let never = AtomicBool::new(false);
        let said = finish(&mut command, None, Instant::now() + ANSWER_LIMIT, &never).ok()?.ok()?;
        State::of(&serde_json::from_slice(&said).ok()?)
    }

    /// Deletes it and waits until nothing of it runs; where its node does not answer, forgets it.
    fn delete(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let delete = |words: &[&str], limit| {
            let mut command = self.cluster.command();
            command.args(["delete", "pod", &self.name, "--ignore-not-found"]).args(words);
            child::run(&mut command, limit).is_ok_and(|ran| ran.well())
        };
        let timeout = format!("--timeout={}s", DELETE_LIMIT.as_secs());
        if !delete(&["--now", &timeout], DELETE_LIMIT + END_LIMIT) {
            delete(&["--grace-period=0", "--force", "--wait=false"], ANSWER_LIMIT);
        }
    }
}

impl Drop for OwnPod {
    fn drop(&mut self) {
        self.delete();
    }
}

struct PodSite {
    client: Piped,
    pod: OwnPod,
    /// How the pod ended, where it did before its agent left.
    end: Option<State>,
}

impl Site for PodSite {
    fn link(&mut self) -> Option<Link> {
        self.client.link()
    }

    /// What kubectl and, on a node of this machine, the cluster do.
    fn relay_works_for(&self) -> Duration {
        child::GO_RELAY
    }

    fn leave(&mut self, limit: Duration) {
        self.client.ends_within(limit);
    }

    fn kill(&mut self) {
        if self.pod.gone {
            return;
        }
        if self.client.ends_within(Duration::ZERO) && !self.client.ended_well() {
            self.end = self.pod.state().filter(State::has_ended);
        }
        self.pod.delete();
        self.client.ends_within(END_LIMIT);
        self.client.kill();
    }

    fn log(&self) -> Vec<String> {
        let mut log = self.client.log();
        log.extend(self.end.as_ref().map(|state| format!("Kubernetes reports: {state}")));
        log
    }
}

impl Drop for PodSite {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The host and process of this lab, as the value of a label.
fn owner() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(48).collect();
    manifest::label(&format!("{host}.{}", std::process::id()))
}

/// Waits until `deadline` for a child's own end.
fn ends(child: &mut Piped, deadline: Instant, interrupt: &AtomicBool) -> Result<bool, SiteError> {
    loop {
        unless(interrupt)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if child.ends_within(left.min(GLANCE)) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Runs a command to its end with `input`: its output, or the last lines of its log where it failed or took too long.
fn finish(
    command: &mut Command,
    input: Option<Vec<u8>>,
    deadline: Instant,
    interrupt: &AtomicBool,
) -> Result<Result<Vec<u8>, Vec<String>>, SiteError> {
    let mut child = Piped::spawn(command)?;
    let (mut from, mut to) = child.streams("kubectl")?;
    // Threads of their own, so that a cluster that reads or writes nothing cannot hold us beyond the limit.
    thread::spawn(move || to.write_all(&input.unwrap_or_default()));
    let (sender, outputs) = channel();
    thread::spawn(move || {
        let mut output = Vec::new();
        // Whoever does not wait any more has left.
        from.read_to_end(&mut output).map(|_| sender.send(output).unwrap_or_default())
    });
    let ended = ends(&mut child, deadline, interrupt)?;
    let well = ended && child.ended_well();
    child.kill();
    match outputs.recv_timeout(END_LIMIT) {
        Ok(output) if well => Ok(Ok(output)),
        _ => {
            let mut log = child.log();
            log.extend((!ended).then(|| "kubectl did not end in time".to_owned()));
            Ok(Err(log))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_an_option_or_a_word_of_its_own() {
        let settings = Settings {
            context: Some("--kubeconfig=/x".to_owned()),
            namespace: Some("-n all".to_owned()),
            ..Settings::default()
        };
        let kubernetes = Kubernetes::new(PathBuf::new(), settings);
        let command = kubernetes.cluster.exec("p", "true");
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        let expected = ["--context=--kubeconfig=/x", "--namespace=-n all", "exec", "--stdin", "p", "--container"];
        assert_eq!(words[..6], expected);
    }

    #[test]
    fn an_image_is_never_an_option() {
        let settings = Settings { image: "-x".to_owned(), ..Settings::default() };
        let missing = Kubernetes::with_kubectl(PathBuf::new(), settings, "/nowhere").probe().expect_err("refused");
        assert!(missing.to_string().starts_with("'-x' is not an image reference; write "), "{missing}");
    }

    #[test]
    fn kubectl_that_does_not_exist_is_missing_with_a_remedy() {
        let settings = Settings { image: "busybox:1".to_owned(), ..Settings::default() };
        let missing = Kubernetes::with_kubectl(PathBuf::new(), settings, "/nowhere/kubectl").probe().expect_err("gone");
        let text = missing.to_string();
        assert!(text.starts_with("Kubernetes cannot be used: starting /nowhere/kubectl: "), "{text}");
        assert!(text.ends_with("; install kubectl"), "{text}");
    }
}
