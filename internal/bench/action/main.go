// Command action measures the cost of package probe/action next to that of the same actions
// written by hand in assembly, compiled by clang -O2, and run by bpftrace: the nanoseconds
// added to a getppid call on one CPU, and the time and memory until a fresh process is
// attached. It needs root. It leaves out clang and bpftrace if they are not installed. Run it
// on a quiet machine:
//
//	go -C internal/bench run ./action
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/bench/peer"
)

//go:embed c/ref.bpf.c
var refSource []byte

var (
	batches = flag.Int("batches", 2000, "batches of 1000 calls for each measurement")
	rounds  = flag.Int("rounds", 3, "rounds of all measurements; the least counts")
	role    = flag.String("role", "", "internal: what a child process does")
	starts  = flag.Int("starts", 20, "starts of each tracer, 0 for none")
	only    = flag.String("action", "", "measure this action only")
)

func main() {
	flag.Parse()
	var err error
	switch {
	case *role == "loop":
		err = loop()
	case strings.HasPrefix(*role, "attach-"):
		err = attachOnce(strings.TrimPrefix(*role, "attach-"))
	default:
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "action:", err)
		os.Exit(1)
	}
}

// loop calls getppid on the last CPU and prints the least time per call.
func loop() error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(runtime.NumCPU() - 1)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	const calls = 1000
	least := time.Duration(1 << 62)
	for range *batches {
		t := time.Now()
		for range calls {
			_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
		least = min(least, time.Since(t))
	}
	fmt.Printf("%.1f\n", float64(least.Nanoseconds())/calls)
	return nil
}

// measure runs the loop in a process of its own.
func measure() (float64, error) {
	out, err := exec.Command("/proc/self/exe", "-role", "loop", "-batches",
		strconv.Itoa(*batches)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// tracer is a way to attach an action. attach returns a function that detaches it.
type tracer struct {
	name   string
	attach func(action string) (func(), error)
}

func run() error {
	tracers := []tracer{
		{"hand-written", attachHand},
		{"ours", attachOurs},
		{"ours, all", attachOursAll},
	}
	if spec, err := clangSpec(); err == nil {
		tracers = append(tracers, tracer{"clang -O2", func(a string) (func(), error) {
			return attachClang(spec, a)
		}})
	} else {
		fmt.Fprintln(os.Stderr, "clang is left out:", err)
	}
	var peer bool
	if out, err := exec.Command("bpftrace", "-e", bpftraceStart).CombinedOutput(); err == nil {
		peer = true
		tracers = append(tracers, tracer{"bpftrace", attachBpftrace})
	} else {
		fmt.Fprintf(os.Stderr, "bpftrace is left out: %v %s\n", err, bytes.TrimSpace(out))
	}
	if *starts > 0 { // before the rest: a child's greatest resident size is at least its parent's
		if err := startup(peer); err != nil {
			return err
		}
	}
	if *rounds == 0 {
		return nil
	}
	return perCall(tracers)
}

// perCall prints the time added to each call, by action and tracer.
func perCall(tracers []tracer) error {
	actions := []string{"empty", "comm", "fields", "latency", "stack", "tpstack"}
	if *only != "" {
		actions = []string{*only}
	}
	// "ours" leaves out the events of this process, as every program does by default; "ours,
	// all" includes them, as the other tracers do.
	best := map[string]float64{}
	note := func(key string, v float64) {
		if old, ok := best[key]; !ok || v < old {
			best[key] = v
		}
	}
	for range *rounds {
		v, err := measure()
		if err != nil {
			return err
		}
		note("untraced", v)
		for _, a := range actions {
			for _, t := range tracers {
				if t.name == "bpftrace" && a == "stack" {
					continue // 0.17 cannot attach to this raw tracepoint: see tpstack
				}
				v, err := traced(t, a)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, a, err)
				}
				note(a+"/"+t.name, v)
			}
		}
	}
	base := best["untraced"]
	fmt.Printf("\ngetppid, untraced: %.1f ns\n%-10s", base, "added ns")
	for _, t := range tracers {
		fmt.Printf(" %14s", t.name)
	}
	fmt.Println()
	for _, a := range actions {
		fmt.Printf("%-10s", a)
		for _, t := range tracers {
			if v, ok := best[a+"/"+t.name]; ok {
				fmt.Printf(" %14.1f", v-base)
			} else {
				fmt.Printf(" %14s", "-")
			}
		}
		hand := best[a+"/hand-written"] - base
		fmt.Printf("   ours to hand-written: %.3f", (best[a+"/ours"]-base)/hand)
		if v, ok := best[a+"/clang -O2"]; ok {
			fmt.Printf(", to clang: %.3f", (best[a+"/ours"]-base)/(v-base))
		}
		fmt.Println()
	}
	return nil
}

func traced(t tracer, action string) (float64, error) {
	stop, err := t.attach(action)
	if err != nil {
		return 0, err
	}
	defer stop()
	return measure()
}

