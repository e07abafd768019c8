package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/tracefs"
)

// left returns everything on this machine that a test could leave behind: mounts (which
// include named namespaces), control groups, pins, BPF objects, tracefs events and shared
// memory; and, of the step's own, temporary files and processes, which may hold namespaces.
func left(own place) map[string]bool {
	all := map[string]bool{}
	add := func(kind, what string) { all[kind+" "+what] = true }
	for _, m := range mountTable() {
		if m.fstype == "tracefs" && strings.HasSuffix(m.dir, "/debug/tracing") {
			continue // it is mounted automatically when accessed
		}
		add("mount", m.fstype+" on "+m.dir)
		switch m.fstype {
		case "cgroup", "cgroup2":
			walk(m.dir, func(path string, d fs.DirEntry) {
				if d.IsDir() && !ofSystemd(path) {
					add("cgroup", path)
				}
			})
		case "bpf":
			walk(m.dir, func(path string, d fs.DirEntry) { add("pin", path) })
		}
	}
	for kind, cmd := range map[string]int{
		"BPF program": unix.BPF_PROG_GET_NEXT_ID, "BPF map": unix.BPF_MAP_GET_NEXT_ID,
		"BPF link": unix.BPF_LINK_GET_NEXT_ID,
	} {
		for _, id := range bpfIDs(cmd) {
			add(kind, id)
		}
	}
	if d, err := tracefs.Here(); err == nil {
		for _, file := range []string{"kprobe_events", "uprobe_events", "dynamic_events"} {
			b, _ := os.ReadFile("/" + d.Path + "/" + file)
			for line := range strings.Lines(string(b)) {
				add("event", strings.TrimSpace(line))
			}
		}
		d.Close()
	}
	for _, dir := range []string{"/dev/shm", own.tmp} {
		es, _ := os.ReadDir(dir)
		for _, e := range es {
			add("file", filepath.Join(dir, e.Name()))
		}
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		if b, _ := os.ReadFile(file); bytes.Contains(b, []byte(markEnv+"="+own.mark+"\x00")) {
			dir := filepath.Dir(file)
			comm, _ := os.ReadFile(dir + "/comm")
			add("process", filepath.Base(dir)+" "+strings.TrimSpace(string(comm)))
		}
	}
	return all
}

type mounted struct{ dir, fstype string }

func mountTable() []mounted {
	b, _ := os.ReadFile("/proc/self/mounts")
	var ms []mounted
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 {
			ms = append(ms, mounted{f[1], f[2]})
		}
	}
	return ms
}

// walk visits everything below dir. It skips files that disappear meanwhile.
func walk(dir string, visit func(string, fs.DirEntry)) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			visit(path, d)
		}
		return nil
	})
}

// ofSystemd reports whether a cgroup comes and goes with services and logins.
func ofSystemd(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		switch filepath.Ext(name) {
		case ".slice", ".scope", ".service":
			return true
		}
	}
	return false
}

// bpfIDs gets one id after the other and opens no object: see existing in testenv.
func bpfIDs(cmd int) []string {
	var ids []string
	attr := struct{ start, next, flags uint32 }{}
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(unsafe.Pointer(&attr)),
			unsafe.Sizeof(attr))
		if errno != 0 {
			return ids
		}
		ids = append(ids, strconv.FormatUint(uint64(attr.next), 10))
		attr.start = attr.next
	}
}
