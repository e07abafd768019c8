// Package container says which container, pod and systemd unit a control group
// belongs to, by the group's id as BPF programs see it
// (bpf_get_current_cgroup_id, action's builtin cgroup), also when the group is
// gone.
//
//	r := container.New(nil)
//	info, ok := r.Resolve(id)
//	if ok {
//		fmt.Println(info.Namespace, info.Pod, info.Name)
//	}
//
// The path of a group tells the container's id and the pod's (Parse, which
// needs no machine). Names come from what kubelet, Docker, containerd, CRI-O and
// Podman keep on the node's file system: no API server and no socket is asked.
//
// # Lifetime
//
// A Resolver remembers what it has resolved. Groups that live shorter than that
// are known to it if it is told of them: attach to
// "tracepoint:cgroup:cgroup_mkdir" and give id and path to Observe.
//
// # Privileges and kernels
//
// Looking an id up takes CAP_DAC_READ_SEARCH (open_by_handle_at, Linux 5.5 for
// control groups); without, the tree is walked once for each unknown id. Names
// take whatever their files take: root as a rule. Only version 2 of control
// groups has ids. In a container, mount the node's /sys/fs/cgroup, /var/log/pods
// and /run/containerd, and give their parent as Options.Root.
//
// # Overhead
//
// A known id costs a map look-up and no allocation (0.2 µs), an unknown one some
// 80 µs on a 2-core virtual machine, and the reading of a few small files.
package container
