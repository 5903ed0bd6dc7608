//! The pod of one site, written and read as the JSON of the Kubernetes API, of which few fields are used.

use super::settings::Settings;
use serde::Serialize;
use serde_json::Value;
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

/// A pod as it is created: what of the API's types is used, under the API's names
/// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod<'s> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'s>,
    spec: PodSpec<'s>,
}

#[derive(Debug, Serialize)]
struct Metadata<'s> {
    name: &'s str,
    labels: BTreeMap<&'static str, &'s str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'s> {
    active_deadline_seconds: u64,
    automount_service_account_token: bool,
    containers: [PodContainer<'s>; 1],
    enable_service_links: bool,
    restart_policy: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    node_selector: &'s BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_class_name: Option<&'s str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodContainer<'s> {
    name: &'static str,
    image: &'s str,
    image_pull_policy: &'static str,
    command: [String; 3],
    security_context: SecurityContext,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecurityContext {
    allow_privilege_escalation: bool,
    capabilities: DroppedCapabilities,
}

#[derive(Debug, Serialize)]
struct DroppedCapabilities {
    drop: [&'static str; 1],
}

#[derive(Debug, Serialize)]
struct Resources {
    limits: Quantities,
    requests: Quantities,
}

/// Quantities of the API are texts.
#[derive(Clone, Debug, Serialize)]
struct Quantities {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
}

impl<'s> Pod<'s> {
    /// The pod `name` of `owner`. Its main process does nothing but end: at SIGTERM, when no agent was started in time, or at
    /// the deadline.
    pub fn new(settings: &'s Settings, name: &'s str, owner: &'s str) -> Pod<'s> {
        let seconds = settings.time.as_secs().max(1);
        let first = seconds.min(UNUSED_LIMIT);
        let unused = format!("sleep {first} & wait $!; [ -e /tmp/baremark-used ] || exit 0");
        let idle = format!("trap \"exit 0\" TERM; {unused}; sleep {} & wait $!", seconds - first);
        let container = PodContainer {
            name: CONTAINER,
            image: &settings.image,
            // All pods of a run start from one image, also where its tag is moved meanwhile.
            image_pull_policy: "IfNotPresent",
            command: ["sh".to_owned(), "-c".to_owned(), idle],
            security_context: SecurityContext {
                allow_privilege_escalation: false,
                capabilities: DroppedCapabilities { drop: ["ALL"] },
            },
            resources: resources(settings),
        };
        Pod {
            api_version: "v1",
            kind: "Pod",
            metadata: Metadata { name, labels: [MANAGED_BY, (OWNER, owner)].into() },
            spec: PodSpec {
                active_deadline_seconds: seconds,
                automount_service_account_token: false,
                containers: [container],
                enable_service_links: false,
                restart_policy: "Never",
                node_selector: &settings.node,
                runtime_class_name: settings.runtime_class.as_deref(),
            },
        }
    }

    /// Its JSON.
    pub fn json(&self) -> Vec<u8> {
        // Texts and numbers: serialising cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Requests equal to limits, hence the class of service Guaranteed where both CPUs and memory are given.
fn resources(settings: &Settings) -> Option<Resources> {
    let cpu = settings.cpus.map(|count| count.to_string());
    let memory = settings.memory_bytes.map(|bytes| bytes.to_string());
    let limits = (cpu.is_some() || memory.is_some()).then_some(Quantities { cpu, memory })?;
    Some(Resources { requests: limits.clone(), limits })
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
    /// The state in the status of `pod`; `None` if that is something else.
    pub fn of(pod: &Value) -> Option<Self> {
        if pod["kind"] != "Pod" {
            return None;
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let status = &pod["status"];
        let phase = status["phase"].as_str().unwrap_or("Unknown").to_owned();
        let container =
            rows(&status["containerStatuses"]).map(|container| &container["state"]).find(|it| !it.is_null());
        let hopeless = container.and_then(|state| state["waiting"]["reason"].as_str());
        let hopeless = hopeless.is_some_and(|reason| HOPELESS.contains(&reason));
        let unscheduled =
            rows(&status["conditions"]).find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
        let reason = with_message(status)
            .or_else(|| container.and_then(reason_of))
            .or_else(|| unscheduled.and_then(with_message));
        Some(State { name, phase, reason, hopeless })
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

fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn reason_of(state: &Value) -> Option<String> {
    let ended = &state["terminated"];
    if ended.is_null() {
        return with_message(&state["waiting"]);
    }
    let reason = ended["reason"].as_str().unwrap_or("Terminated");
    let code = ended["exitCode"].as_i64().map_or_else(String::new, |code| format!(", exit code {code}"));
    let message = ended["message"].as_str().filter(|text| !text.is_empty());
    Some(message.map_or_else(|| format!("{reason}{code}"), |message| format!("{reason}{code}: {message}")))
}

/// The reason in `row` and its message, or what there is of both.
fn with_message(row: &Value) -> Option<String> {
    let of = |key: &str| row[key].as_str().filter(|text| !text.is_empty());
    match (of("reason"), of("message")) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (reason, message) => reason.or(message).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn written(settings: &Settings) -> Value {
        serde_json::from_slice(&Pod::new(settings, "baremark-1", "host.7").json()).expect("JSON")
    }

    /// The names are written here once more; whether the API knows them is for kubectl to say, which refuses others (`--validate=strict`).
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
            let state = State::of(&pod).expect("a pod");
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
        assert_eq!(
            of(json!({"phase": "Failed", "reason": "DeadlineExceeded"})).0,
            "pod p is Failed (DeadlineExceeded)"
        );
        let other = json!({"apiVersion": "v1", "kind": "List", "items": []});
        assert_eq!(State::of(&other), None);
    }
}
