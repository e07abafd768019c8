// Command service measures what a service pays that counts and times its own system calls with
// this library: the CPU time of a trivial HTTP request with and without each of several ways to
// do so, and the time that each adds to a system call of every other process. It needs root.
//
//	go -C internal/bench run ./service [-pairs 30] [-requests 2000] [-rows calls]
//
// One process serves, on a CPU of its own, and each request has a connection, or with -keep all
// share one. It attaches and detaches when it is told to, so that the two halves of a pair are the
// same process, and the pairs of all rows are interleaved. The CPU time is the process's own, from
// getrusage.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	pairs    = flag.Int("pairs", 30, "interleaved pairs for each row")
	requests = flag.Int("requests", 2000, "requests in each half of a pair")
	keep     = flag.Bool("keep", false, "one connection for all requests")
	only     = flag.String("rows", "", "measure only rows whose name matches this `regexp`")
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve())
	}
	flag.Parse()
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench service:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// pair is the difference that a row makes: of the service's CPU time for each request, alone
// and traced, in microseconds.
type pair struct{ alone, traced float64 }

func (p pair) share() float64 { return p.traced/p.alone - 1 }

// result is what was measured of a row.
type result struct {
	row
	pairs []pair
	calls float64 // system calls of the service that were seen for each request
	// own and other are the least times of a system call that does nothing, of the service and
	// of another process, in nanoseconds.
	own, other float64
}

