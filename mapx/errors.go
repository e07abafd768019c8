package mapx

import (
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// ErrUnsettled says that a map without batches changed faster than it could be
// walked: entries that were there all the time might have been missed.
var ErrUnsettled = raw.ErrUnsettled

// UnsupportedError says that this kernel, machine or process cannot do
// something, and why: Feature, Since, Hint and the system's own Err. It matches
// errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError
