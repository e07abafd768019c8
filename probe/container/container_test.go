package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	id1 = "4d1f1a1f9d0b6f0f6c0f6f3f1e6c1d2b3a49586776859403a2b1c0d9e8f70011"
	id2 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	uid = "0f3c6a4e-9d1b-4c2a-8e5f-1a2b3c4d5e6f"
)

// TestParse: the forms that kubelet, runtimes and systemd give their groups.
func TestParse(t *testing.T) {
	under := strings.ReplaceAll(uid, "-", "_")
	for p, want := range map[string]Info{
		// kubelet with the cgroupfs driver, by quality of service.
		"/kubepods/burstable/pod" + uid + "/" + id1:  {PodUID: uid, Container: id1},
		"/kubepods/besteffort/pod" + uid + "/" + id1: {PodUID: uid, Container: id1},
		"/kubepods/pod" + uid + "/" + id1:            {PodUID: uid, Container: id1},
		"/kubepods/pod" + uid:                        {PodUID: uid},
		"/kubepods/burstable":                        {},
		// With systemd's.
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id1 + ".scope": {PodUID: uid, Container: id1, Runtime: "containerd"},
		"/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + id1 + ".scope":                                              {PodUID: uid, Container: id1, Runtime: "cri-o"},
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice/docker-" + id1 + ".scope":       {PodUID: uid, Container: id1, Runtime: "docker"},
		"/kubepods.slice/kubepods-pod" + under + ".slice/crio-conmon-" + id1 + ".scope":                                       {PodUID: uid, Unit: "crio-conmon-" + id1 + ".scope"},
		"/kubepods.slice/kubepods-pod" + under + ".slice:cri-containerd:" + id1:                                               {Container: id1, Runtime: "containerd"},
		// A static pod, whose UID is a hash; a container that runs systemd.
		"/kubepods/pod0123456789abcdef0123456789abcdef/" + id1 + "/init.scope": {PodUID: "0123456789abcdef0123456789abcdef", Container: id1, Unit: "init.scope"},
		// kind: a node that is a container.
		"/docker/" + id1 + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-" + id2 + ".scope": {PodUID: uid, Container: id2, Runtime: "containerd"},
		"/docker/" + id1 + "/docker/" + id2:                               {Container: id2, Runtime: "docker"},
		"/docker/" + id1:                                                  {Container: id1, Runtime: "docker"},
		"/system.slice/docker-" + id1 + ".scope":                          {Container: id1, Runtime: "docker"},
		"/system.slice/nerdctl-" + id1 + ".scope":                         {Container: id1, Runtime: "containerd"},
		"/default/" + id1:                                                 {Container: id1},
		"/machine.slice/libpod-" + id1 + ".scope/container":               {Container: id1, Runtime: "podman"},
		"/machine.slice/libpod-conmon-" + id1 + ".scope":                  {Unit: "libpod-conmon-" + id1 + ".scope"},
		"/libpod_parent/libpod-" + id1:                                    {Container: id1, Runtime: "podman"},
		"/lxc/web":                                                        {Container: "web", Runtime: "lxc"},
		"/lxc.payload.web/system.slice/ssh.service":                       {Container: "web", Runtime: "lxc", Unit: "ssh.service"},
		`/machine.slice/machine-web\x2d1.scope`:                           {Container: "web-1", Runtime: "nspawn"},
		`/lxc/a\x1b[2J`:                                                   {Container: `a\x1b[2J`, Runtime: "lxc"},       // would be ESC
		`/lxc.payload.a\x0ab\xc2\x9b`:                                     {Container: `a\x0ab\xc2\x9b`, Runtime: "lxc"}, // a line end, C1
		"/machine.slice/systemd-nspawn@web.service":                       {Container: "web", Runtime: "nspawn"},
		"/system.slice/ssh.service":                                       {Unit: "ssh.service"},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope": {Unit: "a.scope"},
		"/":                   {},
		"":                    {},
		"/podcast/pod-x/0123": {},
	} {
		want.Path = p
		if got := Parse(p); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", p, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/kubepods/pod" + uid + "/" + id1)
	f.Add(`/machine.slice/machine-a\x2`)
	f.Fuzz(func(t *testing.T, p string) {
		i := Parse(p)
		if i.Path != p || i.PodUID != "" && !isUID(i.PodUID) || i.Runtime != "" && i.Container == "" {
			t.Errorf("%+v", i)
		}
		_ = i.String()
	})
}

