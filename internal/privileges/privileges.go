// Package privileges has programs that trace give up what they need no more.
package privileges

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/borescope/borescope/internal/feature"
)

// errKept says that a program can't give up capabilities: built with cgo, its threads
// are not package syscall's alone.
var errKept = errors.New("built with cgo, it keeps all its capabilities: CGO_ENABLED=0 builds give up those that they need no more")

// aloneKey marks the context of a process that does nothing else than what it is for.
type aloneKey struct{}

// Alone returns a context for a program's main: Keep gives up nothing where others
// run a tool as part of what they do.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// Keep gives up, for good, all capabilities but those that a run needs once all is
// attached, if ctx is a program's own (Alone). One that records writes into a directory
// that may be another user's. Where nothing can be given up it says so to standard
// error.
func Keep(ctx context.Context, program string, records bool) error {
	if ctx.Value(aloneKey{}) == nil {
		return nil
	}
	kept := tracing
	if records {
		kept = append(slices.Clone(tracing), feature.CapDACOverride)
	}
	err := keep(kept)
	if errors.Is(err, errKept) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		return nil
	}
	return err
}

// tracing are the capabilities that a run needs: to read maps and detach, to look at
// processes, at files of others for names, also those that have no path any more
// (/proc/PID/map_files), and at kernel addresses.
var tracing = []feature.Cap{
	feature.CapBPF, feature.CapPerfmon, feature.CapSysPtrace, feature.CapDACReadSearch,
	feature.CapSyslog,
	feature.CapCheckpointRestore,
}
