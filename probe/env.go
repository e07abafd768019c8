package probe

import (
	"io/fs"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
)

// UnsupportedError says what a kernel, machine or process cannot do: Feature,
// the kernel that has it (Since), the true cause and its remedy (Hint: a CONFIG_
// option, sysctl, lockdown level or capability), and the system's own answer
// (Err). It matches errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError

// EnvOptions says what an Env is made from. The zero value, and nil, is this machine.
type EnvOptions struct {
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
