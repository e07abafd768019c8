package feature

import (
	"errors"
	"strings"
)

// UnsupportedError is the error if this kernel, machine or process does not support something,
// with the cause. Packages that return it declare an alias, so that *probe.UnsupportedError
// and *symbol.UnsupportedError are the same type.
type UnsupportedError struct {
	// Feature is the name of what is not supported, in the user's terms: "kprobe".
	Feature string
	// Since is the first mainline kernel that has the feature, "5.18", or empty if no kernel
	// version is enough. It is never given as the cause: versions mislead in both directions
	// (backports, configuration, lockdown).
	Since string
	// Hint is the true cause and the remedy: the CONFIG_ option that is off, the sysctl, the
	// lockdown level, the missing capability.
	Hint string
	// Err is the error of the system, if there is one.
	Err error
}

// Error returns "FEATURE: not supported: HINT (since Linux SINCE): ERR", without the parts
// that are empty.
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

// Unwrap returns the error of the system.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Is matches errors.ErrUnsupported, and ebpf.ErrNotSupported. Parsing packages use this one,
// so it does not import cilium/ebpf, and recognizes cilium's sentinel by its text ("not
// supported", internal/errors.go there). A test in a package that imports cilium/ebpf checks
// that.
func (e *UnsupportedError) Is(target error) bool {
	return target == errors.ErrUnsupported || target.Error() == "not supported"
}

// RefusedError is the error of a refused bpf(2) call, with its cause. It matches the error
// number, but none of a library's errors.
type RefusedError struct {
	// Hint is the cause.
	Hint string
	// Err is the error number.
	Err error
}

// Error returns "CAUSE: operation not permitted".
func (e *RefusedError) Error() string { return e.Hint + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Reason returns the hint of an UnsupportedError, or the error's text.
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
