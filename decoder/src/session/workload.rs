//! What runs in a cgroup, by the id samples carry.

use memwide_model::{Resident, WorkloadId};
use memwide_proto::v1;
use rustc_hash::FxHashMap;

/// Most cgroups of one host kept.
const CGROUPS_MAX: usize = 1 << 16;
/// Most processes whose cgroup is kept; they are found again by their next fault.
const PROCESSES_MAX: usize = 1 << 16;

/// Workloads by cgroup.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    by_cgroup: FxHashMap<u64, u64>,
    by_id: FxHashMap<u64, v1::Workload>,
    /// Where a process last was.
    processes: FxHashMap<u32, u64>,
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
        let resident = Resident::of(path);
        let mut workload = v1::Workload {
            pod: resident.pod_uid,
            container: resident.container,
            service: resident.unit,
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
            // Without an id it is told of a path alone.
            if workload.cgroup_id != 0 {
                self.by_cgroup
                    .insert(workload.cgroup_id, workload.workload_id);
            }
            self.by_id.insert(workload.workload_id, workload);
        }
    }

    /// The workload of a sample of a process; 0 when not known.
    ///
    /// Precise events carry no cgroup, as it would make each record an interrupt: theirs is the one in which the process
    /// was last seen by an event that does.
    pub(crate) fn of_sample(&mut self, pid: u32, cgroup_id: Option<u64>) -> u64 {
        let cgroup_id = match cgroup_id {
            Some(id) => {
                if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&pid) {
                    self.processes.clear();
                }
                self.processes.insert(pid, id);
                id
            }
            None => self.processes.get(&pid).copied().unwrap_or(0),
        };
        self.by_cgroup.get(&cgroup_id).copied().unwrap_or(0)
    }

    /// A process starts where its parent is; its number may have been another one's.
    pub(crate) fn started(&mut self, pid: u32, parent: u32) {
        match self.processes.get(&parent).copied() {
            Some(cgroup_id) => self.processes.insert(pid, cgroup_id),
            None => self.processes.remove(&pid),
        };
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
    WorkloadId::new(texts.map(String::as_str)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_collector_found_out_wins_over_a_path() {
        let mut workloads = Workloads::default();
        workloads.learn_path(5, "/pod");
        let by_path = workloads.of_sample(1, Some(5));
        workloads.learn(&[v1::Workload {
            pod: "web".into(),
            cgroup_id: 5,
            ..v1::Workload::default()
        }]);
        let found = workloads.of_sample(1, Some(5));
        assert_ne!((by_path, found), (found, 0));
        assert_eq!(workloads.get(found).unwrap().pod, "web");
        workloads.learn_path(5, "/pod");
        let other = workloads.of_sample(1, Some(6));
        assert_eq!((workloads.of_sample(2, Some(5)), other), (found, 0));
    }

    #[test]
    fn events_without_cgroup_follow_their_process() {
        let mut workloads = Workloads::default();
        workloads.learn_path(5, "/system.slice/web.service");
        workloads.learn_path(7, "/system.slice/db.service");
        let service = |workloads: &Workloads, id| workloads.get(id).map(|one| one.service.clone());
        assert_eq!(workloads.of_sample(9, None), 0);
        workloads.of_sample(9, Some(5));
        let id = workloads.of_sample(9, None);
        assert_eq!(service(&workloads, id).unwrap(), "web.service");
        workloads.of_sample(9, Some(7));
        let id = workloads.of_sample(9, None);
        assert_eq!(service(&workloads, id).unwrap(), "db.service");
        workloads.started(10, 9);
        assert_eq!(workloads.of_sample(10, None), id);
        workloads.started(10, 4);
        assert_eq!(workloads.of_sample(10, None), 0);
    }
}
