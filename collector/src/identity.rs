//! Who lives in a cgroup: container, pod and unit from its path, names from what the kubelet leaves on the node.
//!
//! The kubelet names a link for each container's log `POD_NAMESPACE_CONTAINER-ID.log`. That gives the names of this node's
//! pods without asking the API server, without credentials and without anything about other nodes. A link may come some
//! seconds after its cgroup, so cgroups of pods are looked up again for a while.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use memwide_model::{Resident, WorkloadId};
use memwide_proto::v1::Workload;

/// Most cgroups waiting for names.
const WAITING_MAX: usize = 4_096;
/// Between two looks at the folder.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a name is waited for: pulling an image comes before the cgroup, so the link follows soon.
const WAIT: Duration = Duration::from_mins(1);
/// Definitions live as long as they are told.
const TELL_EVERY: Duration = Duration::from_hours(1);
/// Characters of a container's id that are shown.
const SHORT_ID: usize = 12;

/// Names of this node's containers, by their ids.
#[derive(Debug)]
pub(crate) struct Identity {
    folder: PathBuf,
    names: HashMap<String, Names>,
    waiting: Vec<Waiting>,
    looked: Option<Instant>,
    ready: Vec<Workload>,
    /// Workloads of paths that were told, and since when they are remembered.
    told: HashSet<u64>,
    told_since: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Names {
    pod: String,
    namespace: String,
    container: String,
}

#[derive(Debug)]
struct Waiting {
    cgroup: Cgroup,
    resident: Resident,
    since: Instant,
}

/// A cgroup's id and path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    pub(crate) id: u64,
    pub(crate) path: String,
}

impl Identity {
    /// With names from this folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            names: HashMap::new(),
            waiting: Vec::new(),
            looked: None,
            ready: Vec::new(),
            told: HashSet::new(),
            told_since: None,
        }
    }

    /// Enters a cgroup that was created or found; says what is known of it now.
    pub(crate) fn enter(&mut self, cgroup: Cgroup, now: Instant) -> Option<&Workload> {
        let resident = Resident::of(&cgroup.path);
        let names = self.names.get(&resident.container);
        self.ready.push(workload(&cgroup, &resident, names));
        let is_unnamed = names.is_none() && !resident.pod_uid.is_empty();
        if is_unnamed && !resident.container.is_empty() && self.waiting.len() < WAITING_MAX {
            self.waiting.push(Waiting {
                cgroup,
                resident,
                since: now,
            });
        }
        self.ready.last()
    }

    /// The workload at a path, told by [`Identity::take`] now and then.
    pub(crate) fn of_path(&mut self, path: &str, now: Instant) -> u64 {
        let resident = Resident::of(path);
        let is_of_pod = !resident.pod_uid.is_empty() && !resident.container.is_empty();
        if is_of_pod && !self.names.contains_key(&resident.container) && self.may_look(now) {
            self.look();
        }
        let cgroup = Cgroup {
            id: 0,
            path: path.to_owned(),
        };
        let it = workload(&cgroup, &resident, self.names.get(&resident.container));
        let is_old = |since: Instant| now.duration_since(since) >= TELL_EVERY;
        if self.told_since.is_none_or(is_old) {
            self.told.clear();
            self.told_since = Some(now);
        }
        let id = it.workload_id;
        if self.told.insert(id) {
            self.ready.push(it);
        }
        id
    }

    /// At most every two seconds.
    fn may_look(&mut self, now: Instant) -> bool {
        let due = |looked: Instant| now.duration_since(looked) >= LOOK_EVERY;
        let may = self.looked.is_none_or(due);
        if may {
            self.looked = Some(now);
        }
        may
    }

    /// What is new or better known since the last time.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Workload> {
        if !self.waiting.is_empty() && self.may_look(now) {
            self.look();
            let names = &self.names;
            let ready = &mut self.ready;
            self.waiting.retain(|one| {
                let found = names.get(&one.resident.container);
                if found.is_some() {
                    ready.push(workload(&one.cgroup, &one.resident, found));
                }
                found.is_none() && now.duration_since(one.since) < WAIT
            });
        }
        std::mem::take(&mut self.ready)
    }

    /// Reads the folder's names; what is gone from it is forgotten.
    fn look(&mut self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| parse(entry.file_name().to_str()?));
        self.names = names.collect();
    }
}

/// `POD_NAMESPACE_CONTAINER-ID.log`: names of pods, namespaces and containers hold no `_`.
fn parse(link: &str) -> Option<(String, Names)> {
    let (names, id) = link.strip_suffix(".log")?.rsplit_once('-')?;
    let mut parts = names.split('_').map(str::to_owned);
    let names = Names {
        pod: parts.next()?,
        namespace: parts.next()?,
        container: parts.next()?,
    };
    (parts.next().is_none() && id.len() == 64).then(|| (id.to_owned(), names))
}

