package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
)

// VerifierError says that the kernel refused a generated program, which is a
// mistake of this package unless the kernel lacks what the plan assumed.
type VerifierError struct {
	// Stmt is the statement that the refused instruction was generated for, as
	// the kernel's log cites it.
	Stmt string
	// Err is the kernel's answer; its %+v is the whole log.
	Err *ebpf.VerifierError
}

// Error names the statement and the end of the log.
func (e *VerifierError) Error() string {
	if e.Stmt == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %s", e.Stmt, e.Err)
}

// Unwrap returns the kernel's answer.
func (e *VerifierError) Unwrap() error { return e.Err }

// explain finds the statement in the verifier's log: source lines stand there
// as "; text" before the instructions made of them.
func explain(err error) error {
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) {
		return err
	}
	out := &VerifierError{Err: ve}
	for _, line := range ve.Log {
		if s, ok := strings.CutPrefix(line, "; "); ok {
			out.Stmt = s
			if i := strings.LastIndex(s, " @ "); i > 0 {
				out.Stmt = s[:i]
			}
		}
	}
	return fmt.Errorf("%w", error(out))
}
