package mapx

import (
	"errors"

	"github.com/borescope/borescope/internal/feature"
)

// UnsupportedError says that this kernel, machine or process cannot do
// something, and why: Feature, Since, Hint and the system's own Err. It matches
// errors.ErrUnsupported and ebpf.ErrNotSupported.
type UnsupportedError = feature.UnsupportedError

// errNoMap is what comes of a name that a collection does not have.
var errNoMap = errors.New("no map: it is nil (has the collection one of that name?)")
