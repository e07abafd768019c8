package container

import (
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxConfig bounds the files of container runtimes, in bytes.
const maxConfig = 8 << 20

// name fills in the names of a container and its pod from the node's files, as far as these
// have them.
func (r *Resolver) name(i *Info) {
	if i.PodUID != "" && i.Pod == "" {
		r.podLogs(i)
	}
	if isHex(i.Container, 64) {
		for _, from := range []func(*Info){r.containerLogs, r.docker, r.ociConfig, r.podman} {
			if i.Name == "" || i.PodUID != "" && i.Pod == "" {
				from(i)
			}
		}
	} else if i.Name == "" {
		i.Name = i.Container // lxc and nspawn name containers by name
	}
}

// podLogs reads the pod's name from kubelet's log directory:
// /var/log/pods/NAMESPACE_POD_UID.
func (r *Resolver) podLogs(i *Info) {
	for _, name := range r.names("var/log/pods") {
		f := strings.Split(name, "_")
		if len(f) == 3 && f[2] == i.PodUID {
			i.Namespace, i.Pod = f[0], f[1]
			return
		}
	}
}

// containerLogs reads kubelet's links: /var/log/containers/POD_NAMESPACE_NAME-ID.log.
func (r *Resolver) containerLogs(i *Info) {
	for _, name := range r.names("var/log/containers") {
		rest, ok := strings.CutSuffix(name, "-"+i.Container+".log")
		if f := strings.Split(rest, "_"); ok && len(f) == 3 {
			i.Pod, i.Namespace, i.Name = f[0], f[1], f[2]
			return
		}
	}
}

func (r *Resolver) names(dir string) []string {
	entries, err := fs.ReadDir(r.root, dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// read decodes a JSON file of bounded size.
func (r *Resolver) read(name string, v any) bool {
	f, err := r.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxConfig)).Decode(v) == nil
}

// docker reads Docker's own description of the container.
func (r *Resolver) docker(i *Info) {
	var c struct {
		Name   string
		Config struct{ Labels map[string]string }
	}
	if !r.read("var/lib/docker/containers/"+i.Container+"/config.v2.json", &c) {
		return
	}
	i.Runtime = "docker"
	i.Name = strings.TrimPrefix(c.Name, "/")
	i.labels(c.Config.Labels, "io.kubernetes.container.name", "io.kubernetes.pod.name",
		"io.kubernetes.pod.namespace")
}

// labels takes Kubernetes' names from labels or annotations.
func (i *Info) labels(l map[string]string, name, pod, namespace string) {
	for key, to := range map[string]*string{name: &i.Name, pod: &i.Pod, namespace: &i.Namespace} {
		if v := l[key]; v != "" {
			*to = v
		}
	}
}

// ociConfig reads the annotations that containerd and CRI-O give their runtime.
func (r *Resolver) ociConfig(i *Info) {
	var places []string
	const tasks = "run/containerd/io.containerd.runtime.v2.task"
	for _, namespace := range r.names(tasks) {
		places = append(places, path.Join(tasks, namespace, i.Container, "config.json"))
	}
	const crio = "run/containers/storage/overlay-containers"
	places = append(places, path.Join(crio, i.Container, "userdata/config.json"))
	for _, p := range places {
		var c struct{ Annotations map[string]string }
		if !r.read(p, &c) {
			continue
		}
		if strings.HasPrefix(p, tasks) {
			i.Runtime = "containerd"
			i.labels(c.Annotations, "nerdctl/name", "", "nerdctl/namespace")
			i.labels(c.Annotations, "io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name",
				"io.kubernetes.cri.sandbox-namespace")
		} else {
			i.labels(c.Annotations, "io.kubernetes.container.name", "io.kubernetes.pod.name",
				"io.kubernetes.pod.namespace")
		}
		return
	}
}

// podman reads the list of containers that Podman and CRI-O share.
func (r *Resolver) podman(i *Info) {
	var list []struct {
		ID    string   `json:"id"`
		Names []string `json:"names"`
	}
	if !r.read("var/lib/containers/storage/overlay-containers/containers.json", &list) {
		return
	}
	for _, c := range list {
		if c.ID == i.Container && len(c.Names) > 0 {
			i.Name = slices.MinFunc(c.Names, func(a, b string) int { return len(a) - len(b) })
			return
		}
	}
}
