package probe

import (
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// UnsupportedError says what a kernel, machine or process cannot do. Feature is the
// missing feature and Since the kernel that has it. Hint is the true cause and its remedy:
// a CONFIG_ option, sysctl, lockdown level or capability. Err is the system's own answer.
// It matches errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError

// Env holds what the decisions of a plan depend on; see probe/env.
type Env = env.Env

// EnvOptions are the options of NewEnv.
type EnvOptions = env.Options

// NewEnv returns a new environment; nil options describe this machine. It reads only the
// kernel's release.
func NewEnv(o *EnvOptions) *Env { return env.New(o) }

// has reports whether a machine is known to have a feature.
func has(e *Env, f feature.Feature) bool { return e.Supports(f) == nil }

// FileID identifies a file and its contents, so that a file that replaced it, or that was
// rewritten, is noticed. Device and Inode are those of stat(2). Changed is the time of the
// last change, in nanoseconds since 1970. BuildID is in lower-case hex, empty if the file
// has none. Same compares two.
type FileID = userfile.FileID
