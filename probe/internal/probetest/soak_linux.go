package probetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/tracefs"
)

// SoakLength returns how long tests run that attach and detach at random: PROBE_SOAK, as in
// PROBE_SOAK=30m, or one second if it is not set. Tests of more than three seconds need a
// guest:
//
//	go run ./internal/vmtest -kernel 7.2 -env PROBE_SOAK=30m -timeout 2h -run '^TestSoak' ./probe ./probe/deploy
func SoakLength(t testing.TB) time.Duration {
	t.Helper()
	s := os.Getenv("PROBE_SOAK")
	if s == "" {
		return time.Second
	}
	length, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	if length > 3*time.Second {
		testenv.Need(t, testenv.Guest)
	}
	return length
}

// Soak is a test that does random steps under load, and checks that they leave nothing behind.
type Soak struct {
	T *testing.T
	// W is the workload that steps count exactly, one step at a time. Another process runs the
	// same file.
	W *Workload
	// Rnd is the source of randomness.
	Rnd   *rand.Rand
	steps []soakStep
}

type soakStep struct {
	name string
	run  func()
}

// NewSoak starts a soak test.
func NewSoak(t *testing.T) *Soak {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tracefs)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &Soak{T: t, W: StartOwn(t), Rnd: rand.New(rand.NewPCG(seed, 1))}
}

// Add adds a step, unless this kernel lacks a feature that it needs.
func (s *Soak) Add(name string, run func(), needs ...feature.Feature) {
	for _, f := range needs {
		if feature.Test(f) != nil {
			return
		}
	}
	s.steps = append(s.steps, soakStep{name, run})
}

// Run does steps until the time is up, on a busy machine. It checks that they leave no
// descriptors, tracefs events or memory behind.
func (s *Soak) Run() {
	t := s.T
	length := SoakLength(t)
	// This process is hit by probes without a pid.
	stop := StartCommand(t, testenv.Command(t, s.W.Path())).KeepBusy()
	defer stop()
	for _, step := range s.steps { // each step once, so that what stays open is open before the count
		t.Logf("kind: %s", step.name)
		step.run()
	}
	fds, heap := OpenFiles(t), heapInUse()
	t.Logf("at the beginning: %d descriptors, %d KiB of heap; kernel: %s", fds, heap>>10,
		kernelMemory())
	rounds := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); {
		step := s.steps[s.Rnd.IntN(len(s.steps))]
		step.run()
		rounds[step.name]++
	}
	t.Logf("rounds: %v", rounds)
	fdsNow, heapNow := OpenFiles(t), heapInUse()
	t.Logf("at the end: %d descriptors, %d KiB of heap; kernel: %s", fdsNow, heapNow>>10,
		kernelMemory())
	if fdsNow > fds {
		t.Errorf("%d descriptors, %d at the beginning", fdsNow, fds)
	}
	if heapNow > heap+16<<20 {
		t.Errorf("%d bytes of heap, %d at the beginning", heapNow, heap)
	}
	expectNoTracefsEvents(t)
}

// OpenFiles returns the number of this process's open descriptors.
func OpenFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what finalizers released
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// kernelMemory returns the kernel's own use of memory. Other processes change it too, so it is
// logged, to be compared over a long run on a machine of its own.
func kernelMemory() string {
	b, _ := os.ReadFile("/proc/meminfo")
	var out []string
	for line := range strings.Lines(string(b)) {
		if name, _, _ := strings.Cut(line, ":"); name == "SUnreclaim" || name == "VmallocUsed" ||
			name == "Percpu" {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}

// expectNoTracefsEvents checks that no tracefs events of this process are left.
func expectNoTracefsEvents(t *testing.T) {
	t.Helper()
	dir := testenv.TracefsDir(t)
	for _, name := range []string{"kprobe_events", "uprobe_events"} {
		b, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			continue // this kernel has no such events
		}
		if own := fmt.Sprintf(":%s/p%d_", tracefs.Group, os.Getpid()); strings.Contains(string(b), own) {
			t.Errorf("%s holds\n%s", name, b)
		}
	}
}
