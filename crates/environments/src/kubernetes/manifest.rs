//! The pod of one site, written and read as the types of the Kubernetes API.

use super::settings::Settings;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerState, Pod, PodSpec, ResourceRequirements, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::fmt;

/// The pod's only container.
pub const CONTAINER: &str = "agent";
/// The label that marks every pod of this program, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "baremark");
/// The label that names the host and the process which created the pod.
pub const OWNER: &str = "baremark-owner";

/// Waiting reasons after which a container does not start unless somebody changes something.
const HOPELESS: [&str; 4] = ["CreateContainerConfigError", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"];

/// How long a pod waits for its agent, in seconds: longer than the program may take to be brought there.
const UNUSED_LIMIT: u64 = 150;

/// The pod `name` of `owner`. Its main process does nothing but end: at SIGTERM, when no agent was started in time, or at
/// the deadline.
pub fn pod(settings: &Settings, name: &str, owner: &str) -> Pod {
    let seconds = settings.time.as_secs().max(1);
    let first = seconds.min(UNUSED_LIMIT);
    let unused = format!("sleep {first} & wait $!; [ -e /tmp/baremark-used ] || exit 0");
    let idle = format!("trap \"exit 0\" TERM; {unused}; sleep {} & wait $!", seconds - first);
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(settings.image.clone()),
        // All pods of a run start from one image, also where its tag is moved meanwhile.
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(["sh", "-c", &idle].map(str::to_owned).to_vec()),
        resources: resources(settings),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    let labels = [(MANAGED_BY.0, MANAGED_BY.1), (OWNER, owner)];
    let spec = PodSpec {
        active_deadline_seconds: Some(i64::try_from(seconds).unwrap_or(i64::MAX)),
        automount_service_account_token: Some(false),
        containers: vec![container],
        enable_service_links: Some(false),
        node_selector: (!settings.node.is_empty()).then(|| settings.node.clone()),
        restart_policy: Some("Never".to_owned()),
        runtime_class_name: settings.runtime_class.clone(),
        ..PodSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(spec), status: None }
}

/// Requests equal to limits, hence the class of service Guaranteed where both CPUs and memory are given.
fn resources(settings: &Settings) -> Option<ResourceRequirements> {
    let cpus = settings.cpus.map(|count| ("cpu".to_owned(), Quantity(count.to_string())));
    let memory = settings.memory_bytes.map(|bytes| ("memory".to_owned(), Quantity(bytes.to_string())));
    let quantities: BTreeMap<String, Quantity> = cpus.into_iter().chain(memory).collect();
    (!quantities.is_empty()).then(|| ResourceRequirements {
        limits: Some(quantities.clone()),
        requests: Some(quantities),
        ..ResourceRequirements::default()
    })
}

/// A text as the value of a label: at most 63 letters, digits, hyphens, underscores and dots, the first and last alphanumeric.
pub fn label(text: &str) -> String {
    let harmless = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let cut: String = text.chars().map(harmless).take(63).collect();
    cut.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

/// The state of a pod, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    name: String,
    phase: String,
    /// The reason that the cluster gives, with its message.
    reason: Option<String>,
    hopeless: bool,
}

impl State {
    /// The state in the status of `pod`.
    pub fn of(pod: &Pod) -> Self {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let phase = status.phase.unwrap_or_else(|| "Unknown".to_owned());
        let container = status.container_statuses.into_iter().flatten().find_map(|container| container.state);
        let unscheduled = status.conditions.into_iter().flatten();
        let unscheduled = unscheduled.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
        let waits = container.as_ref().and_then(|state| state.waiting.as_ref()?.reason.clone());
        let hopeless = waits.is_some_and(|reason| HOPELESS.contains(&reason.as_str()));
        let reason = with_message(status.reason, status.message)
            .or_else(|| container.and_then(reason_of))
            .or_else(|| unscheduled.map(|it| with_message(it.reason, it.message)).next().flatten());
        State { name, phase, reason, hopeless }
    }

    /// Whether the pod has ended, or cannot start as it is.
    pub fn is_final(&self) -> bool {
        self.hopeless || self.has_ended()
    }

    /// Whether all its containers have ended.
    pub fn has_ended(&self) -> bool {
        ["Failed", "Succeeded"].contains(&self.phase.as_str())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} is {}", self.name, self.phase)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

fn reason_of(state: ContainerState) -> Option<String> {
    if let Some(ended) = state.terminated {
        let reason = ended.reason.unwrap_or_else(|| "Terminated".to_owned());
        return with_message(Some(format!("{reason}, exit code {}", ended.exit_code)), ended.message);
    }
    state.waiting.and_then(|waiting| with_message(waiting.reason, waiting.message))
}

fn with_message(reason: Option<String>, message: Option<String>) -> Option<String> {
    match (reason.filter(|text| !text.is_empty()), message.filter(|text| !text.is_empty())) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (reason, message) => reason.or(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn written(settings: &Settings) -> Value {
        serde_json::to_value(pod(settings, "baremark-1", "host.7")).expect("a pod is JSON")
    }

    #[test]
    fn a_pod_has_every_setting_and_ends_by_itself() {
        let settings = Settings {
            image: "registry.example/busybox:1".to_owned(),
            runtime_class: Some("kata".to_owned()),
            node: [("disktype".to_owned(), "ssd".to_owned())].into(),
            cpus: Some(2),
            memory_bytes: Some(128 << 20),
            time: Duration::from_secs(240),
            ..Settings::default()
        };
        let quantities = json!({"cpu": "2", "memory": "134217728"});
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "baremark-1",
                "labels": {"app.kubernetes.io/managed-by": "baremark", "baremark-owner": "host.7"}
            },
            "spec": {
                "activeDeadlineSeconds": 240,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "agent",
                    "image": "registry.example/busybox:1",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", "trap \"exit 0\" TERM; \
                        sleep 150 & wait $!; [ -e /tmp/baremark-used ] || exit 0; sleep 90 & wait $!"],
                    "resources": {"limits": quantities, "requests": quantities},
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}
                }],
                "enableServiceLinks": false,
                "nodeSelector": {"disktype": "ssd"},
                "restartPolicy": "Never",
                "runtimeClassName": "kata"
            }
        });
        assert_eq!(written(&settings), expected);
    }

    #[test]
    fn what_is_not_set_is_left_to_the_cluster() {
        let spec = &written(&Settings::default())["spec"];
        assert_eq!(spec["activeDeadlineSeconds"], 3600);
        for absent in ["nodeSelector", "runtimeClassName"] {
            assert_eq!(spec.get(absent), None);
        }
        assert_eq!(spec["containers"][0].get("resources"), None);
    }

    #[test]
    fn a_label_is_one_that_kubernetes_takes() {
        assert_eq!(label("node_1.example.17"), "node_1.example.17");
        assert_eq!(label("-a b/ü."), "a-b");
        assert_eq!(label(&"x".repeat(99)).len(), 63);
    }

    #[test]
    fn a_state_gives_the_reason_of_the_cluster() {
        let of = |status: Value| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status});
            let state = State::of(&serde_json::from_value(pod).expect("a pod"));
            (state.to_string(), state.is_final())
        };
        let waiting = |reason: &str| {
            json!({"phase": "Pending", "containerStatuses": [{
                "name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": "m"}}}]})
        };
        assert_eq!(of(waiting("ContainerCreating")), ("pod p is Pending (ContainerCreating: m)".to_owned(), false));
        assert_eq!(of(waiting("ImagePullBackOff")), ("pod p is Pending (ImagePullBackOff: m)".to_owned(), true));
        let killed = json!({"phase": "Failed", "containerStatuses": [{
            "name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]});
        assert_eq!(of(killed), ("pod p is Failed (OOMKilled, exit code 137)".to_owned(), true));
        let full = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]});
        assert_eq!(of(full), ("pod p is Pending (Unschedulable: 0/1 nodes)".to_owned(), false));
        assert_eq!(of(json!({"phase": "Running"})), ("pod p is Running".to_owned(), false));
    }
}
