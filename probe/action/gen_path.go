package action

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// pathFuncs are the functions in whose fentry and fexit programs the kernel lets
// bpf_d_path be called (btf_allowlist_d_path, kernel/trace/bpf_trace.c): elsewhere
// locks that it takes may be held.
var pathFuncs = []string{
	"dentry_open", "filp_close", "security_file_open", "security_file_permission", "security_inode_getattr",
	"security_path_truncate", "vfs_fallocate", "vfs_getattr", "vfs_truncate",
}

// path types the text of a struct path.
func (c *checker) path(e, ptr *Expr) (*Expr, error) {
	t := e.Type
	if t.Kind == KindAuto {
		t = StringType(DefaultString)
	}
	if t.Kind != KindString {
		return nil, fmt.Errorf("path gives no %s", t)
	}
	if err := validType(t, 0); err != nil {
		return nil, err
	}
	s, _ := structOf(ptr.Type.Elem).(*btf.Struct)
	if ptr.Type.Kind != KindPtr || ptr.Type.User || s == nil || s.Name != "path" {
		return nil, fmt.Errorf("%s is no pointer to a struct path of the kernel's", ptr.Type)
	}
	if err := c.pathPlace(); err != nil {
		return nil, err
	}
	return &Expr{Op: e.Op, Type: t.WithFormat(FormatPath), Args: []*Expr{ptr}, Pos: e.Pos}, nil
}

// The first kernels that permit bpf_d_path in LSM hooks that may sleep
// (6f100640ca5b), and in iterators (3d06f34aa89e).
var pathInLSM, pathInIter = Version{5, 11}, Version{5, 12}

// pathPlace refuses bpf_d_path where the kernel does (bpf_d_path_allowed): which
// LSM hooks may sleep, and so have it, the kernel knows.
func (c *checker) pathPlace() error {
	since := Version{5, 10}
	switch {
	case c.pp.Type == ebpf.LSM:
		since = pathInLSM
	case c.pp.Type == ebpf.Tracing && c.pp.AttachType == ebpf.AttachTraceIter:
		since = pathInIter
	case c.pp.Type != ebpf.Tracing || !slices.Contains(pathFuncs, c.pp.AttachTo):
		return unsupported("path", since, "in "+c.targetName()+" the kernel does not permit bpf_d_path: take an iterator, an LSM hook that may sleep, or fentry or fexit of "+
			strings.Join(pathFuncs, ", "))
	}
	if !c.kern.AtLeast(since) {
		return unsupported("path in "+c.targetName(), since, "Linux "+c.plan.Kernel+" permits it in fentry and fexit of some functions only")
	}
	return nil
}

// errPathNotArgument says that the verifier does not trust a pointer.
var errPathNotArgument = errors.New("path: the kernel takes a path in an argument of the probe, such as &file->f_path, not one that was found through pointers")

// pathText has the kernel write a path to memory of its own, because it leaves
// there more than the text, and copies the text. A path that does not fit gives
// no text, and is counted as cut.
func (g *gen) pathText(e *Expr, to loc) {
	m := g.mark()
	defer g.release(m)
	root, off := pointerRoot(e.Args[0], 0)
	if off < 0 || off > 1<<20 || g.pointee(root) == nil || root.Op != opCtx && (root.Op != OpVar || !g.argVars[root.Var]) {
		g.fail("%w", errPathNotArgument)
		return
	}
	size := e.Type.Size
	raw := g.temp(size)
	bad, cut, end := g.label(), g.label(), g.label()
	if raw.kind == inFrame {
		g.zero(raw, size)
	}
	g.zero(to, size)
	g.scalar(root, asm.R1)
	g.emit(asm.JEq.Imm(asm.R1, 0, bad))
	if off != 0 {
		g.emit(asm.Add.Imm(asm.R1, int32(off)))
	}
	g.addr(asm.R2, raw)
	g.emit(asm.Mov.Imm(asm.R3, int32(size)))
	g.call(asm.FnDPath)
	g.emit(asm.JEq.Imm(asm.R0, -enametoolong, cut), asm.JSLT.Imm(asm.R0, 0, bad))
	g.addr(asm.R1, to)
	g.emit(asm.Mov.Imm(asm.R2, int32(size)))
	g.addr(asm.R3, raw)
	g.readHelper(false, true)
	g.place(end)
	g.later(bad, func() {
		g.count(cntFaults)
		g.jump(end)
	})
	g.later(cut, func() {
		g.count(cntTruncated)
		g.jump(end)
	})
}

// enametoolong is what d_path gives for a path that does not fit.
const enametoolong = 36
