package main

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lasts are the times that events are made to last, each in the middle of a power-of-two
// bucket, so that the histogram is known. The first is the pulse's; a burst has one event of
// each of the others. Events last longer in a guest: in an emulated machine on a busy host
// everything takes some milliseconds more than it should.
var lasts = [3]time.Duration{5 * slower, 2500 * slower / 1000, 10 * slower}

// slower is a millisecond of these times: 1 ms, in a guest 16 ms.
var slower = func() time.Duration {
	if os.Getenv("BORESCOPE_GUEST") != "" {
		return 16 * time.Millisecond
	}
	return time.Millisecond
}()

// bucketsOf returns the lowest values of these times' buckets, in microseconds.
func bucketsOf(times ...time.Duration) string {
	var lows []string
	for _, d := range times {
		lows = append(lows, strconv.Itoa(1<<(bits.Len64(uint64(d.Microseconds()))-1)))
	}
	return strings.Join(lows, " ")
}

// must ends a load that cannot do its work.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// The ports to which the load connects.
const pulsePort, burstPort = 18423, 18424

// connects opens connections to itself on the loopback device.
func connects() *kind {
	listeners := map[int]int{}
	connect := func(port int) {
		at := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
		if listeners[port] == 0 {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(err)
			must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
			must(unix.Bind(fd, at))
			must(unix.Listen(fd, 8))
			listeners[port] = fd
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		// Closing resets the connection, which leaves no socket in TIME_WAIT.
		must(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
		must(unix.Connect(fd, at))
		peer, _, err := unix.Accept(listeners[port])
		must(err)
		unix.Close(fd)
		unix.Close(peer)
	}
	return &kind{
		pulse: func() { connect(pulsePort) }, burst: func() { connect(burstPort) },
		batches: 200, batch: 10, every: 2 * time.Millisecond,
	}
}

// waits makes a process wait for its CPU: cat, which a thread of higher priority on the same
// CPU wakes and keeps waiting. All of its waits are known.
func waits() *kind {
	const rounds = 500 // to the process and back, with no other thread in between
	work, done := make(chan time.Duration), make(chan bool)
	var cat *exec.Cmd
	begin := func() {
		if cat != nil {
			return
		}
		cat = exec.Command("cat")
		to, from := pipe(), pipe()
		cat.Stdin, cat.Stdout = to[0], from[1]
		must(cat.Start())
		cpu := runtime.NumCPU() - 1
		must(realtime(cat.Process.Pid, cpu, 1))
		go func() {
			runtime.LockOSThread()
			must(realtime(0, cpu, 2))
			var b [1]byte
			in, out := int(from[0].Fd()), int(to[1].Fd())
			for wait := range work {
				if wait == 0 {
					for range rounds {
						unix.Write(out, b[:])
						unix.Read(in, b[:])
					}
				} else {
					start := time.Now()
					unix.Write(out, b[:])
					for time.Since(start) < wait {
					}
					sleep(wait / 4) // or the real-time class uses more than its share
					unix.Read(in, b[:])
				}
				done <- true
			}
		}()
	}
	wait := func(d time.Duration) { begin(); work <- d; <-done }
	return &kind{
		pulse: func() { wait(lasts[0]) }, burst: func() { wait(lasts[1]); wait(lasts[2]) },
		batches: 25, batch: 1, every: 5 * time.Millisecond,
		cost: func() { wait(0) }, costBatches: 100, costBatch: 1, costEach: rounds,
		victim: func() (int, error) { begin(); return cat.Process.Pid, nil },
	}
}

func pipe() (ends [2]*os.File) {
	r, w, err := os.Pipe()
	must(err)
	return [2]*os.File{r, w}
}

// sleep blocks the thread, and not only the goroutine.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&ts, nil)
}

// realtime binds a thread to one CPU, and runs it before all threads of lower priority.
func realtime(tid, cpu, priority int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("affinity: %w", err)
	}
	attr := unix.SchedAttr{
		Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Policy: unix.SCHED_FIFO,
		Priority: uint32(priority),
	}
	if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
		return fmt.Errorf("real-time priority: %w", err)
	}
	return nil
}

// reads reads from disks that take a set time for each request. The last disk takes none.
func reads() *kind {
	block, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	must(err)
	fds := map[int]int{}
	read := func(disk int) {
		if fds[disk] == 0 {
			fds[disk], err = unix.Open(diskName(disk), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
			must(err)
		}
		_, err := unix.Pread(fds[disk], block, 0)
		must(err)
	}
	return &kind{
		pulse: func() { read(0) }, burst: func() { read(1); read(2) },
		batches: 25, batch: 1, every: 5 * time.Millisecond,
		cost: func() { read(len(lasts)) }, costBatches: 200, costBatch: 50,
	}
}

// diskName returns the path of a disk of null_blk; the driver makes the first one itself.
func diskName(i int) string { return "/dev/nullb" + strconv.Itoa(i+1) }

// makeDisks makes the disks for reads. The driver, null_blk, must be loaded.
func makeDisks() error {
	const config = "/sys/kernel/config"
	if err := unix.Mount("configfs", config, "configfs", 0, ""); err != nil && err != unix.EBUSY {
		return fmt.Errorf("mount configfs: %w", err)
	}
	for i := range len(lasts) + 1 {
		dir := filepath.Join(config, "nullb", "nullb"+strconv.Itoa(i+1))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		settings := [][2]string{{"size", "16"}} // MiB
		if i < len(lasts) {                     // completed by a timer; else at once
			settings = append(settings, [2]string{"irqmode", "2"},
				[2]string{"completion_nsec", strconv.Itoa(int(lasts[i]))})
		} else {
			settings = append(settings, [2]string{"irqmode", "0"})
		}
		for _, s := range append(settings, [2]string{"power", "1"}) {
			if err := os.WriteFile(filepath.Join(dir, s[0]), []byte(s[1]), 0); err != nil {
				return err
			}
		}
	}
	return nil
}
