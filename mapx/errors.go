package mapx

import (
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// ErrUnsettled is the error when a map without batches changed faster than it could be
// walked: entries that were in it all the time might have been missed.
var ErrUnsettled = raw.ErrUnsettled

// UnsupportedError is the error for features that this kernel, machine or process lacks,
// with the reason: Feature, Since, Hint and the system's own Err. It matches
// errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError
