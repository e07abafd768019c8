package stack

import (
	"fmt"
)

var howNames = [...]string{
	HowUnknown: "unknown", HowRegs: "regs", HowFP: "fp", HowCFI: "cfi", HowSFrame: "sframe", HowORC: "orc", HowLBR: "lbr",
	HowGo: "go", HowKernel: "kernel", HowInterpreter: "interpreter", HowGuess: "guess",
}

var endNames = [...]string{
	EndUnknown: "unknown", EndBottom: "bottom", EndLimit: "limit", EndNoMapping: "no-mapping", EndNoRule: "no-rule",
	EndBadMemory: "bad-memory", EndLoop: "loop", EndTruncated: "truncated", EndSuspect: "suspect", EndNone: "none",
	EndFault: "fault",
}

// String is one lower-case word: "fp", "cfi".
func (h How) String() string { return nameOf(howNames[:], "how", uint8(h)) }

// MarshalText is String.
func (h How) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText accepts what MarshalText writes.
func (h *How) UnmarshalText(b []byte) error {
	n, err := numberOf(howNames[:], "how", string(b))
	*h = How(n)
	return err
}

// String is one lower-case word: "bottom", "no-rule".
func (e End) String() string { return nameOf(endNames[:], "end", uint8(e)) }

// MarshalText is String.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts what MarshalText writes.
func (e *End) UnmarshalText(b []byte) error {
	n, err := numberOf(endNames[:], "end", string(b))
	*e = End(n)
	return err
}

// Whole reports whether a stack with this end lacks nothing: it reached the
// thread's start, or there was none to walk.
func (e End) Whole() bool { return e == EndBottom || e == EndNone }

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
