//go:build race

package syntax

import "time"

// limit is how long a refusal may take under the race detector.
func limit() time.Duration { return 3 * time.Second }
