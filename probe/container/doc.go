// Package container finds the container, pod and systemd unit that a control group belongs
// to, by the group's id as BPF programs see it (bpf_get_current_cgroup_id, action's builtin
// cgroup), also after the group is gone.
//
//	r := container.New(nil)
//	info, ok := r.Resolve(id)
//	if ok {
//		fmt.Println(info.Namespace, info.Pod, info.Name)
//	}
//
// The path of a group contains the ids of the container and the pod (Parse, which needs no
// machine). Names come from files that kubelet, Docker, containerd, CRI-O and Podman keep on
// the node. No API server and no socket is used.
//
// # Lifetime
//
// A Resolver remembers what it has resolved. To resolve groups with a short life, attach to
// "tracepoint:cgroup:cgroup_mkdir" and pass id and path to Observe.
//
// # Privileges and kernels
//
// Looking up an id needs CAP_DAC_READ_SEARCH (open_by_handle_at, Linux 5.5 for control
// groups); without it, the tree is walked once for each unknown id. Names need the privileges
// to read their files, usually root. Only version 2 of control groups has ids. In a
// container, mount the node's /sys/fs/cgroup, /var/log/pods and /run/containerd, and give
// their parent as Options.Dir.
//
// # Overhead
//
// A known id costs a map look-up and no allocation (0.2 µs). An unknown one costs some 80 µs
// on a 2-core virtual machine, and the reading of a few small files.
package container
