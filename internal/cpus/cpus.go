// Package cpus reads the kernel's CPU lists: "0-3,5".
//
// Online and possible CPUs differ (hot-plug, virtual machines that may grow,
// sparse numbering), and neither is runtime.NumCPU, which counts the CPUs that
// this process may run on. Per-CPU BPF maps have one slot for each possible
// CPU; perf events can be opened on online ones only.
package cpus

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Max bounds the CPU numbers that Parse accepts. Linux's largest NR_CPUS is 8192
// (arch/x86/Kconfig). A larger number means that the list is broken, and would cost unbounded
// memory.
const Max = 1 << 16

// Online returns the CPUs that are online, ascending, from sys/devices/system/cpu/online. A
// nil root means this machine.
func Online(root fs.FS) ([]int, error) { return read(root, "online") }

// Possible returns the CPUs that may ever be online, ascending, from
// sys/devices/system/cpu/possible. A nil root means this machine.
func Possible(root fs.FS) ([]int, error) { return read(root, "possible") }

func read(root fs.FS, name string) ([]int, error) {
	if root == nil {
		root = os.DirFS("/")
	}
	path := "sys/devices/system/cpu/" + name
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return nil, err
	}
	list, err := Parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no CPU", path)
	}
	return list, nil
}

// Parse parses a CPU list in the kernel's format (lib/vsprintf.c, "%*pbl"), which perf -C also
// uses: numbers and inclusive ranges, separated by commas. The result is ascending and without
// duplicates. An empty list is allowed, because the kernel writes one for no CPU.
func Parse(list string) ([]int, error) {
	list = strings.TrimSpace(list)
	if list == "" {
		return nil, nil
	}
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("CPU list %.60q: %w", list, err)
		}
		// Sorted and compacted, the list is at most Max long, however ranges overlap.
		for c := lo; c <= hi; c++ {
			out = append(out, c)
		}
		if len(out) > Max {
			slices.Sort(out)
			out = slices.Compact(out)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func parseRange(s string) (lo, hi int, err error) {
	first, last, isRange := strings.Cut(s, "-")
	if lo, err = number(first); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return lo, lo, nil
	}
	if hi, err = number(last); err != nil {
		return 0, 0, err
	}
	if hi < lo {
		return 0, 0, fmt.Errorf("range %q runs backwards", s)
	}
	return lo, hi, nil
}

func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n >= Max {
		return 0, fmt.Errorf("bad CPU %.20q: want numbers and ranges, as 0-3,5", s)
	}
	return int(n), nil
}

// Format formats a list as the kernel does: "0-3,5". The list must be ascending.
func Format(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}
