package mapx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/perfring"
)

// perfCPU is the buffer of one CPU.
type perfCPU struct {
	cpu     int
	fd      int
	ring    *perfring.Ring
	raw     perfring.Raw // the record that peek returned
	timed   bool         // records begin with their time
	exact   bool         // the event counts its losses (PERF_FORMAT_LOST)
	told    uint64       // losses by lost records that news has returned
	corrupt uint64       // malformed samples
}

func openPerfCPU(cpu, size int, opts *PerfBufferOptions) (*perfCPU, error) {
	c := &perfCPU{cpu: cpu, timed: opts.Order > 0}
	var err error
	c.fd, c.exact, err = kernel.OpenBPFOutput(cpu, kernel.BPFOutput{
		WakeupBytes: opts.WakeupBytes, WakeupEvents: opts.WakeupEvents, Timed: c.timed,
	})
	if err != nil {
		return nil, fmt.Errorf("cpu %d: %w", cpu, err)
	}
	if c.ring, err = perfring.Map(c.fd, size/os.Getpagesize()); err == nil {
		err = kernel.EnablePerf(c.fd)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("cpu %d: %w", cpu, err)
	}
	return c, nil
}

func (c *perfCPU) close() error { return errors.Join(c.ring.Unmap(), syscall.Close(c.fd)) }

// peek returns the next sample's time (0 if untimed) and data, without moving behind it. It
// returns false if there is none up to the head that the ring last read. Other records are
// counted and skipped.
func (c *perfCPU) peek() (when uint64, data []byte, ok bool) {
	for c.ring.Peek(&c.raw) {
		if c.raw.Type == perfring.TypeSample {
			body := c.raw.Data
			if c.timed && len(body) >= 8 {
				when, body = binary.NativeEndian.Uint64(body), body[8:]
			}
			if len(body) >= 4 {
				if n := binary.NativeEndian.Uint32(body); uint64(n) <= uint64(len(body)-4) {
					return when, body[4:][:n], true
				}
			}
			c.corrupt++
		}
		c.ring.Pass(&c.raw)
	}
	return 0, nil, false
}

// pass moves behind the record that peek returned.
func (c *perfCPU) pass() { c.ring.Pass(&c.raw) }

// news returns the losses that lost records reported since the last call.
func (c *perfCPU) news() uint64 {
	lost := c.ring.Stats().Lost
	n := lost - c.told
	c.told = lost
	return n
}

// lost returns the CPU's losses so far, as exactly as the kernel reports them.
func (c *perfCPU) lost() (uint64, error) {
	inRing := c.ring.Stats().Lost
	if !c.exact {
		return inRing, nil
	}
	var b [16]byte // u64 value, u64 lost
	n, err := syscall.Read(c.fd, b[:])
	if err != nil || n < len(b) {
		return inRing, os.NewSyscallError("read perf event", err)
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}
