package feature

import (
	"errors"
	"strings"
)

// UnsupportedError says that this kernel, machine or process cannot do
// something, and why. Packages that return it alias it, so that a user writes
// *probe.UnsupportedError or *symbol.UnsupportedError and means one type.
type UnsupportedError struct {
	// Feature is what was asked for, in the user's words: "kprobe".
	Feature string
	// Since is the first mainline kernel that has the feature, "5.18", or
	// empty where no kernel version is enough. It is never given as the cause:
	// versions lie in both directions (backports, configuration, lockdown).
	Since string
	// Hint names the true cause and the remedy: the CONFIG_ option that is
	// off, the sysctl, the lockdown level, the missing capability.
	Hint string
	// Err is the system's own answer, if it gave one.
	Err error
}

// Error reads "FEATURE: not supported: HINT (since Linux SINCE): ERR", leaving
// out what is empty.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Feature)
	b.WriteString(": not supported")
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(e.Hint)
	}
	if e.Since != "" {
		b.WriteString(" (since Linux ")
		b.WriteString(e.Since)
		b.WriteString(")")
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the system's own answer.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Is matches errors.ErrUnsupported, and ebpf.ErrNotSupported without importing
// cilium/ebpf where a parser package uses this one: cilium's sentinel is a
// value of its own, recognised here by what it says (internal/errors.go there:
// "not supported"), which a test next to the packages that do import it pins.
func (e *UnsupportedError) Is(target error) bool {
	return target == errors.ErrUnsupported || target.Error() == "not supported"
}

// RefusedError is a refusal of bpf(2) with its cause. It matches the error number,
// and nothing of what a library makes of it.
type RefusedError struct {
	// Hint is the cause.
	Hint string
	// Err is the error number.
	Err error
}

// Error reads "CAUSE: operation not permitted".
func (e *RefusedError) Error() string { return e.Hint + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Reason is the hint of an UnsupportedError, or the error's text.
func Reason(err error) string {
	var no *UnsupportedError
	switch {
	case !errors.As(err, &no):
		return err.Error()
	case no.Hint == "" && no.Err != nil:
		return no.Err.Error()
	case no.Hint == "":
		return err.Error()
	}
	return no.Hint
}
