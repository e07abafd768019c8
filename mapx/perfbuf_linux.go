package mapx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/kernel"
)

type perfBuffer struct {
	waiter waiter
	epoll  int
	poll   time.Duration
	order  time.Duration
	array  *ebpf.Map

	mu      sync.Mutex // guards the fields below; held while the pages are accessed
	cpus    []*perfCPU
	turn    int    // the CPU to read from, an index in cpus
	barrier uint64 // with order: all records up to this time are in the buffers
	held    bool   // with order: a record is younger than the barrier
	lost    lossCounter
	counts  Stats
	closed  bool
}

func (p *perfBuffer) open(m *ebpf.Map, opts *PerfBufferOptions) (err error) {
	if m.Type() != ebpf.PerfEventArray {
		return fmt.Errorf("open perf buffer %v: a %v, not a perf event array", m, m.Type())
	}
	if opts.WakeupBytes > 0 && opts.WakeupEvents > 0 {
		return fmt.Errorf("open perf buffer %v: wake-up by both bytes and events", m)
	}
	p.array, p.poll, p.order, p.epoll = m, opts.Poll, opts.Order, -1
	defer func() {
		if err != nil {
			p.release()
			err = fmt.Errorf("open perf buffer %v: %w", m, err)
		}
	}()
	if err := p.lost.open(opts.Lost, opts.LostSlot); err != nil {
		return err
	}
	if p.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	online, err := cpus.Online(nil)
	if err != nil {
		return err
	}
	for _, cpu := range online {
		if uint32(cpu) >= m.MaxEntries() {
			break // the program can't emit on this CPU either
		}
		if err := p.addCPU(cpu, opts); err != nil {
			return err
		}
	}
	if len(p.cpus) == 0 {
		return errors.New("no CPU has a place in the array")
	}
	epoll := p.epoll
	p.epoll = -1 // the waiter owns it from now on
	return p.waiter.adopt(epoll, func() bool { return p.hasRecord(epoll) })
}

func (p *perfBuffer) addCPU(cpu int, opts *PerfBufferOptions) error {
	size := opts.PerCPU
	if size <= 0 {
		size = 64 << 10
	}
	size = max(size, os.Getpagesize())
	size = 1 << bits.Len(uint(size-1))
	c, err := openPerfCPU(cpu, size, opts)
	if errors.Is(err, syscall.ENODEV) {
		return nil // it went offline just now
	}
	if err != nil {
		return err
	}
	p.cpus = append(p.cpus, c)
	p.counts.Size += size
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.fd)}
	if err := syscall.EpollCtl(p.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	var key, value [4]byte
	binary.NativeEndian.PutUint32(key[:], uint32(cpu))
	binary.NativeEndian.PutUint32(value[:], uint32(c.fd))
	if err := kernel.MapElem(kernel.MapUpdate, p.array.FD(), key[:], value[:], 0); err != nil {
		return fmt.Errorf("cpu %d: %w", cpu, err)
	}
	return nil
}

func (p *perfBuffer) release() error {
	var errs []error
	for _, c := range p.cpus {
		var key [4]byte
		binary.NativeEndian.PutUint32(key[:], uint32(c.cpu))
		_ = kernel.MapElem(kernel.MapDelete, p.array.FD(), key[:], nil, 0) // the map may be closed
		errs = append(errs, c.close())
	}
	p.cpus = nil
	if p.epoll >= 0 {
		errs = append(errs, syscall.Close(p.epoll))
		p.epoll = -1
	}
	return errors.Join(errs...)
}

func (p *perfBuffer) read(ctx context.Context, rec *Record) error {
	var ended error
	for {
		ok, err := p.copyNext(rec, ended != nil)
		if ok || err != nil {
			return err
		}
		if ended != nil {
			return ended
		}
		ended = p.wait(ctx)
	}
}

