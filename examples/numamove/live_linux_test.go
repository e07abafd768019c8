package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// pages is how many pages of memory the child has on the wrong node.
const pages = 23

func TestMain(m *testing.M) { tooltest.Main(m, map[string]func(){"move": move}) }

// move fills pages on node 0 and uses them on a CPU of node 1 until they are there.
func move() {
	size := pages * os.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	syscall.Madvise(mem, syscall.MADV_NOHUGEPAGE)
	use := func() {
		for i := 0; i < size; i += os.Getpagesize() {
			mem[i]++
		}
	}
	var cpus unix.CPUSet
	cpus.Set(1)
	node0 := uint64(1)
	_, _, errno := syscall.Syscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_BIND, uintptr(unsafe.Pointer(&node0)), 64)
	use()
	_, _, errno2 := syscall.Syscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_DEFAULT, 0, 0)
	if errno != 0 || errno2 != 0 {
		panic(errors.Join(errno, errno2))
	}
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		panic(err)
	}
	for !moved(uintptr(unsafe.Pointer(&mem[0]))) {
		for range 100_000 {
			use()
		}
	}
}

// moved says whether all pages of the mapping at an address are on node 1.
func moved(addr uintptr) bool {
	f, err := os.Open("/proc/self/numa_maps")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), fmt.Sprintf("%08x ", addr)) {
			return strings.Contains(sc.Text()+" ", fmt.Sprintf(" N1=%d ", pages))
		}
	}
	panic("the mapping is not in numa_maps")
}

// hurry has the kernel look for pages to move soon, if it lets itself be told so.
func hurry() {
	for _, name := range []string{"scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms"} {
		for _, dir := range []string{"/sys/kernel/debug/sched/numa_balancing/", "/proc/sys/kernel/numa_balancing_"} {
			os.WriteFile(dir+name, []byte("50"), 0)
		}
	}
}

func vmstat(t *testing.T, name string) (n int) {
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(b), "\n"+name+" ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("%s in /proc/vmstat: %v", name, err)
	}
	return n
}

// 23 pages that are used on another node than theirs are 23 moves, and as many in
// the kernel's own count; what it tries for others in that time comes on top.
func TestLive(t *testing.T) {
	_, err := os.Stat("/sys/devices/system/node/node1/cpu1")
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Got("second NUMA node", err))
	hurry()
	child := tooltest.Start(t, "move")
	before, faults := vmstat(t, "numa_pages_migrated"), vmstat(t, "numa_hint_faults")
	out := tooltest.Live(t, run, []string{"-json", "3600"}, child.Work)
	var n, msecs int
	for _, r := range tooltest.Objects[struct {
		Moves int `json:"numa_migrations"`
		Msecs int `json:"numa_migrations_ms"`
	}](t, out) {
		n, msecs = n+r.Moves, msecs+r.Msecs
	}
	migrated, faults := vmstat(t, "numa_pages_migrated")-before, vmstat(t, "numa_hint_faults")-faults
	if n < pages || migrated < pages || n > faults {
		t.Errorf("%d moves of %d, in %d ms; the kernel counts %d pages and %d faults:\n%s", n, pages, msecs, migrated, faults, out)
	}
}
