package stack

import (
	"fmt"
)

var howNames = [...]string{
	SourceUnknown: "unknown", SourceRegs: "regs", SourceFP: "fp", SourceCFI: "cfi",
	SourceSFrame: "sframe", SourceORC: "orc", SourceLBR: "lbr", SourceGo: "go", SourceKernel: "kernel",
	SourceInterpreter: "interpreter", SourceGuess: "guess",
}

var endNames = [...]string{
	StopUnknown: "unknown", StopBottom: "bottom", StopLimit: "limit", StopNoMapping: "no-mapping",
	StopNoRule: "no-rule", StopBadMemory: "bad-memory", StopLoop: "loop", StopTruncated: "truncated",
	StopSuspect: "suspect", StopNone: "none",
	StopFault: "fault", StopLeftOut: "left-out", StopCompat: "compat",
}

// String returns one lower-case word: "fp", "cfi".
func (h FrameSource) String() string { return nameOf(howNames[:], "how", uint8(h)) }

// MarshalText returns String's word.
func (h FrameSource) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText accepts what MarshalText writes.
func (h *FrameSource) UnmarshalText(b []byte) error {
	n, err := numberOf(howNames[:], "how", string(b))
	*h = FrameSource(n)
	return err
}

// String returns one lower-case word: "bottom", "no-rule".
func (e StopReason) String() string { return nameOf(endNames[:], "end", uint8(e)) }

// MarshalText returns String's word.
func (e StopReason) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts what MarshalText writes.
func (e *StopReason) UnmarshalText(b []byte) error {
	n, err := numberOf(endNames[:], "end", string(b))
	*e = StopReason(n)
	return err
}

// Whole reports whether a stack with this end is complete: it reached the thread's start,
// or there was none to walk.
func (e StopReason) Whole() bool { return e == StopBottom || e == StopNone }

func nameOf(names []string, kind string, n uint8) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

func numberOf(names []string, kind, s string) (uint8, error) {
	for i, name := range names {
		if name == s {
			return uint8(i), nil
		}
	}
	var n uint8
	if _, err := fmt.Sscanf(s, kind+"(%d)", &n); err == nil && nameOf(names, kind, n) == s {
		return n, nil
	}
	return 0, fmt.Errorf("stack: unknown %s %q", kind, s)
}
