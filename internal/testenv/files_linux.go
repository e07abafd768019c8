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

// openFiles returns this process's descriptors: the number, and what it refers to, with the id
// of BPF objects, which is not part of the link's text.
func openFiles() map[string]string { return filesOf("self") }

func filesOf(pid string) map[string]string {
	dir := "/proc/" + pid + "/fd"
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	files := make(map[string]string, len(es))
	for _, e := range es {
		// The descriptor with which the directory was listed is closed by now.
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

// bpfID returns "prog_id 17" for the descriptor of a BPF program, and so on, from fdinfo
// (bpf_prog_show_fdinfo and similar functions in kernel/bpf/syscall.c).
func bpfID(pid, fd string) string {
	f, err := os.Open("/proc/" + pid + "/fdinfo/" + fd)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		key, value, ok := strings.Cut(sc.Text(), ":\t")
		// A link's fdinfo also contains the prog_id of its program, after the link's own id.
		if ok && (key == "prog_id" || key == "map_id" || key == "link_id") {
			return key + " " + value
		}
	}
	return ""
}

// watched records the test in which a descriptor appeared.
var watched struct {
	mu   sync.Mutex
	seen map[string]string // "FD WHAT" to "TestX (file:line)"
}

// watch records the descriptors that are open at the end of the test and were not at its
// start. Its cleanup is registered first, so it runs after the test's own.
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
