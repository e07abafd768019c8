package env

import (
	"io/fs"

	"github.com/cilium/ebpf/btf"
)

// Options says what an Env is made from. The zero value, and nil, is this machine.
type Options struct {
	// Root is the host's file system; nil is this machine. Paths are without a
	// leading slash: proc/kallsyms, sys/kernel/btf/vmlinux,
	// sys/kernel/tracing/events/….
	Root fs.FS
	// Arch is the architecture as GOARCH spells it; "" is this program's.
	Arch string
	// Release is the kernel release; "" reads proc/sys/kernel/osrelease.
	Release string
	// Features are recorded feature answers (RecordFeatures); nil asks the running
	// kernel, and with a Root that is not this machine, infers from Release.
	Features FeatureSet
	// BTF is the kernel's type information, for kernels without their own; nil
	// reads it from Root.
	BTF *btf.Spec
	// BTFDir is a tree in BTFHub's layout (ID/VERSION/ARCH/RELEASE.btf[.tar.xz])
	// to look for BTF in when Root has none.
	BTFDir fs.FS
}
