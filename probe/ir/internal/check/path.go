package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// pathFuncs are the functions for which the kernel permits bpf_d_path in fentry and fexit
// programs (btf_allowlist_d_path, kernel/trace/bpf_trace.c). In other functions the locks
// that it takes may be held.
var pathFuncs = []string{
	"dentry_open", "filp_close", "security_file_open", "security_file_permission",
	"security_inode_getattr", "security_path_truncate", "vfs_fallocate", "vfs_getattr", "vfs_truncate",
}

// path determines the type of the text of a struct path.
func (c *checker) path(t ir.Type, ptr *typed.Node) (*typed.Node, error) {
	if t.Kind == ir.KindAuto {
		t = ir.StringType(ir.DefaultString)
	}
	if t.Kind != ir.KindString {
		return nil, fmt.Errorf("path gives no %s", t)
	}
	if err := t.Valid(); err != nil {
		return nil, err
	}
	s, _ := StructOf(ptr.Type.Elem).(*btf.Struct)
	if ptr.Type.Kind != ir.KindPtr || ptr.Type.User || s == nil || s.Name != "path" {
		return nil, fmt.Errorf("%s is not a pointer to the kernel's struct path", ptr.Type)
	}
	if err := c.pathPlace(); err != nil {
		return nil, err
	}
	return typed.New(ir.OpPath, t.WithFormat(ir.FormatPath), ptr), nil
}

// The first kernels that permit bpf_d_path in LSM hooks that may sleep
// (6f100640ca5b), and in iterators (3d06f34aa89e).
var pathInLSM, pathInIter = ir.Version{5, 11}, ir.Version{5, 12}

// pathPlace refuses bpf_d_path in places where the kernel does (bpf_d_path_allowed). It
// accepts all LSM hooks: only the kernel has the list of those that may sleep, which are
// permitted.
func (l *locator) pathPlace() error {
	since := ir.Version{5, 10}
	switch {
	case l.pp.Type == ebpf.LSM:
		since = pathInLSM
	case l.pp.Type == ebpf.Tracing && l.pp.AttachType == ebpf.AttachTraceIter:
		since = pathInIter
	case l.pp.Type != ebpf.Tracing || !slices.Contains(pathFuncs, l.pp.AttachTo):
		return Unsupported("path", since,
			"in "+l.targetName()+" the kernel does not permit bpf_d_path: take an iterator, an LSM hook that may sleep, or fentry or fexit of "+
				strings.Join(pathFuncs, ", "))
	}
	if !l.kern.AtLeast(since) {
		return Unsupported("path in "+l.targetName(), since,
			"Linux "+l.plan.Kernel+" permits it in fentry and fexit of some functions only")
	}
	return nil
}

// ErrPathNotArgument is the error for a pointer to a path that the verifier does not trust.
var ErrPathNotArgument = errors.New(
	"path: the kernel takes a path in an argument of the probe, such as &file->f_path, not one that was found through pointers")
