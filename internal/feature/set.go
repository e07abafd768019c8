package feature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State is one of the three outcomes of a probe.
type State string

// These are the outcomes, as recordings contain them.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// Result is a recorded outcome.
type Result struct {
	State State `json:"state"`
	// Reason is the hint of an outcome other than Yes: the cause, or why the probe was not
	// conclusive.
	Reason string `json:"why,omitempty"`
}

// Set contains the results for one machine. It is plain data, keyed by feature name, that can
// be printed, marshaled as JSON and unmarshaled, and compared with maps.Equal. The nil Set
// tests this machine.
type Set map[string]Result

// Record tests the given features on this machine, or all of them if none is given.
func Record(fs ...Feature) Set {
	if len(fs) == 0 {
		fs = All()
	}
	s := make(Set, len(fs))
	for _, f := range fs {
		s[f.String()] = resultOf(Test(f))
	}
	return s
}

func resultOf(err error) Result {
	var no *UnsupportedError
	var dunno *UnknownError
	switch {
	case err == nil:
		return Result{State: Yes}
	case errors.As(err, &no):
		return Result{No, no.Hint}
	case errors.As(err, &dunno):
		return Result{Unknown, dunno.Hint}
	}
	return Result{Unknown, err.Error()}
}

// Test is the package's Test, with the recorded results. A feature that is not in the
// recording is unknown. The nil Set tests this machine.
func (s Set) Test(f Feature) error {
	if s == nil {
		return Test(f)
	}
	r, ok := s[f.String()]
	if !ok {
		return &UnknownError{Feature: f.String(), Hint: "not in the recording"}
	}
	switch r.State {
	case Yes:
		return nil
	case No:
		return &UnsupportedError{Feature: f.String(), Since: f.Since(), Hint: r.Reason}
	}
	return &UnknownError{Feature: f.String(), Hint: r.Reason}
}

// Has reports whether the feature is known to be supported.
func (s Set) Has(f Feature) bool { return s.Test(f) == nil }

// String returns a table, one feature per line, sorted by name.
func (s Set) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		r := s[name]
		line := fmt.Sprintf("%-22s %-7s %s", name, r.State, r.Reason)
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// UnmarshalJSON decodes what encoding/json encoded. It returns an error for unknown states. It
// keeps unknown feature names, because a newer version may have written them.
func (s *Set) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*s = nil
		return nil
	}
	m := map[string]Result{}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("feature set: %w", err)
	}
	for name, r := range m {
		if r.State != Yes && r.State != No && r.State != Unknown {
			return fmt.Errorf("feature set: %s: bad state %q", name, r.State)
		}
	}
	*s = m
	return nil
}
