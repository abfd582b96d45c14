//! What the path of a cgroup says of the container, pod or unit in it.
//!
//! Paths are made by convention only: of the kubelet, of container runtimes, of systemd. The innermost container counts, as
//! nodes may be containers themselves (kind, k3d, Docker in Docker). What follows no known convention is left open.

/// How the kubelet guarantees resources to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// Requests equal limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// None.
    BestEffort,
}

impl Qos {
    /// As Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Who lives in a cgroup. Empty where the path does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resident {
    /// Of the innermost container: its full id, or its name where the runtime uses names (LXC, nspawn).
    pub container: String,
    /// The pod's uid, with dashes as the API writes it.
    pub pod_uid: String,
    /// Of the pod.
    pub qos: Option<Qos>,
    /// The systemd unit, outside containers.
    pub unit: String,
}

/// Digits of container ids.
const ID_DIGITS: usize = 64;

impl Resident {
    /// Of a path as `/proc/PID/cgroup` and cgroup records show it.
    pub fn of(path: &str) -> Self {
        let mut it = Self::default();
        let mut before = "";
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let plain = unescape(part);
            it.enter(&plain, before);
            before = part;
        }
        it
    }

    fn enter(&mut self, part: &str, before: &str) {
        if let Some(qos) = qos(part) {
            self.qos = Some(qos);
        }
        // Runtimes without systemd's manager, told to use it: `SLICE:RUNTIME:ID` in one name.
        let pod_part = part.split(':').next().unwrap_or(part);
        if let Some(uid) = pod_uid(pod_part) {
            self.qos = Some(self.qos.unwrap_or(Qos::Guaranteed));
            self.pod_uid = uid;
            self.container.clear();
        }
        if let Some(id) = container(part, before) {
            id.clone_into(&mut self.container);
            self.unit.clear();
        } else if self.container.is_empty() && self.pod_uid.is_empty() && is_unit(part) {
            part.clone_into(&mut self.unit);
        }
    }
}

fn qos(part: &str) -> Option<Qos> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let has = |name: &str| part == name || part.ends_with(&format!("kubepods-{name}"));
    if has("besteffort") || part.contains("kubepods-besteffort-") {
        Some(Qos::BestEffort)
    } else if has("burstable") || part.contains("kubepods-burstable-") {
        Some(Qos::Burstable)
    } else {
        None
    }
}

/// `podUID`, `kubepods-burstable-podUID.slice` with `_` for `-`; static pods have a hash without either.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match part.rsplit_once("-pod") {
        Some((slice, uid)) if slice.contains("kubepods") => uid,
        _ => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    (is_uuid(&uid) || is_hex(&uid, 32)).then_some(uid)
}

/// The id or name of a container, where this part of the path is one.
fn container<'a>(part: &'a str, before: &str) -> Option<&'a str> {
    let last = part.rsplit(':').next().unwrap_or(part);
    let name = last.strip_suffix(".scope").unwrap_or(last);
    let name = name.strip_suffix(".service").unwrap_or(name);
    let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
    if is_hex(id, ID_DIGITS) {
        // Monitors of containers are not in them.
        return (!runtime.ends_with("conmon")).then_some(id);
    }
    // Amazon ECS: the task's id and a number.
    if is_hex(runtime, 32) && id.len() >= 8 && id.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(name);
    }
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return Some(name);
    }
    if let Some(name) = name.strip_prefix("systemd-nspawn@") {
        return Some(name);
    }
    let by_folder = match before {
        "lxc" | "mesos" | "buildkit" => true,
        // Cloud Foundry.
        "garden" | "good" | "bad" => name.len() >= 27 && name.contains('-'),
        _ => false,
    };
    if by_folder {
        return Some(name);
    }
    // Nomad: the allocation and the task.
    let (allocation, task) = name.split_once('.')?;
    (is_uuid(allocation) && !task.is_empty()).then_some(name)
}

fn is_unit(part: &str) -> bool {
    let kind = part.rsplit_once('.').map(|(_, kind)| kind);
    matches!(kind, Some("service" | "scope"))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    groups
        .iter()
        .all(|digits| parts.next().is_some_and(|part| is_hex(part, *digits)))
        && parts.next().is_none()
}

/// systemd writes `\x2d` for a dash within a name.
fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.push_str(before);
        let byte = after
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(u8::is_ascii_graphic);
        if let Some(byte) = byte {
            out.push(char::from(byte));
            rest = after.get(2..).unwrap_or_default();
        } else {
            out.push_str("\\x");
            rest = after;
        }
    }
    out + rest
}
