package collect

import (
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
)

// The members of the kernel's structs that programs of this package read.
var (
	lifeMembers = []string{"task_struct.group_leader", "task_struct.start_boottime", "task_struct.self_exec_id"}
	taskMembers = []string{"task_struct.real_parent", "task_struct.tgid", "task_struct.mm", "mm_struct.exe_file"}
)

// stackMember is where the kernel's stack of a task is.
const stackMember = "task_struct.stack"

// members finds them in a machine's types, of which it reads these alone: that takes a tenth of the time of
// reading all, before the first sample.
type members struct {
	types func() (*btf.Spec, error)
}

func membersOf(e *probe.Env) members {
	return members{sync.OnceValues(func() (*btf.Spec, error) {
		need := new(env.BTFNeeds)
		for _, path := range slices.Concat(lifeMembers, taskMembers, kernel.ReturnInstances, []string{stackMember}) {
			of, member, _ := strings.Cut(path, ".")
			need.Types, need.Members = append(need.Types, of), append(need.Members, member)
		}
		return e.MinimalBTF(need)
	})}
}

// ahead begins to find them, and what taskStack tests, which is then known to who asks next. wait waits until
// that is done: for a caller that has other work meanwhile, such as the kernel's with large maps.
func (m members) ahead() (wait func()) {
	var finding sync.WaitGroup
	finding.Go(func() {
		_, _ = m.types()
		_, _ = taskStack(m)
	})
	return finding.Wait
}

// offsets returns the offsets of members, in bytes.
func (m members) offsets(paths ...string) ([]uint32, error) {
	spec, err := m.types()
	if err != nil {
		return nil, err
	}
	return kernel.MemberOffsets(spec, paths...)
}
