package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// kind is the work of a load.
type kind struct {
	pulse, burst   func()
	batches, batch int           // of the burst
	every          time.Duration // of the pulse

	// If a burst's events are made to last, cost is an event that takes no time of its own.
	// The burst has costBatches more batches of it.
	cost                   func()
	costBatches, costBatch int
	costEach               int                 // events of one cost; 0 is 1
	victim                 func() (int, error) // the process that is traced, if not this one
}

// timed returns the event whose cost is measured.
func (k *kind) timed() (event func(), batches, batch int) {
	if k.cost != nil {
		return k.cost, k.costBatches, k.costBatch
	}
	return k.burst, k.batches, k.batch
}

// events returns the number of events in a burst.
func (k *kind) events() int {
	n := k.batches * k.batch
	if k.cost != nil {
		n += k.costBatches * k.costBatch * max(k.costEach, 1)
	}
	return n
}

// The files and arguments of the pulse and the burst, which the tools print.
const (
	pulseName = "/nonexistent/borescope-pulse"
	burstName = "/nonexistent/borescope-burst"
	// Greater than the number of any process.
	pulsePID, burstPID = 1<<22 + 1, 1<<22 + 2
)

var kinds = map[string]*kind{
	"syscount": {pulse: func() {
		unix.Syscall(unix.SYS_SCHED_GET_PRIORITY_MAX, 0, 0, 0)
	}, burst: func() { unix.Getpgid(0) }, batches: 200, batch: 500, every: time.Millisecond},
	"opensnoop": {pulse: func() {
		open(pulseName)
	}, burst: func() { open(burstName) }, batches: 200, batch: 50, every: time.Millisecond},
	"execsnoop": {pulse: func() {
		execTrue(pulseName)
	}, burst: func() { execTrue(burstName) }, batches: 200, batch: 1, every: 10 * time.Millisecond},
	"funccount": {
		pulse: eventPulse, burst: eventBurst, batches: 200, batch: 500,
		every: time.Millisecond,
	},
	"killsnoop": {pulse: func() {
		unix.Kill(pulsePID, 0)
	}, burst: func() { unix.Kill(burstPID, 0) }, batches: 200, batch: 50, every: time.Millisecond},
	"tcpconnect": connects(),
	"runqlat":    waits(),
	"biolatency": reads(),
	"read":       cached(),
}

func open(path string) {
	if fd, err := unix.Open(path, unix.O_RDONLY, 0); err == nil {
		unix.Close(fd)
	}
}

// cached reads pages of a file from the page cache, each time another page than the last.
func cached() *kind {
	fd, page, at := -1, make([]byte, 4096), int64(0)
	read := func() {
		if fd < 0 {
			var err error
			fd, err = unix.Open(trueFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			must(err)
		}
		at = int64(len(page)) - at
		_, err := unix.Pread(fd, page, at)
		must(err)
	}
	return &kind{pulse: read, burst: read, batches: 200, batch: 500, every: time.Millisecond}
}

// trueFile is a program of more than two pages.
const trueFile = "/bin/true"

func execTrue(arg string) { exec.Command(trueFile, arg).Run() }

// eventPulse and eventBurst are the functions for uprobes.
//
//go:noinline
func eventPulse() { calls.Add(1) }

//go:noinline
func eventBurst() { calls.Add(2) }

var calls atomic.Int64

// serveLoad executes the commands on standard input ('p' to pulse, 's' to stop, 'b' for a
// burst, 'v' for the victim), and answers with a line of JSON.
func serveLoad(name string) error {
	k, ok := kinds[name]
	if !ok {
		return fmt.Errorf("no load %q", name)
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	var stop atomic.Bool
	pulses := make(chan []time.Time)
	for {
		command, err := in.ReadByte()
		if err == io.EOF {
			return nil
		}
		switch command {
		case 'p':
			stop.Store(false)
			go func() { pulses <- k.pulses(&stop) }()
			err = out.Encode("pulsing")
		case 's':
			stop.Store(true)
			err = out.Encode(<-pulses)
		case 'b':
			err = out.Encode(k.bursts())
		case 'v':
			pid := os.Getpid()
			if k.victim != nil {
				pid, err = k.victim()
			}
			err = errors.Join(err, out.Encode(pid))
		}
		if err != nil {
			return err
		}
	}
}

// pulses causes events until stop is set, and returns the time of each.
func (k *kind) pulses(stop *atomic.Bool) []time.Time {
	var at []time.Time
	for ; !stop.Load(); time.Sleep(k.every) {
		at = append(at, time.Now())
		k.pulse()
	}
	return at
}

// bursts causes the known number of events, and returns the time of one in the quickest
// batch.
func (k *kind) bursts() time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if k.cost != nil {
		for range k.batches * k.batch {
			k.burst()
		}
	}
	event, batches, batch := k.timed()
	var best time.Duration
	for range batches {
		begin := time.Now()
		for range batch {
			event()
		}
		best = least(best, time.Since(begin))
		time.Sleep(2 * time.Millisecond) // so that readers of buffers keep up
	}
	return best / time.Duration(batch*max(k.costEach, 1))
}

// load is a process that runs serveLoad.
type load struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startLoad(program, name string) (*load, error) {
	l := &load{cmd: exec.Command(program, "load", name)}
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.cmd.Stderr = os.Stderr
	l.out = json.NewDecoder(out)
	return l, l.cmd.Start()
}

func (l *load) do(command string, answer any) error {
	if _, err := io.WriteString(l.in, command); err != nil {
		return err
	}
	return l.out.Decode(answer)
}

func (l *load) pulse() error {
	var begun string
	return l.do("p", &begun)
}

func (l *load) stop() (at []time.Time, err error) {
	err = l.do("s", &at)
	return at, err
}

func (l *load) burst() (each time.Duration, err error) {
	err = l.do("b", &each)
	return each, err
}

func (l *load) victim() (pid int, err error) {
	err = l.do("v", &pid)
	return pid, err
}

func (l *load) end() error {
	l.in.Close()
	return l.cmd.Wait()
}
