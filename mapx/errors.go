package mapx

import "github.com/borescope/borescope/internal/feature"

// UnsupportedError says that this kernel, machine or process cannot do
// something, and why: Feature, Since, Hint and the system's own Err. It matches
// errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError
