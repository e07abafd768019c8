// Broker measures how long a client of a broker waits for an attachment, alone and while
// another user asks for what takes the broker longest, on as many connections as a user may
// have busy.
//
//	go -C internal/bench run ./broker [-requests 60] [-rounds 3]      (as root)
//
// Both are measured in turn; the result is the median and the worst of all requests.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/broker"
)

// The users of whom the client and the attacker are.
const clientID, attackerID = 65533, 65534

// pause keeps below the number of requests a second that a broker carries out for a user.
const pause = 140 * time.Millisecond

func main() {
	requests := flag.Int("requests", 60, "requests of each round")
	rounds := flag.Int("rounds", 3, "interleaved rounds")
	role := flag.String("role", "", "what a process of its own does")
	flag.Parse()
	var err error
	switch {
	case *role == "client":
		err = client(flag.Arg(0), *requests)
	case *role == "attacker":
		err = attacker(flag.Arg(0))
	case *rounds < 1 || *requests < 1:
		err = errors.New("at least one round of one request")
	default:
		err = run(*rounds, *requests)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench broker:", err)
		os.Exit(1)
	}
}

//go:noinline
func marker() {}

// count is a program that does nothing but be there.
func count(plan *probe.Plan, _ broker.Limits) (*ebpf.CollectionSpec, error) {
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}}
	for i := range plan.Programs {
		p := plan.ProgramSpec(i)
		p.License = "GPL"
		p.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, kernel.Idle(p.Type)), asm.Return()}
		spec.Programs[p.Name] = p
	}
	return spec, nil
}

func run(rounds, requests int) error {
	dir, err := os.MkdirTemp("", "bench-broker")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := errors.Join(os.Chmod(path, 0o666), writeFiles(dir)); err != nil {
		return err
	}
	server, err := broker.NewServer(broker.Policy{Rules: []broker.Rule{{
		Anyone: true, Offers: []string{"count"}, Targets: []broker.Allow{
			{Kind: "uprobe", File: "*", Function: "*", Also: []string{"languages"}},
			{Kind: "uprobe", Function: "main.marker"},
			{Kind: "usdt", File: "*", Provider: "*", Name: "*"},
		},
	}}}, map[string]broker.Offer{"count": {Compile: count}})
	if err != nil {
		return err
	}
	go server.Serve(l)
	var alone, attacked []time.Duration
	for range rounds {
		a, err := latencies(path, requests)
		if err != nil {
			return err
		}
		alone = append(alone, a...)
		end, err := startAttack(dir)
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		a, err = latencies(path, requests)
		asked, eerr := end()
		if err = errors.Join(err, eerr); err != nil {
			return err
		}
		attacked = append(attacked, a...)
		fmt.Printf("the attacker was answered %d times\n", asked)
	}
	slices.Sort(alone)
	slices.Sort(attacked)
	show := func(what string, d []time.Duration) {
		fmt.Printf("%-22s median %8v, worst %8v of %d\n", what, d[len(d)/2].Round(10*time.Microsecond),
			d[len(d)-1].Round(10*time.Microsecond), len(d))
	}
	show("alone", alone)
	show("beside the attacker", attacked)
	fmt.Printf("ratio of the medians: %.2f\n", float64(attacked[len(attacked)/2])/float64(alone[len(alone)/2]))
	return nil
}

// latencies are what a client in a process of its own measures.
func latencies(path string, n int) ([]time.Duration, error) {
	cmd := exec.Command("/proc/self/exe", "-role", "client", "-requests", strconv.Itoa(n), path)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", os.Stderr, as(clientID)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	var list []time.Duration
	for _, word := range strings.Fields(string(out)) {
		ns, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, time.Duration(ns))
	}
	return list, nil
}

func as(id uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: id, Gid: id}, Pdeathsig: syscall.SIGKILL,
	}
}

// withoutNewPrivileges executes this program again, in a process that gets no new privileges:
// in others a broker puts no breakpoints into root's files.
func withoutNewPrivileges() error {
	runtime.LockOSThread()
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || set == 1 {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// client attaches a probe to this program, and detaches it, some times, and prints how many
// nanoseconds each attachment took.
func client(path string, n int) error {
	if err := withoutNewPrivileges(); err != nil {
		return err
	}
	marker()
	c, err := broker.Dial(path)
	if err != nil {
		return err
	}
	defer c.Close()
	for range n {
		time.Sleep(pause)
		begin := time.Now()
		a, err := c.Attach(broker.Request{Offer: "count", Targets: []string{"uprobe::main.marker"}, Self: true})
		if err != nil {
			return err
		}
		fmt.Println(time.Since(begin).Nanoseconds())
		if err := a.Close(); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes what the attacker asks for: a directory of files that are no programs, and
// a program with many functions.
func writeFiles(dir string) error {
	const files, functions = 2000, 20_000
	many := filepath.Join(dir, "many")
	errs := []error{os.Mkdir(many, 0o755)}
	for i := range files {
		errs = append(errs, os.WriteFile(fmt.Sprintf("%s/f%d", many, i), []byte("no program"), 0o644))
	}
	f := elfbuild.File{
		Machine: elf.EM_X86_64,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000,
			Data: []byte{0x90, 0x90, 0x90, 0xc3},
		}},
	}
	if runtime.GOARCH == "arm64" {
		f.Machine, f.Sections[0].Data = elf.EM_AARCH64, []byte{0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}
	}
	for i := range functions {
		f.Symbols = append(f.Symbols, elfbuild.Symbol{
			Name:  fmt.Sprintf("_ZN%dabcdefghij%dE%s", 10+len(strconv.Itoa(i)), i, strings.Repeat("PK", 20)),
			Value: 0x1000, Size: 4, Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1,
		})
	}
	big := filepath.Join(dir, "big")
	errs = append(errs, os.WriteFile(big, f.Bytes(), 0o755), os.Chown(big, attackerID, attackerID))
	return errors.Join(errs...)
}

// startAttack starts the attacker. The function that it returns ends it and returns how many
// requests it made.
func startAttack(dir string) (end func() (int, error), err error) {
	cmd := exec.Command("/proc/self/exe", "-role", "attacker", dir)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", os.Stderr, as(attackerID)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (int, error) {
		err := errors.Join(in.Close(), cmd.Wait())
		if err != nil {
			return 0, fmt.Errorf("attacker: %w: %s", err, out.String())
		}
		return strconv.Atoi(strings.TrimSpace(out.String()))
	}, nil
}

// connections is how many requests of a user a broker carries out at a time.
const connections = 4

// attacker asks until its standard input ends, and prints how often.
func attacker(dir string) error {
	const targets = 64 // as many as a request may have
	var worst [][]string
	for _, target := range []string{
		"uprobe:" + dir + "/many/*:f", "uprobe:" + dir + "/big:cpp:*z*", "uprobe:" + dir + "/big:nosuch",
		"usdt:" + dir + "/many/*:n",
	} {
		worst = append(worst, slices.Repeat([]string{fmt.Sprintf("%s pid=%d", target, os.Getpid())}, targets))
	}
	var asked atomic.Int64
	var failed atomic.Pointer[error]
	for i := range connections {
		go func() {
			c, err := broker.Dial(filepath.Join(dir, "socket"))
			if err != nil {
				failed.Store(&err)
				return
			}
			for k := i; ; k++ {
				if a, err := c.Attach(broker.Request{Offer: "count", Targets: worst[k%len(worst)]}); err == nil {
					a.Close()
				}
				asked.Add(1)
			}
		}()
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Println(asked.Load())
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
