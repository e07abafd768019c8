package probe

import (
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// UnsupportedError says what a kernel, machine or process cannot do: Feature,
// the kernel that has it (Since), the true cause and its remedy (Hint: a CONFIG_
// option, sysctl, lockdown level or capability), and the system's own answer
// (Err). It matches errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError

// Env is what the decisions of a plan depend on; see probe/env.
type Env = env.Env

// EnvOptions says what an Env is made from.
type EnvOptions = env.Options

// NewEnv makes an environment; nil options are this machine. It reads nothing
// but the kernel's release.
func NewEnv(o *EnvOptions) *Env { return env.New(o) }

// has is whether a machine is known to have a feature.
func has(e *Env, f feature.Feature) bool { return e.Supports(f) == nil }

// FileID tells a file from another that takes its place, and from itself with other
// contents: by its Device and Inode, and by when it was Changed last, in nanoseconds since
// 1970. BuildID is in lower-case hex and empty where the file has none. Same compares two.
type FileID = userfile.FileID
