//! Shapes of cgroup paths that runtimes, kubelets and systemd make, by their documentation and source. `ID` stands for 64
//! digits, `OUT` for those of an outer container, `UID` and `U_D` for a pod's uid, `HASH` for that of a static pod.

use memwide_model::{Qos, Resident};

const ID: &str = "5f0f8a7d3b1c4e6f9a2b5c8d7e0f1a3b4c6d8e9f0a1b2c3d4e5f6a7b8c9d0e1f";
const OUT: &str = "0c7a1e5d9b3f2a4c6e8d0b1f3a5c7e9d2b4f6a8c0e1d3b5f7a9c2e4d6b8f0a1c";
const UID: &str = "2f1c5c5a-8f1b-11e9-b2c1-0050568f0d3a";
const HASH: &str = "d4b0a0e2c5f64f1f9a6f6f1f0d3a2b1c";

/// Path, container, pod, QoS, unit.
const PATHS: &str = r"
# Kubernetes, cgroupfs (Docker, containerd, CRI-O), v1 and v2
/kubepods/burstable/podUID/ID | ID | UID | Burstable |
/kubepods/besteffort/podUID/ID | ID | UID | BestEffort |
/kubepods/podUID/ID | ID | UID | Guaranteed |
/kubepods/burstable/podUID/crio-ID | ID | UID | Burstable |
/kubepods/burstable/podUID/crio-conmon-ID | | UID | Burstable |
/kubepods/burstable/podUID | | UID | Burstable |
/kubepods/burstable/podHASH/ID | ID | HASH | Burstable |
# Kubernetes, systemd
/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/docker-ID.scope | ID | UID | Burstable |
/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_D.slice/cri-containerd-ID.scope | ID | UID | BestEffort |
/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope | ID | UID | Guaranteed |
/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope/container | ID | UID | Guaranteed |
/kubepods.slice/kubepods-podU_D.slice/crio-conmon-ID.scope | | UID | Guaranteed |
/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/cri-containerd-ID.scope | ID | HASH | Burstable |
/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/cri-containerd-ID.scope/system.slice/sshd.service | ID | UID | Burstable |
/system.slice/containerd.service/kubepods-burstable-podU_D.slice:cri-containerd:ID | ID | UID | Burstable |
/kubepods-besteffort-podU_D.slice:cri-containerd:ID | ID | UID | BestEffort |
# seen from a cgroup namespace
/../../podUID/ID | ID | UID | Guaranteed |
/../cri-containerd-ID.scope | ID | | |
# kind, minikube, k3d: a node is a container
/docker/OUT/kubelet/kubepods/burstable/podUID/ID | ID | UID | Burstable |
/docker/OUT/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-podU_D.slice/cri-containerd-ID.scope | ID | UID | BestEffort |
/system.slice/docker-OUT.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_D.slice/cri-containerd-ID.scope | ID | UID | Guaranteed |
/docker/OUT/kubepods/besteffort/podUID/ID | ID | UID | BestEffort |
/docker/OUT/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/docker-ID.scope | ID | UID | Burstable |
/system.slice/docker-OUT.scope/system.slice/kubelet.service | OUT | | |
# Docker, Podman, nerdctl, Docker in Docker
/docker/ID | ID | | |
/system.slice/docker-ID.scope | ID | | |
/docker/OUT/docker/ID | ID | | |
/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope | ID | | |
/machine.slice/libpod-ID.scope | ID | | |
/machine.slice/libpod-ID.scope/container | ID | | |
/machine.slice/machine-libpod_pod_OUT.slice/libpod-ID.scope | ID | | |
/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container | ID | | |
/libpod_parent/libpod-ID | ID | | |
/machine.slice/libpod-conmon-ID.scope | | | | libpod-conmon-ID.scope
/system.slice/nerdctl-ID.scope | ID | | |
/docker/buildkit/abcdefghijklmnopqrstuvwxy | abcdefghijklmnopqrstuvwxy | | |
# others
/lxc/web-1 | web-1 | | |
/lxc.payload.web-1 | web-1 | | |
/lxc.payload.web-1/system.slice/cron.service | web-1 | | |
/machine.slice/systemd-nspawn@fedora.service/payload | fedora | | |
/machine.slice/systemd-nspawn@my\x2dbox.service | my-box | | |
/ecs/HASH/ID | ID | | |
/ecs/HASH-1234567890 | HASH-1234567890 | | |
/ecs/cluster/HASH/HASH-1234567890 | HASH-1234567890 | | |
/mesos/UID | UID | | |
/system.slice/garden.service/garden/bad/4d4dcca1-c9b8-4bc8-4e4b-9bdc | 4d4dcca1-c9b8-4bc8-4e4b-9bdc | | |
/nomad.slice/share.slice/UID.web.scope | UID.web | | |
# systemd
/system.slice/nginx.service | | | | nginx.service
/system.slice/system-getty.slice/getty@tty1.service | | | | getty@tty1.service
/system.slice/docker.service | | | | docker.service
/system.slice/system-postgresql.slice/postgresql@15-main.service | | | | postgresql@15-main.service
/user.slice/user-1000.slice/session-3.scope | | | | session-3.scope
/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox.service | | | | app-firefox.service
/machine.slice/machine-qemu\x2d3\x2dvm1.scope | | | | machine-qemu-3-vm1.scope
/init.scope | | | | init.scope
/ | | | |
 | | | |
/user.slice | | | |
/kubepods | | | |
/kubepods/burstable | | | Burstable |
/podinfo/pod-of-peas | | | |
";

#[test]
fn each_shape_names_container_pod_and_unit() {
    let mut rows = 0;
    for line in PATHS.lines().filter(|line| line.contains('|')) {
        let line = line
            .replace("U_D", &UID.replace('-', "_"))
            .replace("UID", UID)
            .replace("ID", ID)
            .replace("OUT", OUT)
            .replace("HASH", HASH);
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let it = Resident::of(fields[0]);
        let qos = it.qos.map_or("", Qos::name);
        assert_eq!(
            [&it.container, &it.pod_uid, qos, &it.unit],
            [fields[1], fields[2], fields[3], fields[4]],
            "{}",
            fields[0]
        );
        rows += 1;
    }
    assert!(rows > 50, "{rows}");
}

#[test]
fn hostile_paths_are_only_text() {
    for path in [
        "/pod\\x/\\x2",
        "/\\xzz\\x00\\xff",
        "/::::",
        "/-.scope",
        "/docker-.scope",
        "/pod_____",
        "/lxc",
        "/ecs/-",
        "/é\\x2d/🦀-pod.slice",
        "/kubepods-pod.slice:::",
    ] {
        let it = Resident::of(path);
        assert!(
            it.container.is_empty() && it.pod_uid.is_empty(),
            "{path}: {it:?}"
        );
    }
}