fn workload(cgroup: &Cgroup, resident: &Resident, names: Option<&Names>) -> Workload {
    let id = &resident.container;
    let mut it = Workload {
        cgroup_path: cgroup.path.clone(),
        cgroup_id: cgroup.id,
        ..Workload::default()
    };
    if let Some(names) = names {
        it.namespace.clone_from(&names.namespace);
        it.pod.clone_from(&names.pod);
        it.container.clone_from(&names.container);
        owner(&names.pod).clone_into(&mut it.service);
    } else {
        it.pod.clone_from(&resident.pod_uid);
        let is_id = id.len() == 64;
        let shown = id.get(..SHORT_ID).filter(|_| is_id);
        shown.unwrap_or(id).clone_into(&mut it.container);
        it.service.clone_from(&resident.unit);
    }
    let texts = [
        &it.namespace,
        &it.pod,
        &it.container,
        &it.service,
        &it.cgroup_path,
    ];
    it.workload_id = WorkloadId::new(texts.map(String::as_str)).0;
    it
}

/// The workload a pod belongs to, from its name: what controllers append is cut off.
///
/// `NAME-HASH-RANDOM` of a Deployment, `NAME-RANDOM` of a `DaemonSet` or Job, `NAME-ORDINAL` of a `StatefulSet`. Kubernetes
/// makes hashes and random parts of letters without vowels and of digits without 0, 1 and 3.
fn owner(pod: &str) -> &str {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    let is_made = |part: &str| part.chars().all(|c| LETTERS.contains(c));
    let Some((name, last)) = pod.rsplit_once('-') else {
        return pod;
    };
    if last.len() == 5 && is_made(last) {
        return match name.rsplit_once('-') {
            Some((owner, hash)) if (8..=10).contains(&hash.len()) && is_made(hash) => owner,
            _ => name,
        };
    }
    let is_ordinal = !last.is_empty() && last.bytes().all(|digit| digit.is_ascii_digit());
    if is_ordinal { name } else { pod }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5f0f8a7d3b1c4e6f9a2b5c8d7e0f1a3b4c6d8e9f0a1b2c3d4e5f6a7b8c9d0e1f";

    fn pod(id: u64) -> Cgroup {
        let path = format!("/kubepods/burstable/pod2f1c5c5a-8f1b-11e9-b2c1-0050568f0d3a/{ID}");
        Cgroup { id, path }
    }

    #[test]
    fn a_name_that_comes_later_is_told_then() {
        let folder = tempfile::tempdir().unwrap();
        let mut identity = Identity::new(folder.path().to_owned());
        let start = Instant::now();
        identity.enter(pod(7), start);
        let first = identity.take(start);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].pod, "2f1c5c5a-8f1b-11e9-b2c1-0050568f0d3a");
        assert_eq!(first[0].container, &ID[..12]);
        let link = format!("web-7d4b9c6f5d-x2x7k_shop_app-{ID}.log");
        fs::write(folder.path().join(link), "").unwrap();
        assert!(identity.take(start).is_empty(), "not looked again at once");
        let named = identity.take(start + LOOK_EVERY);
        let names = [
            &named[0].namespace,
            &named[0].pod,
            &named[0].container,
            &named[0].service,
        ];
        assert_eq!(names, ["shop", "web-7d4b9c6f5d-x2x7k", "app", "web"]);
        assert_eq!(named[0].cgroup_id, 7);
        assert_ne!(named[0].workload_id, first[0].workload_id);
        assert!(identity.take(start + 2 * LOOK_EVERY).is_empty());
        identity.enter(pod(8), start);
        assert_eq!(
            identity.take(start)[0].pod,
            "web-7d4b9c6f5d-x2x7k",
            "known by now"
        );
    }

    #[test]
    fn a_name_is_not_waited_for_for_ever() {
        let mut identity = Identity::new(PathBuf::from("/nonexistent"));
        let start = Instant::now();
        identity.enter(pod(7), start);
        assert_eq!(identity.take(start).len(), 1);
        assert_eq!(identity.waiting.len(), 1);
        assert!(identity.take(start + WAIT).is_empty());
        assert!(identity.waiting.is_empty());
    }

    #[test]
    fn units_are_services_without_kubernetes() {
        let mut identity = Identity::new(PathBuf::from("/nonexistent"));
        let path = "/system.slice/nginx.service".to_owned();
        identity.enter(Cgroup { id: 3, path }, Instant::now());
        let said = identity.take(Instant::now());
        assert_eq!(
            (said[0].service.as_str(), said[0].pod.as_str()),
            ("nginx.service", "")
        );
    }

    #[test]
    fn pods_are_named_after_their_owners() {
        for (pod, expected) in [
            ("web-7d4b9c6f5d-x2x7k", "web"),
            ("node-exporter-z9k4q", "node-exporter"),
            ("postgres-0", "postgres"),
            ("postgres-12", "postgres"),
            (
                "kube-apiserver-node-1.example",
                "kube-apiserver-node-1.example",
            ),
            ("debug", "debug"),
            ("my-cache", "my-cache"),
        ] {
            assert_eq!(owner(pod), expected, "{pod}");
        }
    }

    #[test]
    fn links_of_other_forms_are_left_out() {
        for link in ["a_b_c.log", "a_b-c.log", "a_b_c_d-x.log", "x", "_-.log"] {
            assert_eq!(parse(link), None, "{link}");
        }
    }
}
