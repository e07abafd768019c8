package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// kind is what a load does.
type kind struct {
	pulse, burst   func()
	batches, batch int           // of the burst
	every          time.Duration // of the pulse
}

// The burst's files and arguments, which the tools print.
const (
	pulseName = "/nonexistent/borescope-pulse"
	burstName = "/nonexistent/borescope-burst"
)

var kinds = map[string]kind{
	"syscount":  {func() { unix.Getppid() }, func() { unix.Getpgid(0) }, 200, 500, time.Millisecond},
	"opensnoop": {func() { open(pulseName) }, func() { open(burstName) }, 200, 50, time.Millisecond},
	"execsnoop": {func() { execTrue(pulseName) }, func() { execTrue(burstName) }, 200, 1, 10 * time.Millisecond},
	"funccount": {pulsed, bursted, 200, 500, time.Millisecond},
}

func open(path string) {
	if fd, err := unix.Open(path, unix.O_RDONLY, 0); err == nil {
		unix.Close(fd)
	}
}

func execTrue(arg string) { exec.Command("/bin/true", arg).Run() }

// pulsed and bursted are what uprobes are set on.
//
//go:noinline
func pulsed() { calls++ }

//go:noinline
func bursted() { calls += 2 }

var calls int

// serveLoad does on standard input's commands ('p' to pulse, 's' to stop, 'b'
// for a burst) and answers with a line of JSON.
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
		}
		if err != nil {
			return err
		}
	}
}

// pulses causes events until it is stopped, and returns when each was.
func (k kind) pulses(stop *atomic.Bool) []time.Time {
	var at []time.Time
	for ; !stop.Load(); time.Sleep(k.every) {
		at = append(at, time.Now())
		k.pulse()
	}
	return at
}

// bursts causes the known number of events, and returns what one takes in the
// quickest batch.
func (k kind) bursts() time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var best time.Duration
	for range k.batches {
		begin := time.Now()
		for range k.batch {
			k.burst()
		}
		best = least(best, time.Since(begin))
		time.Sleep(2 * time.Millisecond) // readers of buffers keep up
	}
	return best / time.Duration(k.batch)
}

// load is the other side of serveLoad.
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

func (l *load) end() error {
	l.in.Close()
	return l.cmd.Wait()
}
