package pmc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/perfring"
)

// Handle is one open perf event of Counters or a Sampler, which close it. Its methods
// may be called from several goroutines.
type Handle struct {
	mu    sync.Mutex
	file  *os.File // owns the descriptor
	fd    int
	event Event
	place Place
	attr  perfring.Attr
}

// openEvent opens one event at one place with perf_event_open. It adapts the attribute to what
// the PMU supports, and explains refusals.
//
// If the PMU can't exclude guests, the event is opened without that (as perf does). If the PMU
// lacks the event's level of precision, the event is opened with the highest one that it has,
// unless o.exactPrecise is set; Handle.Precise is the level used.
//
// For a refusal, the error is an *UnsupportedError whose Hint names the cause if that is the
// machine, the kernel or a missing privilege, else a plain error that names the cause (no such
// thread, CPU offline, too many open files); both wrap the kernel's errno. Some hypervisors
// accept breakpoints or hardware events and never count one. That is tried once per process,
// with a word of memory and a thread for the purpose, and such events are refused too.
//
// The caller closes the Handle.
func openEvent(e Event, at Place, o *openOptions) (*Handle, error) {
	if err := available(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &openOptions{}
	}
	if e.IsZero() {
		return nil, errors.New("open: the zero Event is not an event")
	}
	a, err := o.attr(e)
	if err != nil {
		return nil, err
	}
	var path []byte
	if e.Path != "" {
		path = append([]byte(e.Path), 0)
		var pin runtime.Pinner
		defer pin.Unpin()
		pin.Pin(&path[0])
		a.Config1 = uint64(uintptr(unsafe.Pointer(&path[0])))
	}
	leader := -1
	if o.leader != nil {
		leader = o.leader.FD()
	}
	never := feature.Counts(e.Type, e.Hardware())
	fd, err := openFallback(&a, at, leader, o.exactPrecise)
	runtime.KeepAlive(o.leader)
	if err == nil && never != nil {
		closeEvent(fd)
		return nil, fmt.Errorf("event %s: %w", e, never)
	}
	if err != nil {
		return nil, explain(refusal{err: err, event: e, place: at, attr: a, grouped: o.leader != nil},
			readFacts(o.root))
	}
	a.Config1 = e.Config1
	return &Handle{file: os.NewFile(uintptr(fd), "perf_event"), fd: fd, event: e, place: at, attr: a},
		nil
}

// available returns why there are no perf events on this system, nil on Linux.
func available() error {
	if runtime.GOOS == "linux" {
		return nil
	}
	return &UnsupportedError{Feature: "perf events", Hint: "Linux only"}
}

// openFallback opens the event, giving up first precision, then the exclusion of guests. On
// failure a is as it was for the first attempt, and the error is that attempt's.
func openFallback(a *perfring.Attr, at Place, leader int, exact bool) (int, error) {
	fd, first := perfEventOpen(a, at, leader)
	if first == nil || !retry(first) {
		return fd, first
	}
	try := *a
	for level := a.Flags.Precise() - 1; level >= 0 && !exact; level-- {
		try.Flags = a.Flags.WithPrecise(level)
		if fd, err := perfEventOpen(&try, at, leader); err == nil {
			*a = try
			return fd, nil
		}
	}
	// PERF_PMU_CAP_NO_EXCLUDE: msr, uncore and others refuse any exclusion. Only the one that
	// the caller did not request is dropped.
	if try.Flags&(perfring.AttrExcludeGuest|perfring.AttrExcludeHost) == perfring.AttrExcludeGuest {
		try.Flags &^= perfring.AttrExcludeGuest
		if fd, err := perfEventOpen(&try, at, leader); err == nil {
			*a = try
			return fd, nil
		}
	}
	return -1, first
}

// retry reports whether a refusal may be about precision or exclusion.
func retry(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) ||
		errors.Is(err, syscall.ENOENT)
}

// FD returns the event's descriptor, which the Handle keeps; -1 after Close of the
// Counters or Sampler. A BPF program runs at the event's samples through a bpf_link
// (BPF_LINK_CREATE, Linux 5.15) or SetBPF, and reads its count through a
// BPF_MAP_TYPE_PERF_EVENT_ARRAY.
func (h *Handle) FD() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fd
}

// Precise returns the level of precision obtained. It is 0 if the kernel accepts a level
// and ignores it: for software events, and for every PMU except x86's.
func (h *Handle) Precise() int {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" || !h.event.Hardware() {
		return 0
	}
	return h.attr.Flags.Precise()
}

// ID returns the event's id in records and group reads.
func (h *Handle) ID() (id uint64, err error) {
	err = h.ioctl(iocID, uintptr(unsafe.Pointer(&id)))
	return id, err
}

// enable starts counting.
func (h *Handle) enable() error { return h.ioctl(iocEnable, 0) }

// disable stops counting; the count stays.
func (h *Handle) disable() error { return h.ioctl(iocDisable, 0) }

// SetBPF attaches a BPF program, which runs at every sample (of a sampling event) or hit
// (of a tracepoint or probe). It can be set once, and stays until the event is closed.
func (h *Handle) SetBPF(progFD int) error {
	return h.ioctl(iocSetBPF, uintptr(progFD))
}

// SetFilter restricts counting to the tracepoint records that match a filter, in the
// language of Documentation/trace/events.rst: "prev_pid == 1".
func (h *Handle) SetFilter(filter string) error {
	b := append([]byte(filter), 0)
	return h.ioctl(iocSetFilter, uintptr(unsafe.Pointer(&b[0])))
}

func (h *Handle) ioctl(op uint, arg uintptr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fd < 0 {
		return os.ErrClosed
	}
	if err := ioctl(h.fd, op, arg); err != nil {
		return &os.PathError{Op: "ioctl", Path: h.event.String(), Err: err}
	}
	return nil
}

// close ends the event. It is idempotent; a nil Handle is closed already.
func (h *Handle) close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fd < 0 {
		return nil
	}
	h.fd = -1
	return h.file.Close()
}
