package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	capspkg "github.com/borescope/borescope/probe/internal/caps"
	"github.com/borescope/borescope/probe/internal/probetest"
)

func TestRequires(t *testing.T) {
	env := probetest.Env(t, feature.Fentry)
	var names, missing []string
	for _, r := range Requires(env, []Target{Fentry{Symbol: "vfs_read"}, Tracepoint{Group: "sched", Name: "sched_switch"}, SocketFilter{Interface: "lo"}}) {
		names = append(names, r.Name)
		if !r.Met() {
			missing = append(missing, r.String())
		}
	}
	want := []string{"CAP_BPF", "CAP_PERFMON", "fentry", "/sys/kernel/tracing", "CAP_DAC_READ_SEARCH", "CAP_NET_RAW"}
	if !slices.Equal(names, want) {
		t.Errorf("requires %q", names)
	}
	if !slices.Equal(missing, []string{"feature fentry (the target's kind): CONFIG_EXAMPLE is not set"}) {
		t.Errorf("missing %q", missing)
	}
	if testenv.InGuest() || os.Geteuid() == 0 {
		for _, r := range Requires(nil, []Target{Perf{Freq: 9}, Begin{}}) {
			if !r.Met() {
				t.Errorf("root lacks %s", r)
			}
		}
	}
}

// TestExactCapabilities attaches each kind as another user who holds exactly
// the capabilities that Requires names, and none but the first fails.
func TestExactCapabilities(t *testing.T) {
	if target := os.Getenv("PROBE_TEST_TARGET"); target != "" {
		attachOnly(t, target)
		return
	}
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Perf, testenv.Tracefs)
	// The other user must be able to run this binary and read the target.
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err == nil && st.Mode()&1 == 0 && strings.HasPrefix(d, os.TempDir()+"/") {
			os.Chmod(d, 0o755)
		}
	}
	self, target := filepath.Join(dir, "self"), filepath.Join(dir, "target")
	copyFile(t, self, os.Args[0])
	copyFile(t, target, probetest.TargetPath())
	kinds := []string{
		"profile:hz:49", "rawtracepoint:sys_enter", "uprobe:" + target + ":add", "usdt:" + target + ":twice",
		"uprobe:" + target + ":helper_*", "tracepoint:sched:sched_switch", "socket:lo", "begin", "kprobe:ksys_write",
		"fentry:ksys_write", "kprobe:ksys_w*,kprobe:ksys_r*",
	}
	// Kinds whose programs are loaded and attached as those of one above: in guests,
	// which are slow, only those that other machines lack.
	alike := []string{"fexit:ksys_write", "lsm:file_open"}
	if !testenv.InGuest() {
		alike = append(alike, "uretprobe:"+target+":add", "interval:s:1", "software:page-faults:100", "kretprobe:ksys_write",
			fmt.Sprintf("watchpoint:0x10000:8:w pid=%d", os.Getpid()), "iter:task", "end", "fmod_ret:security_file_open")
	}
	for i, text := range append(kinds, alike...) {
		t.Run(text, func(t *testing.T) {
			var caps []uintptr
			for _, r := range Requires(nil, []Target{mustParse(t, text)}) {
				if r.Kind == "feature" && !r.Met() {
					t.Skip(testenv.SkipPrefix + r.String())
				}
				if r.Kind == "capability" {
					caps = append(caps, uintptr(capspkg.Names[r.Name]))
				}
			}
			out, err := runWith(t, self, text, caps)
			if err != nil {
				t.Errorf("with what Requires says: %v\n%s", err, out)
			}
			if i >= len(kinds) && testenv.InGuest() {
				return
			}
			if out, err := runWith(t, self, text, nil); err == nil {
				t.Errorf("without any capability it works all the same:\n%s", out)
			}
		})
	}
}

// runWith runs the test binary as nobody with the capabilities.
func runWith(t *testing.T, self, target string, caps []uintptr) ([]byte, error) {
	cmd := testenv.Command(t, self, "-test.run=^TestExactCapabilities$")
	cmd.Env = append(os.Environ(), "PROBE_TEST_TARGET="+target)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
	return cmd.CombinedOutput()
}

func attachOnly(t *testing.T, text string) {
	runtime.LockOSThread()
	plan, err := Resolve(nil, []Target{mustParse(t, text)}, &Options{NoTypes: true})
	if err != nil {
		t.Fatal(err)
	}
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestRequiresUnasked: without any capability the kernel can't be asked whether it
// has uprobe-multi links, and CAP_SYS_ADMIN was named where CAP_BPF and CAP_PERFMON
// are enough.
func TestRequiresUnasked(t *testing.T) {
	if os.Getenv("PROBE_TEST_REQUIRES") != "" {
		for _, r := range Requires(nil, []Target{Uprobe{Path: "/proc/self/exe", Symbol: "main"}}) {
			fmt.Println(r.Name)
		}
		return
	}
	if testenv.InGuest() || capspkg.Paranoid(NewEnv(nil)) > 2 {
		return // guests are slow; and above 2 it is needed for perf events
	}
	testenv.Need(t, testenv.Root, testenv.Feature(feature.UprobeMulti))
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	self := filepath.Join(dir, "self")
	copyFile(t, self, os.Args[0])
	cmd := testenv.Command(t, self, "-test.run=^TestRequiresUnasked$")
	cmd.Env = append(os.Environ(), "PROBE_TEST_REQUIRES=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if names := strings.Fields(string(out)); err != nil || slices.Contains(names, "CAP_SYS_ADMIN") || !slices.Contains(names, "CAP_BPF") {
		t.Errorf("%v, requires %q", err, names)
	}
}
