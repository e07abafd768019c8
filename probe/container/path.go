package container

import (
	"strings"

	"github.com/borescope/borescope/internal/escape"
)

// Info is what is known of a control group. It is plain data.
type Info struct {
	// CgroupID is the group's id, 0 if it was parsed from a path.
	CgroupID uint64 `json:"cgroup_id,omitempty"`
	// Path is the group's path, below the mount of version 2.
	Path string `json:"path"`
	// Runtime is the runtime that made the container: "docker", "containerd", "cri-o",
	// "podman", "lxc", "nspawn"; "" if the path does not show it.
	Runtime string `json:"runtime,omitempty"`
	// Container is the container's id, "" if the group is in no container.
	Container string `json:"container,omitempty"`
	// Name is the container's name.
	Name string `json:"name,omitempty"`
	// PodUID, Pod and Namespace are those of the Kubernetes pod.
	PodUID    string `json:"pod_uid,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Unit is the innermost systemd service, or scope that is not a container.
	Unit string `json:"unit,omitempty"`
}

// String returns the shortest name that identifies the group: "namespace/pod/container", a
// container's name or short id, a unit, or a path.
func (i Info) String() string {
	short := i.Container
	if isHex(short, 64) {
		short = short[:12]
	}
	name := i.Name
	if name == "" {
		name = short
	}
	switch {
	case i.Pod != "":
		return strings.TrimSuffix(i.Namespace+"/"+i.Pod+"/"+name, "/")
	case name != "":
		return name
	case i.PodUID != "":
		return "pod " + i.PodUID
	case i.Unit != "":
		return i.Unit
	}
	return i.Path
}

// runtimes are the prefixes of the scopes that runtimes make under systemd.
var runtimes = []struct{ prefix, name string }{
	{"cri-containerd-", "containerd"},
	{"nerdctl-", "containerd"},
	{"containerd-", "containerd"},
	{"docker-", "docker"},
	{"crio-", "cri-o"},
	{"libpod-", "podman"},
}

// Parse returns what a group's path contains: everything except names. If containers are
// nested, it is the innermost one.
func Parse(path string) Info {
	out := Info{Path: path}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		part = unescape(part)
		if uid := podUID(part); uid != "" {
			out.PodUID, out.Container, out.Runtime, out.Unit = uid, "", "", ""
			continue
		}
		parent := ""
		if i > 0 {
			parent = parts[i-1]
		}
		if runtime, id := containerOf(parent, part, out.PodUID != ""); id != "" {
			out.Runtime, out.Container, out.Unit = runtime, id, ""
			continue
		}
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
			out.Unit = part
		}
	}
	return out
}

// containerOf recognizes the group of a container.
func containerOf(parent, part string, inPod bool) (runtime, id string) {
	name := strings.TrimSuffix(part, ".scope")
	// containerd without systemd's driver: "SLICE:cri-containerd:ID".
	if f := strings.Split(name, ":"); len(f) == 3 && isHex(f[2], 64) {
		name = f[1] + "-" + f[2]
	}
	for _, r := range runtimes {
		// conmon, the runtime's own helper, has the container's id, but is not in it.
		if rest, ok := strings.CutPrefix(name, r.prefix); ok && isHex(rest, 64) {
			return r.name, rest
		}
	}
	switch {
	case isHex(part, 64):
		switch {
		case parent == "docker" || parent == "ecs":
			return "docker", part
		case parent == "libpod_parent":
			return "podman", part
		}
		return "", part
	case inPod && isHex(name, 64):
		return "", name
	case parent == "lxc" || parent == "lxc.payload":
		return "lxc", part
	case strings.HasPrefix(part, "lxc.payload."):
		return "lxc", strings.TrimPrefix(part, "lxc.payload.")
	case parent == "machine.slice" && strings.HasPrefix(part, "machine-") && part != name:
		return "nspawn", strings.TrimPrefix(name, "machine-")
	case strings.HasPrefix(part, "systemd-nspawn@") && strings.HasSuffix(part, ".service"):
		return "nspawn", strings.TrimSuffix(strings.TrimPrefix(part, "systemd-nspawn@"), ".service")
	}
	return "", ""
}

// podUID returns the UID in a pod's group: "pod1234…" or "kubepods-burstable-pod1234….slice",
// where systemd's driver writes _ for -.
func podUID(part string) string {
	slice, isSlice := strings.CutSuffix(part, ".slice")
	switch {
	case isSlice && strings.Contains(slice, "kubepods"):
		_, uid, ok := strings.Cut(slice, "-pod")
		if ok && isUID(strings.ReplaceAll(uid, "_", "-")) {
			return strings.ReplaceAll(uid, "_", "-")
		}
	case !isSlice:
		if uid, ok := strings.CutPrefix(part, "pod"); ok && isUID(uid) {
			return uid
		}
	}
	return ""
}

// isUID reports whether s is a pod's UID: a UUID, or for static pods a hash of 32 digits.
func isUID(s string) bool {
	if isHex(s, 32) {
		return true
	}
	f := strings.Split(s, "-")
	return len(f) == 5 && isHex(f[0], 8) && isHex(f[1], 4) && isHex(f[2], 4) && isHex(f[3], 4) &&
		isHex(f[4], 12)
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// unescape undoes systemd's \xNN, except for bytes that are not text: programs other than
// systemd use names of containers unchanged, and may make groups with such names.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], `\x`) && i+4 <= len(s) && isHex(s[i+2:i+4], 2) {
			b.WriteByte(digit(s[i+2])<<4 | digit(s[i+3]))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	if !escape.Safe(b.String()) {
		return s
	}
	return b.String()
}

func digit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}
