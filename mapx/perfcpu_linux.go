package mapx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// From include/uapi/linux/perf_event.h.
const (
	perfTypeSoftware = 1
	perfBPFOutput    = 10 // PERF_COUNT_SW_BPF_OUTPUT
	perfSampleTime   = 1 << 2
	perfSampleRaw    = 1 << 10
	perfFormatLost   = 1 << 4  // Linux 6.0
	perfWatermark    = 1 << 14 // attr.watermark
	perfUseClockID   = 1 << 25 // attr.use_clockid
	perfCloexec      = 1 << 3  // PERF_FLAG_FD_CLOEXEC
	perfRecordLost   = 2
	perfRecordSample = 9
	perfIOCEnable    = 0x2400
	perfHeadOffset   = 1024 // of data_head in struct perf_event_mmap_page
	perfHeader       = 8    // u32 type, u16 misc, u16 size
	clockMonotonic   = 1
)

// perfAttr is struct perf_event_attr up to PERF_ATTR_SIZE_VER5.
type perfAttr struct {
	typ, size              uint32
	config, period         uint64
	sampleType, readFormat uint64
	flags                  uint64
	wakeup, bpType         uint32
	config1, config2       uint64
	branch, userRegs       uint64
	userStack              uint32
	clockID                int32
	intrRegs               uint64
	auxWatermark           uint32
	maxStack, reserved     uint16
	auxSample, reserved2   uint32
}

// perfCPU is the buffer of one CPU.
type perfCPU struct {
	cpu      int
	fd       int
	pages    []byte
	data     []byte
	tail     uint64
	head     uint64 // as it was last seen
	timed    bool   // records begin with their time
	exact    bool   // the event counts its losses itself
	inRing   uint64 // losses that lost records told of
	pending  uint64 // of those, not yet told to the reader
	corrupt  uint64
	boundary []byte // a record that wraps around the end
}

func openPerfCPU(cpu, size int, opts *PerfBufferOptions) (*perfCPU, error) {
	attr := perfAttr{
		typ: perfTypeSoftware, config: perfBPFOutput, period: 1, sampleType: perfSampleRaw,
		readFormat: perfFormatLost, wakeup: uint32(max(opts.WakeupEvents, 1)),
	}
	attr.size = uint32(unsafe.Offsetof(attr.auxSample))
	if opts.WakeupBytes > 0 {
		attr.flags, attr.wakeup = perfWatermark, uint32(opts.WakeupBytes)
	}
	if opts.Order > 0 {
		attr.sampleType |= perfSampleTime
		attr.flags |= perfUseClockID
		attr.clockID = clockMonotonic
	}
	c := &perfCPU{cpu: cpu, timed: opts.Order > 0, exact: true}
	var err error
	if c.fd, err = perfEventOpen(&attr, cpu); errors.Is(err, syscall.EINVAL) {
		attr.readFormat, c.exact = 0, false
		c.fd, err = perfEventOpen(&attr, cpu)
	}
	if err != nil {
		return nil, fmt.Errorf("cpu %d: perf_event_open: %w", cpu, err)
	}
	c.pages, err = syscall.Mmap(c.fd, 0, os.Getpagesize()+size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("cpu %d: mmap perf buffer: %w", cpu, err)
	}
	c.data = c.pages[os.Getpagesize():]
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(c.fd), perfIOCEnable, 0); errno != 0 {
		c.close()
		return nil, fmt.Errorf("cpu %d: enable: %w", cpu, errno)
	}
	return c, nil
}

func perfEventOpen(attr *perfAttr, cpu int) (int, error) {
	fd, _, errno := syscall.Syscall6(syscall.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(attr)),
		^uintptr(0), uintptr(cpu), ^uintptr(0), perfCloexec, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func (c *perfCPU) close() error {
	var err error
	if c.pages != nil {
		err = syscall.Munmap(c.pages)
	}
	c.pages, c.data = nil, nil
	return errors.Join(err, syscall.Close(c.fd))
}

func (c *perfCPU) headPtr() *uint64 { return (*uint64)(unsafe.Pointer(&c.pages[perfHeadOffset])) }

func (c *perfCPU) tailPtr() *uint64 { return (*uint64)(unsafe.Pointer(&c.pages[perfHeadOffset+8])) }

// look takes in what the kernel wrote since.
func (c *perfCPU) look() { c.head = atomic.LoadUint64(c.headPtr()) }

// at returns n bytes at position pos, copied only if they wrap around.
func (c *perfCPU) at(pos uint64, n int) []byte {
	i := int(pos & uint64(len(c.data)-1))
	if i+n <= len(c.data) {
		return c.data[i : i+n]
	}
	c.boundary = append(append(c.boundary[:0], c.data[i:]...), c.data[:n-(len(c.data)-i)]...)
	return c.boundary
}

// peek returns the next sample's time (0 if untimed) and data, without moving
// behind it; false says that there is none before head. Other records are taken
// note of and passed.
func (c *perfCPU) peek() (when uint64, data []byte, next uint64, ok bool) {
	for c.tail != c.head {
		left := c.head - c.tail
		if left < perfHeader || left > uint64(len(c.data)) {
			c.resync()
			break
		}
		head := c.at(c.tail, perfHeader)
		typ, size := binary.NativeEndian.Uint32(head), uint64(binary.NativeEndian.Uint16(head[6:]))
		if size < perfHeader || size > left {
			c.resync()
			break
		}
		body := c.at(c.tail, int(size))[perfHeader:]
		next = c.tail + size
		switch typ {
		case perfRecordSample:
			if c.timed && len(body) >= 8 {
				when, body = binary.NativeEndian.Uint64(body), body[8:]
			}
			if len(body) < 4 || uint64(binary.NativeEndian.Uint32(body)) > uint64(len(body)-4) {
				c.resync()
				return 0, nil, 0, false
			}
			n := binary.NativeEndian.Uint32(body)
			return when, body[4:][:n], next, true
		case perfRecordLost: // u64 id, u64 lost
			if len(body) >= 16 {
				n := binary.NativeEndian.Uint64(body[8:])
				c.inRing += n
				c.pending += n
			}
		}
		c.pass(next)
	}
	return 0, nil, 0, false
}

// pass gives the space up to pos back to the kernel.
func (c *perfCPU) pass(pos uint64) {
	c.tail = pos
	atomic.StoreUint64(c.tailPtr(), pos)
}

func (c *perfCPU) resync() {
	c.corrupt++
	c.pass(c.head)
}

// lost is what the CPU lost so far, as exactly as the kernel tells.
func (c *perfCPU) lost() (uint64, error) {
	if !c.exact {
		return c.inRing, nil
	}
	var b [16]byte // u64 value, u64 lost
	n, err := syscall.Read(c.fd, b[:])
	if err != nil || n < len(b) {
		return c.inRing, os.NewSyscallError("read perf event", err)
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}
