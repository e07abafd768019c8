package env

import (
	"io/fs"

	"github.com/cilium/ebpf/btf"
)

// Options are the options of New. The zero value and nil describe this machine.
type Options struct {
	// Root is the host's file system; nil is this machine's. Paths have no leading slash:
	// proc/kallsyms, sys/kernel/btf/vmlinux, sys/kernel/tracing/events/….
	Root fs.FS
	// Arch is the architecture as GOARCH spells it; "" is this program's.
	Arch string
	// Release is the kernel release; "" reads proc/sys/kernel/osrelease.
	Release string
	// Features are recorded features (RecordFeatures). Nil asks the running kernel or, with
	// a Root, infers them from Release.
	Features FeatureSet
	// BTF is the kernel's type information, for kernels without their own; nil reads it
	// from Root.
	BTF *btf.Spec
	// BTFDir is a tree in BTFHub's layout (ID/VERSION/ARCH/RELEASE.btf[.tar.xz]), where BTF
	// is looked up if Root has none.
	BTFDir fs.FS
	// DebugDirs are the directories with the separate debug files of user programs, in GDB's
	// layout or that of a debuginfod client's cache; relative ones begin at the program's own
	// directory. Nil means /usr/lib/debug. Beside the program and in .debug there a file is found
	// without them.
	DebugDirs []string
	// Traceable are the kernel functions that Env.Traceable returns, in the format of tracefs's
	// available_filter_functions: lines of a name and, for one of a module, that in brackets. Nil
	// reads them from Root.
	Traceable []byte
}