// node is what a machine's file system holds of its containers.
func node() fstest.MapFS {
	oci := func(annotations string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"ociVersion":"1.1.0","process":{"args":["sh"]},"annotations":{` + annotations + `}}`)}
	}
	id := func(n int) string { return fmt.Sprintf("%064x", n) }
	const tasks = "run/containerd/io.containerd.runtime.v2.task/"
	return fstest.MapFS{
		"var/log/containers/web-7d9c_prod_nginx-" + id(1) + ".log": {},
		"var/log/pods/prod_web-7d9c_" + uid + "/nginx/0.log":       {},
		"var/lib/docker/containers/" + id(2) + "/config.v2.json":   {Data: []byte(`{"Name":"/db","Config":{"Labels":{"a":"b"}}}`)},
		tasks + "k8s.io/" + id(3) + "/config.json": oci(
			`"io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"app-0","io.kubernetes.cri.sandbox-namespace":"test"`),
		tasks + "default/" + id(4) + "/config.json": oci(`"nerdctl/name":"web","nerdctl/namespace":"default"`),
		"run/containers/storage/overlay-containers/" + id(5) + "/userdata/config.json": oci(
			`"io.kubernetes.container.name":"c","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n"`),
		"var/lib/containers/storage/overlay-containers/containers.json": {Data: []byte(`[{"id":"` + id(6) + `","names":["k8s_long_name","pod"]}]`)},
		"var/lib/docker/containers/" + id(7) + "/config.v2.json":        {Data: []byte(`{"Name":`)},
	}
}

// TestNames: what a node's files say, through a recording.
func TestNames(t *testing.T) {
	r := New(&Options{Root: node()})
	for n, c := range []struct{ path, want, runtime string }{
		{"/kubepods/pod" + uid + "/" + fmt.Sprintf("%064x", 1), "prod/web-7d9c/nginx", ""},
		{"/docker/" + fmt.Sprintf("%064x", 2), "db", "docker"},
		{"/kubepods/pod11111111-2222-3333-4444-555555555555/" + fmt.Sprintf("%064x", 3), "test/app-0/app", "containerd"},
		{"/default/" + fmt.Sprintf("%064x", 4), "web", "containerd"},
		{"/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555556.slice/crio-" + fmt.Sprintf("%064x", 5) + ".scope", "n/p/c", "cri-o"},
		{"/machine.slice/libpod-" + fmt.Sprintf("%064x", 6) + ".scope/container", "pod", "podman"},
		{"/docker/" + fmt.Sprintf("%064x", 7), "000000000000", "docker"},
		{"/lxc/web", "web", "lxc"},
		{"/system.slice/ssh.service", "ssh.service", ""},
		{"/kubepods/pod" + uid, "prod/web-7d9c", ""},
		{"/a", "/a", ""},
	} {
		id := uint64(n + 100)
		r.Observe(id, c.path)
		i, ok := r.Resolve(id)
		if !ok || i.String() != c.want || i.Runtime != c.runtime || i.CgroupID != id || i.Path != c.path {
			t.Errorf("%s: %s, %+v, want %s", c.path, i, i, c.want)
		}
	}
	if i, ok := r.Resolve(1); ok {
		t.Errorf("an id that nobody told: %+v", i)
	}
	if n := len(r.All()); n != 11 {
		t.Errorf("%d groups", n)
	}
	b, err := json.Marshal(r.All()[0])
	if err != nil {
		t.Fatal(err)
	}
	var back Info
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, r.All()[0]) {
		t.Errorf("%s: %+v, %v", b, back, err)
	}
}

// TestRefresh: a container's name may come after its group.
func TestRefresh(t *testing.T) {
	host := fstest.MapFS{}
	r := New(&Options{Root: host})
	r.Observe(1, "/docker/"+id1)
	host["var/lib/docker/containers/"+id1+"/config.v2.json"] = &fstest.MapFile{Data: []byte(`{"Name":"/late"}`)}
	if i, _ := r.Resolve(1); i.Name != "" {
		t.Errorf("%+v", i)
	}
	r.Refresh()
	if i, _ := r.Resolve(1); i.Name != "late" {
		t.Errorf("%+v", i)
	}
}

func TestMax(t *testing.T) {
	r := New(&Options{Root: fstest.MapFS{}, Max: 3})
	for id := range uint64(10) {
		r.Observe(id, "/a")
		r.Observe(id, "/b")
	}
	if n := len(r.All()); n != 3 {
		t.Errorf("%d are remembered", n)
	}
	if i, ok := r.Resolve(9); !ok || i.Path != "/b" {
		t.Errorf("%+v", i)
	}
	if err := r.Scan(); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("scanning a recording: %v", err)
	}
}

func TestResolveAllocates(t *testing.T) {
	r := New(&Options{Root: fstest.MapFS{}})
	r.Observe(1, "/docker/"+id1)
	if n := testing.AllocsPerRun(100, func() { r.Resolve(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
