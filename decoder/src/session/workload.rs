//! What runs in a cgroup, by the id samples carry.

use memwide_model::ContentHash;
use memwide_proto::v1;
use rustc_hash::FxHashMap;

/// Most cgroups of one host kept.
const CGROUPS_MAX: usize = 1 << 16;

/// Workloads by cgroup.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    by_cgroup: FxHashMap<u64, u64>,
    by_id: FxHashMap<u64, v1::Workload>,
}

impl Workloads {
    /// Takes what the collector found out.
    pub(crate) fn learn(&mut self, workloads: &[v1::Workload]) {
        for workload in workloads {
            let mut workload = workload.clone();
            if workload.workload_id == 0 {
                workload.workload_id = id(&workload);
            }
            self.enter(workload);
        }
    }

    /// Takes a CGROUP record; what the collector found out says more.
    pub(crate) fn learn_path(&mut self, cgroup_id: u64, path: &str) {
        if self.by_cgroup.contains_key(&cgroup_id) {
            return;
        }
        let mut workload = v1::Workload {
            cgroup_path: path.to_owned(),
            cgroup_id,
            ..v1::Workload::default()
        };
        workload.workload_id = id(&workload);
        self.enter(workload);
    }

    fn enter(&mut self, workload: v1::Workload) {
        let is_known = self.by_cgroup.contains_key(&workload.cgroup_id);
        if is_known || self.by_cgroup.len() < CGROUPS_MAX {
            self.by_cgroup
                .insert(workload.cgroup_id, workload.workload_id);
            self.by_id.insert(workload.workload_id, workload);
        }
    }

    /// The workload of a cgroup; 0 when not known.
    pub(crate) fn id_of(&self, cgroup_id: u64) -> u64 {
        self.by_cgroup.get(&cgroup_id).copied().unwrap_or(0)
    }

    /// What is known of a workload.
    pub(crate) fn get(&self, id: u64) -> Option<&v1::Workload> {
        self.by_id.get(&id)
    }
}

fn id(workload: &v1::Workload) -> u64 {
    let texts = [
        &workload.namespace,
        &workload.pod,
        &workload.container,
        &workload.service,
        &workload.cgroup_path,
    ];
    let hash = ContentHash::of("workload");
    texts
        .iter()
        .fold(hash, |hash, text| hash.bytes(text.as_bytes()))
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_collector_found_out_wins_over_a_path() {
        let mut workloads = Workloads::default();
        workloads.learn_path(5, "/pod");
        let by_path = workloads.id_of(5);
        workloads.learn(&[v1::Workload {
            pod: "web".into(),
            cgroup_id: 5,
            ..v1::Workload::default()
        }]);
        let found = workloads.id_of(5);
        assert_ne!((by_path, found), (found, 0));
        assert_eq!(workloads.get(found).unwrap().pod, "web");
        workloads.learn_path(5, "/pod");
        assert_eq!((workloads.id_of(5), workloads.id_of(6)), (found, 0));
    }
}
