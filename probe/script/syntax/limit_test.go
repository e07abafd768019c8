//go:build !race

package syntax

import "time"

// limit is how long a refusal may take; machines of tests are shared.
func limit() time.Duration { return 100 * time.Millisecond }
