package symbol

import "github.com/borescope/borescope/internal/feature"

// UnsupportedError says that this system or process cannot do something, and why.
// It matches errors.ErrUnsupported.
type UnsupportedError = feature.UnsupportedError
