package container_test

import (
	"fmt"
	"testing/fstest"

	"github.com/borescope/borescope/probe/container"
)

// Resolve names a control group on a recorded node. Observe passed it the group, as a
// tracepoint would report it.
func Example() {
	const id = "3f1c0d9e8f7000114d1f1a1f9d0b6f0f6c0f6f3f1e6c1d2b3a49586776859403"
	node := fstest.MapFS{
		"var/log/containers/web-7d9c_prod_nginx-" + id + ".log": {},
	}
	r := container.New(&container.Options{Root: node})
	r.Observe(4711, "/kubepods.slice/kubepods-pod0f3c6a4e_9d1b_4c2a_8e5f_1a2b3c4d5e6f.slice/cri-containerd-"+id+".scope")
	info, ok := r.Resolve(4711)
	fmt.Println(ok, info)
	fmt.Println(info.Runtime, info.PodUID)
	// Output:
	// true prod/web-7d9c/nginx
	// containerd 0f3c6a4e-9d1b-4c2a-8e5f-1a2b3c4d5e6f
}
