package symbol

import "github.com/borescope/borescope/internal/feature"

// UnsupportedError is the error for features that this system or process lacks, with the
// reason. It matches errors.ErrUnsupported.
type UnsupportedError = feature.UnsupportedError
