// Package privileges drops the capabilities that tracing programs no longer need.
package privileges

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/internal/feature"
)

// errKept is the error for a program that cannot drop capabilities: if it is built with cgo,
// package syscall does not control all of its threads.
var errKept = errors.New("built with cgo, it keeps all its capabilities: CGO_ENABLED=0 builds give up those that they need no more")

// errStuck is the error for a program with a thread in the kernel that waits for a file.
var errStuck = errors.New("it waits for a file whose server (FUSE, NFS) does not answer, and so keeps all its capabilities")

// aloneKey is the context key that Alone sets.
type aloneKey struct{}

// Alone returns a context for a program's main, which allows Keep to drop capabilities.
// Without it, Keep changes nothing, because the tool runs as part of another program.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// IsAlone reports whether ctx is from Alone.
func IsAlone(ctx context.Context) bool { return ctx.Value(aloneKey{}) != nil }

// Keep irrevocably drops all capabilities except those that a run needs once all is attached,
// if ctx is from Alone. A run that records keeps CAP_DAC_OVERRIDE too, to write into another
// user's directory. If the program cannot drop capabilities, Keep prints that to standard
// error and returns nil.
func Keep(ctx context.Context, program string, records bool) error {
	if !IsAlone(ctx) {
		return nil
	}
	kept := tracing
	if records {
		kept = append(slices.Clone(tracing), feature.CapDACOverride)
	}
	err := keep(kept)
	if errors.Is(err, errKept) || errors.Is(err, errStuck) {
		escape.Fprintf(os.Stderr, "%s: %v\n", program, err)
		return nil
	}
	return err
}

// tracing lists the capabilities that a run needs: to read maps and detach, to inspect
// processes, to read the files of others for names, including those that no longer have a path
// (/proc/PID/map_files), and to read kernel addresses.
var tracing = []feature.Cap{
	feature.CapBPF, feature.CapPerfmon, feature.CapSysPtrace, feature.CapDACReadSearch,
	feature.CapSyslog,
	feature.CapCheckpointRestore,
}