// clangSpec compiles the reference programs.
func clangSpec() (*ebpf.CollectionSpec, error) {
	dir, err := os.MkdirTemp("", "action")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	src, obj := filepath.Join(dir, "ref.bpf.c"), filepath.Join(dir, "ref.o")
	if err := os.WriteFile(src, refSource, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-c", src, "-o",
		obj).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return ebpf.LoadCollectionSpec(obj)
}

func attachClang(spec *ebpf.CollectionSpec, action string) (func(), error) {
	s := spec.Copy()
	keep := map[string]bool{}
	for _, n := range programsOf(action) {
		keep[n] = true
	}
	for n := range s.Programs {
		if !keep[n] {
			delete(s.Programs, n)
		}
	}
	if action == "tpstack" {
		s.Programs["stack"].Type = ebpf.TracePoint
	}
	return attachSpec(s, action)
}

// bpftraceScripts are the actions in bpftrace's language.
var bpftraceScripts = map[string]string{
	"empty":   `tracepoint:raw_syscalls:sys_enter { }`,
	"comm":    `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }`,
	"tpstack": `tracepoint:raw_syscalls:sys_enter { @[kstack] = count(); }`,
	"fields":  `tracepoint:raw_syscalls:sys_enter { @[((struct task_struct *)curtask)->real_parent->tgid] = count(); }`,
	"latency": `tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; } tracepoint:raw_syscalls:sys_exit /@s[tid]/ { @h = hist(nsecs - @s[tid]); delete(@s[tid]); }`,
}

func attachBpftrace(action string) (func(), error) {
	cmd := exec.Command("bpftrace", "-e", `BEGIN { printf("ready\n"); } `+bpftraceScripts[action])
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		ended := make(chan error, 1)
		go func() {
			_, _ = io.Copy(io.Discard, out)
			ended <- cmd.Wait()
		}()
		if err := peer.Interrupt(cmd, ended); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if strings.Contains(sc.Text(), "ready") {
			time.Sleep(300 * time.Millisecond) // BEGIN runs before the rest is attached
			return stop, nil
		}
	}
	stop()
	return nil, fmt.Errorf("bpftrace ended early")
}

// starters are the programs that startup measures: they end when they are attached.
// Hand-written assembly and bpftrace have the count by name, too.
var starters = map[string]func() (func(), error){
	"hand":  func() (func(), error) { return attachHand("comm") },
	"comm":  func() (func(), error) { return attachOurs("comm") },
	"opens": func() (func(), error) { return attachOurs("opens") },
}

// attachOnce is the command that attaches one of starters, prints "attached" and ends.
func attachOnce(who string) error {
	stop, err := starters[who]()
	if err != nil {
		return err
	}
	fmt.Println("attached")
	stop()
	return nil
}

// bpftraceStart prints "attached" when its last probe has fired, which bpftrace attaches
// after the measured one.
const bpftraceStart = `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); } interval:ms:1 { printf("attached\n"); exit(); }`

// startup prints the time until a fresh process is attached, and its greatest resident size.
// The tracers take turns, so that other load on the machine affects all of them. peer is
// whether bpftrace is measured.
func startup(peer bool) error {
	type row struct {
		name  string
		cmd   func() *exec.Cmd
		least time.Duration
		rss   int64
	}
	self := func(who string) func() *exec.Cmd {
		return func() *exec.Cmd { return exec.Command("/proc/self/exe", "-role", "attach-"+who) }
	}
	rows := []*row{
		{name: "hand-written, count by comm", cmd: self("hand")},
		{name: "ours, count by comm", cmd: self("comm")},
		{name: "ours, opensnoop with BTF", cmd: self("opens")},
	}
	if peer {
		rows = append(rows, &row{name: "bpftrace, count by comm", cmd: func() *exec.Cmd {
			return exec.Command("bpftrace", "-e", bpftraceStart)
		}})
	}
	for range *starts {
		for _, r := range rows {
			d, rss, err := startOnce(r.cmd())
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if r.least == 0 || d < r.least {
				r.least = d
			}
			r.rss = max(r.rss, rss)
		}
	}
	fmt.Printf("attached after (least of %d), greatest resident size\n", *starts)
	for _, r := range rows {
		fmt.Printf("%-28s %6.1f ms %6.1f MiB   to hand-written: %.2f\n",
			r.name, float64(r.least.Microseconds())/1000, float64(r.rss)/1024,
			float64(r.least)/float64(rows[0].least))
	}
	return nil
}

// startOnce runs a tracer until it prints that it is attached. It returns the time until
// then, and the greatest resident size.
func startOnce(cmd *exec.Cmd) (time.Duration, int64, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	t := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	var d time.Duration
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if d == 0 && sc.Text() == "attached" {
			d = time.Since(t)
		}
	}
	if err := cmd.Wait(); err != nil {
		return 0, 0, err
	}
	if d == 0 {
		return 0, 0, fmt.Errorf("it was not attached")
	}
	return d, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, nil
}