func run() error {
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	s, err := start()
	if err != nil {
		return err
	}
	defer s.stop()
	var results []*result
	for _, r := range rows {
		if match.MatchString(r.name) {
			results = append(results, &result{row: r, own: math.Inf(1), other: math.Inf(1)})
		}
	}
	alone := math.Inf(1)
	if _, err := s.load(); err != nil { // what is done once
		return err
	}
	for i := range *pairs {
		for _, r := range results {
			var p pair
			halves := []func() error{
				func() (err error) { p.alone, err = s.load(); alone = min(alone, call()); return },
				func() (err error) { p.traced, err = s.traced(r); return },
			}
			if i%2 == 1 {
				slices.Reverse(halves)
			}
			for _, half := range halves {
				if err := half(); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
			r.pairs = append(r.pairs, p)
		}
	}
	report(results, alone)
	return nil
}

// report prints the medians. Their intervals hold with 95 % whatever the distribution is: they
// are order statistics.
func report(results []*result, alone float64) {
	fmt.Printf("getppid, untraced: %.0f ns\n", alone)
	fmt.Printf("%-34s %7s %7s %7s %16s %6s %8s %8s\n", "", "alone", "traced", "added", "95 %", "calls",
		"own", "others")
	for _, r := range results {
		var a, t, share []float64
		for _, p := range r.pairs {
			a, t, share = append(a, p.alone), append(t, p.traced), append(share, 100*p.share())
		}
		lo, hi := interval(share)
		fmt.Printf("%-34s %4.1f us %4.1f us %+6.1f%% %+6.1f…%+6.1f%% %6.1f %+5.0f ns %+5.0f ns\n", r.name,
			median(a), median(t), median(share), lo, hi, r.calls, r.own-alone, r.other-alone)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// interval is the order statistics between which the median lies with a confidence of 95 %.
func interval(x []float64) (lo, hi float64) {
	x = slices.Sorted(slices.Values(x))
	n := float64(len(x))
	k := max(0, int(n/2-1.96*math.Sqrt(n)/2))
	return x[k], x[len(x)-1-k]
}

// call is the least time of a system call of this process, in nanoseconds.
func call() float64 {
	const calls = 1000
	least := time.Duration(math.MaxInt64)
	for range 100 {
		t := time.Now()
		for range calls {
			_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
		least = min(least, time.Since(t))
	}
	return float64(least.Nanoseconds()) / calls
}

// service is the process that serves, and the connection to it.
type service struct {
	cmd  *exec.Cmd
	addr string
	conn net.Conn // nil between requests without -keep
	r    *bufio.Reader
}

func start() (*service, error) {
	cmd := exec.Command("/proc/self/exe", "serve")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// Of two processes that share CPUs, the time of one depends on where the other is: the
	// service has the first CPU, and what asks it the others.
	runtime.LockOSThread()
	var cpus, first, rest unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return nil, err
	}
	rest = cpus
	for cpu := range len(cpus) * 64 {
		if cpus.IsSet(cpu) {
			first.Set(cpu)
			rest.Clear(cpu)
			break
		}
	}
	if rest.Count() == 0 {
		return nil, errors.New("it needs two CPUs")
	}
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &service{cmd: cmd}
	if _, err = fmt.Fscanln(out, &s.addr); err == nil {
		err = unix.SchedSetaffinity(0, &rest) // this goroutine's thread makes all requests
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *service) stop() {
	s.hangUp()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *service) hangUp() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = nil
}

// get makes one request and returns the answer.
func (s *service) get(path string) ([]byte, error) {
	if s.conn == nil {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return nil, err
		}
		s.conn, s.r = conn, bufio.NewReader(conn)
	}
	if !*keep {
		defer s.hangUp()
	}
	if _, err := io.WriteString(s.conn, "GET "+path+" HTTP/1.1\r\nHost: service\r\n\r\n"); err != nil {
		return nil, err
	}
	a, err := http.ReadResponse(s.r, nil)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = errors.New(string(b))
	}
	return b, err
}

// load returns the CPU time of a request, in microseconds.
func (s *service) load() (float64, error) {
	before, err := s.used()
	if err != nil {
		return 0, err
	}
	for range *requests {
		if _, err := s.get("/work"); err != nil {
			return 0, err
		}
	}
	after, err := s.used()
	return (after - before).Seconds() * 1e6 / float64(*requests), err
}

func (s *service) used() (d time.Duration, err error) {
	b, err := s.get("/used")
	if err != nil {
		return 0, err
	}
	return d, json.Unmarshal(b, &d)
}

// traced is load under a row.
func (s *service) traced(r *result) (float64, error) {
	if _, err := s.get("/attach?row=" + r.id()); err != nil {
		return 0, err
	}
	// What is done once, such as compiling the rules for the stacks of the files that are
	// sampled first, is no cost of a request.
	for begin := time.Now(); time.Since(begin) < r.settle; {
		if _, err := s.load(); err != nil {
			return 0, err
		}
	}
	counted, err := s.seen()
	if err != nil {
		return 0, err
	}
	used, err := s.load()
	if err != nil {
		return 0, err
	}
	seen, err := s.seen()
	if err != nil {
		return 0, err
	}
	r.calls = float64(seen-counted) / float64(*requests)
	r.other = min(r.other, call())
	b, err := s.get("/call")
	if err != nil {
		return 0, err
	}
	var own float64
	if err := json.Unmarshal(b, &own); err != nil {
		return 0, err
	}
	r.own = min(r.own, own)
	_, err = s.get("/detach")
	return used, err
}

// seen is how many system calls of the service have been seen.
func (s *service) seen() (n uint64, err error) {
	b, err := s.get("/seen")
	if err != nil {
		return 0, err
	}
	return n, json.Unmarshal(b, &n)
}

// serve is the service.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	var tracing *tracing
	http.HandleFunc("/work", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/used", func(w http.ResponseWriter, _ *http.Request) {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		fmt.Fprint(w, u.Utime.Nano()+u.Stime.Nano())
	})
	http.HandleFunc("/attach", func(w http.ResponseWriter, q *http.Request) {
		var err error
		if tracing, err = attach(q.FormValue("row")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		runtime.GC() // or requests pay for what attaching leaves behind
	})
	http.HandleFunc("/seen", func(w http.ResponseWriter, _ *http.Request) {
		n, err := tracing.calls()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		fmt.Fprint(w, n)
	})
	http.HandleFunc("/call", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, call()) })
	http.HandleFunc("/detach", func(w http.ResponseWriter, _ *http.Request) {
		if err := tracing.stop(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		tracing = nil
		runtime.GC()
	})
	return http.Serve(l, nil)
}
