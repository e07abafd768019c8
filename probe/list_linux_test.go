package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

func collect(t testing.TB, pattern string, o *ListOptions) []Match {
	t.Helper()
	seq, errOf := List(pattern, o)
	out := slices.Collect(seq)
	if err := errOf(); err != nil {
		t.Fatal(err)
	}
	return out
}

func names(list []Match) []string {
	var out []string
	for _, l := range list {
		out = append(out, l.Target.String())
	}
	return out
}

// TestListUser: paths are listed as they are given.
func TestListUser(t *testing.T) {
	abs := probetest.TargetPath()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(wd, abs)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{abs, rel, "./" + rel, filepath.Dir(rel) + "/../testdata/*-" + runtime.GOARCH} {
		got := names(collect(t, "uprobe:"+path+":helper_*", nil))
		path = strings.ReplaceAll(path, "../testdata/*", "../testdata/target")
		want := []string{"uprobe:" + path + ":helper_one", "uprobe:" + path + ":helper_two"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	typed := collect(t, "uprobe:"+abs+":add", &ListOptions{Args: true})
	if len(typed) != 1 || !strings.HasSuffix(typed[0].String(), ":add\n    long a\n    int b\n    unsigned char c\n    const char* s") {
		t.Errorf("got %v", typed)
	}
	list := collect(t, "usdt:"+probetest.TargetPath(), &ListOptions{Args: true})
	if len(list) != 2 || len(list[0].Args) != 2 {
		t.Errorf("got %v", list)
	}
}

// TestListTracepoints compares with what is in the directory.
func TestListTracepoints(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	dirs, err := filepath.Glob(testenv.TracefsDir(t) + "/events/syscalls/sys_enter_*")
	if err != nil {
		t.Fatal(err)
	}
	list := collect(t, "tracepoint:syscalls:sys_enter_*", &ListOptions{Args: true})
	if len(list) != len(dirs) || len(dirs) == 0 {
		t.Errorf("listed %d, there are %d", len(list), len(dirs))
	}
	i := slices.IndexFunc(list, func(l Match) bool { return l.Target.(Tracepoint).Name == "sys_enter_openat" })
	want := "tracepoint:syscalls:sys_enter_openat\n    int __syscall_nr\n    int dfd\n    const char *filename\n    int flags\n    umode_t mode"
	if i < 0 || !strings.HasPrefix(list[i].String(), want) { // 7.2 adds __filename_val
		t.Errorf("openat: %v", list[i])
	}
	// Breaking off is no error.
	seq, errOf := List("tracepoint:*:*", nil)
	for range seq {
		break
	}
	if err := errOf(); err != nil {
		t.Error(err)
	}
}

func TestListKernel(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes, testenv.Tracefs)
	list := collect(t, "kprobe:ksys_*", &ListOptions{Args: true})
	i := slices.IndexFunc(list, func(l Match) bool { return l.Target == Kprobe{Symbol: "ksys_write"} })
	if i < 0 {
		t.Fatalf("no ksys_write among %v", names(list))
	}
	want := "kprobe:ksys_write\n    unsigned int fd\n    const char *buf\n    size_t count"
	if list[i].String() != want {
		t.Errorf("got %s", list[i])
	}
	if list[i].Reason != "" {
		t.Errorf("not by the kernel's list: %s", list[i].Reason)
	}
	b, err := os.ReadFile(testenv.TracefsDir(t) + "/available_filter_functions")
	if err != nil {
		t.Fatal(err)
	}
	all := collect(t, "kprobe:*", nil)
	if have := strings.Count(string(b), "\n"); len(all) > have || len(all) < have*9/10 {
		t.Errorf("%d functions of %d", len(all), have)
	}
}

func TestListBTF(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	got := names(collect(t, "iter:task*", nil))
	if !slices.Contains(got, "iter:task") || !slices.Contains(got, "iter:task_file") {
		t.Errorf("iterators: %q", got)
	}
	raw := collect(t, "rawtracepoint:sched_switch", &ListOptions{Args: true})
	if len(raw) != 1 || !strings.Contains(raw[0].String(), "struct task_struct *") {
		t.Errorf("got %v", raw)
	}
}

func TestListEvents(t *testing.T) {
	got := names(collect(t, "software:page*", nil))
	if !slices.Equal(got, []string{"software:page-faults:100"}) {
		t.Errorf("got %q", got)
	}
}

func BenchmarkListKernel(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Kprobes, testenv.Tracefs)
	for b.Loop() {
		seq, errOf := List("kprobe:*", nil)
		n := 0
		for range seq {
			n++
		}
		if err := errOf(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n), "functions")
	}
}
