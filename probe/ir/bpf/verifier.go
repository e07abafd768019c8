package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
)

// VerifierError is the error for a generated program that the kernel refused. That is a
// mistake of this package unless the kernel lacks something that the plan assumed.
type VerifierError struct {
	// Stmt is the statement that the refused instruction was generated for, as the kernel's
	// log quotes it.
	Stmt string
	// Err is the kernel's error. Its %+v is the whole log.
	Err *ebpf.VerifierError
}

// Error returns the statement and the end of the log.
func (e *VerifierError) Error() string {
	if e.Stmt == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %s", e.Stmt, e.Err)
}

// Unwrap returns the kernel's error.
func (e *VerifierError) Unwrap() error { return e.Err }

// explain finds the statement in the verifier's log, where a source line is "; text" before
// its instructions.
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
