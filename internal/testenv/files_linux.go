package testenv

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// openFiles lists this process's descriptors: number to what it refers to,
// with the id for BPF objects, which their names do not hold.
func openFiles() map[string]string { return filesOf("self") }

func filesOf(pid string) map[string]string {
	dir := "/proc/" + pid + "/fd"
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	files := make(map[string]string, len(es))
	for _, e := range es {
		// The descriptor that listed the directory is gone by now.
		what, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if id := bpfID(pid, e.Name()); id != "" {
			what += " " + id
		}
		files[e.Name()] = what
	}
	return files
}

// bpfID is "prog_id 17" for a BPF program's descriptor, and so on, from
// fdinfo (bpf_prog_show_fdinfo and its like in kernel/bpf/syscall.c).
func bpfID(pid, fd string) string {
	f, err := os.Open("/proc/" + pid + "/fdinfo/" + fd)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		key, value, ok := strings.Cut(sc.Text(), ":\t")
		// A link's fdinfo also has the prog_id of its program; the link's own
		// id comes first.
		if ok && (key == "prog_id" || key == "map_id" || key == "link_id") {
			return key + " " + value
		}
	}
	return ""
}

// watched remembers in which test a descriptor appeared.
var watched struct {
	mu   sync.Mutex
	seen map[string]string // "FD WHAT" to "TestX (file:line)"
}

// watch notes the descriptors that the test has open at its end and had not at
// its beginning. Its cleanup is registered first, so it runs after the test's
// own.
func watch(t testing.TB) {
	before := openFiles()
	where := t.Name()
	if _, file, line, ok := runtime.Caller(2); ok {
		where += fmt.Sprintf(" (%s:%d)", filepath.Base(file), line)
	}
	t.Cleanup(func() {
		watched.mu.Lock()
		defer watched.mu.Unlock()
		for fd, what := range openFiles() {
			key := fd + " " + what
			if before[fd] == what || watched.seen[key] != "" {
				continue
			}
			if watched.seen == nil {
				watched.seen = map[string]string{}
			}
			watched.seen[key] = where
		}
	})
}

func appearedIn(key string) string {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	return watched.seen[key]
}
