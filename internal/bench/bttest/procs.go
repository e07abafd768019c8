package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The suite looks processes up by name. These programs, in the PATH of its cases, look only at those that
// the run has started: rootVar is the process that they all descend from.
var shims = []string{"pidof", "pkill"}

const rootVar = "BTTEST_ROOT"

// shim is pidof or pkill, and returns the exit status.
func shim(name string, args []string) int {
	root, _ := strconv.Atoi(os.Getenv(rootVar))
	signal := unix.SIGTERM
	var names []string
	for _, a := range args {
		if s, ok := strings.CutPrefix(a, "-"); ok {
			signal = unix.SignalNum("SIG" + strings.TrimPrefix(s, "SIG"))
			continue
		}
		names = append(names, a)
	}
	status := 1
	var found []string
	for _, p := range slices.Backward(descendants(root)) {
		if p.pid == os.Getpid() || !slices.ContainsFunc(names, func(n string) bool { return p.named(name, n) }) {
			continue
		}
		status = 0
		found = append(found, strconv.Itoa(p.pid))
		if name == "pkill" {
			unix.Kill(p.pid, signal)
		}
	}
	if name == "pidof" && status == 0 {
		fmt.Println(strings.Join(found, " "))
	}
	return status
}

// process is a line of the table of processes.
type process struct {
	pid, parent int
	comm        string
}

// named reports whether a command looks for the process by this name.
func (p process) named(command, name string) bool {
	if command == "pkill" {
		ok, err := regexp.MatchString(name, p.comm)
		return ok && err == nil
	}
	return p.comm == cut(filepath.Base(name))
}

// cut cuts a name to what the kernel keeps of it.
func cut(name string) string { return name[:min(len(name), 15)] }

// processes returns all processes, in the order of their numbers.
func processes() []process {
	dirs, _ := os.ReadDir("/proc")
	var all []process
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		start, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || start < 0 || end < start {
			continue
		}
		fields := strings.Fields(string(stat[end+1:])) // the state, the parent
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, process{pid: pid, parent: parent, comm: string(stat[start+1 : end])})
	}
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	return all
}

// descendants returns the children of a process, theirs, and so on.
func descendants(root int) []process {
	all := processes()
	in := map[int]bool{root: true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if in[p.parent] && !in[p.pid] {
				in[p.pid], more = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !in[p.pid] || p.pid == root })
}

// adopt has processes whose parents end become children of this one, so that none is lost.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killAll ends all descendants. Nothing else may wait for them.
func killAll() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		rest := descendants(os.Getpid())
		for _, p := range rest {
			unix.Kill(p.pid, unix.SIGKILL)
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
		if len(rest) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d (%s) does not end", rest[0].pid, rest[0].comm)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// eventually waits for a condition.
func eventually(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