// copyNext copies the next record. With last, at the end of a context, it also takes records
// that are too young to be in order for certain.
func (p *perfBuffer) copyNext(rec *Record, last bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, os.ErrClosed
	}
	if last {
		p.lookAll()
		p.barrier = math.MaxUint64
	}
	c, data := p.pick()
	if c == nil {
		return false, nil
	}
	rec.Data = append(rec.Data[:0], data...)
	rec.CPU, rec.Lost = c.cpu, c.news()
	c.pass()
	p.counts.Read++
	p.counts.Bytes += uint64(len(data))
	if rec.Remaining = c.ring.Seen(); rec.Remaining == 0 {
		rec.Remaining = p.remaining()
	}
	return true, nil
}

// pick returns the record to read next.
func (p *perfBuffer) pick() (*perfCPU, []byte) {
	if p.order > 0 {
		return p.pickOldest()
	}
	for range p.cpus { // each CPU once, then the first one's new records
		c := p.cpus[p.turn]
		if _, data, ok := c.peek(); ok {
			return c, data
		}
		p.turn = (p.turn + 1) % len(p.cpus)
		p.cpus[p.turn].ring.Look()
	}
	c := p.cpus[p.turn]
	if _, data, ok := c.peek(); ok {
		return c, data
	}
	return nil, nil
}

func (p *perfBuffer) lookAll() {
	for _, c := range p.cpus {
		c.ring.Look()
	}
}

// pickOldest returns the oldest record of all CPUs that is old enough. The rings' heads are
// read after the barrier was set to a time in the past, so all records up to the barrier are in
// the buffers.
func (p *perfBuffer) pickOldest() (*perfCPU, []byte) {
	for round := range 2 {
		var best *perfCPU
		var data []byte
		var when uint64
		p.held = false
		for _, c := range p.cpus {
			t, d, ok := c.peek()
			switch {
			case !ok:
			case t > p.barrier:
				p.held = true
			case best == nil || t < when:
				best, data, when = c, d, t
			}
		}
		if best != nil || round > 0 {
			return best, data
		}
		p.barrier = kernel.Monotonic() - uint64(p.order)
		p.lookAll()
	}
	return nil, nil
}

func (p *perfBuffer) remaining() int {
	n := 0
	for _, c := range p.cpus {
		n += int(c.ring.Unread())
	}
	return n
}

// hasRecord is the waiter's ready. It empties the epoll set's own list, so that the next record
// makes the set readable again.
func (p *perfBuffer) hasRecord(epoll int) bool {
	var events [16]syscall.EpollEvent
	_, _ = syscall.EpollWait(epoll, events[:], 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed || p.remaining() > 0 && !p.held
}

func (p *perfBuffer) wait(ctx context.Context) error {
	p.mu.Lock()
	p.counts.Waits++
	poll := p.poll
	if p.held && (poll == 0 || poll > p.order) {
		poll = p.order // until the record is old enough
	}
	p.mu.Unlock()
	return p.waiter.wait(ctx, poll)
}

func (p *perfBuffer) stats() (Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.counts, nil
	}
	err := p.refresh()
	return p.counts, err
}

// refresh updates the counts that the kernel keeps.
func (p *perfBuffer) refresh() error {
	p.counts.Fill = p.remaining()
	p.counts.Corrupt = 0
	for _, c := range p.cpus {
		p.counts.Corrupt += c.corrupt + c.ring.Stats().Corrupt
	}
	if p.lost.m != nil {
		var err error
		p.counts.Lost, p.counts.LostByCPU, err = p.lost.total()
		return err
	}
	p.counts.Lost, p.counts.LostByCPU = 0, nil
	for _, c := range p.cpus {
		n, err := c.lost()
		if err != nil {
			return err
		}
		for len(p.counts.LostByCPU) <= c.cpu {
			p.counts.LostByCPU = append(p.counts.LostByCPU, 0)
		}
		p.counts.LostByCPU[c.cpu] = n
		p.counts.Lost += n
	}
	return nil
}

func (p *perfBuffer) close() error {
	err := p.waiter.close() // no reader waits after this
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.array == nil {
		return nil
	}
	_ = p.refresh() // the last counts stay
	p.closed = true
	return errors.Join(err, p.release())
}
