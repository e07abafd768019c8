//go:build !linux

package pmc

import "github.com/borescope/borescope/internal/perfring"

// Handle is one open perf event. There are none on this system.
type Handle struct{}

func noPerf() error {
	return &UnsupportedError{Feature: "perf events", Hint: "Linux only"}
}

// OpenEvent needs Linux.
func OpenEvent(Event, Place, *OpenOptions) (*Handle, error) { return nil, noPerf() }

// Explain needs Linux.
func Explain(error, Event, Place, Attr) error { return noPerf() }

// FD needs Linux.
func (h *Handle) FD() int { return -1 }

// Event needs Linux.
func (h *Handle) Event() Event { return Event{} }

// Place needs Linux.
func (h *Handle) Place() Place { return Place{} }

// Attr needs Linux.
func (h *Handle) Attr() perfring.Attr { return Attr{} }

// Precise needs Linux.
func (h *Handle) Precise() int { return 0 }

// ID needs Linux.
func (h *Handle) ID() (uint64, error) { return 0, noPerf() }

// Enable needs Linux.
func (h *Handle) Enable() error { return noPerf() }

// Disable needs Linux.
func (h *Handle) Disable() error { return noPerf() }

// Reset needs Linux.
func (h *Handle) Reset() error { return noPerf() }

// SetBPF needs Linux.
func (h *Handle) SetBPF(int) error { return noPerf() }

// SetFilter needs Linux.
func (h *Handle) SetFilter(string) error { return noPerf() }

// Close does nothing.
func (h *Handle) Close() error { return nil }
