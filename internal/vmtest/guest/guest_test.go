//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// TestMain lets this test binary play the jobs of the guests that TestGuest
// boots.
func TestMain(m *testing.M) {
	if role := os.Getenv("GUEST_ROLE"); role != "" {
		if err := play(role); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		return
	}
	testenv.Main(m)
}

// play does one thing that a job may do, most of them bad.
func play(role string) error {
	if !testenv.InGuest() {
		return errors.New("not in a guest: this would crash the machine")
	}
	switch role {
	case "good":
		fmt.Println("fine")
		return os.WriteFile("/out/result.txt", []byte("from the guest"), 0o644)
	case "disk":
		b, err := os.ReadFile("/dev/vda")
		if err == nil && !strings.HasPrefix(string(b), "on the disk") {
			err = fmt.Errorf("the disk holds %.20q", b)
		}
		return err
	case "loop":
		_, err := os.Stat("/sys/module/loop")
		return err
	case "cmdline":
		b, err := os.ReadFile("/proc/cmdline")
		if err == nil && (!strings.Contains(string(b), "nothing=else") || runtime.NumCPU() != 3) {
			err = fmt.Errorf("%d CPUs, arguments %s", runtime.NumCPU(), b)
		}
		return err
	case "fail":
		return fmt.Errorf("as told")
	case "panic":
		panic("as told")
	case "hang":
		time.Sleep(time.Hour)
	case "leave":
		return os.WriteFile("/sys/kernel/tracing/kprobe_events", []byte("p:left vfs_read\n"), 0o644)
	case "stand":
		// the kernel's message about a lost timer, and then nothing
		if err := os.WriteFile("/dev/kmsg", []byte("<0>rcu: \tPossible timer handling issue on cpu=1 timer-softirq=1\n"), 0o200); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	case "crash":
		time.Sleep(100 * time.Millisecond)
		return os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0o200)
	}
	return fmt.Errorf("no role %q", role)
}

// TestGuest boots guests, which takes ten seconds and kernels from the
// network: so it only runs where it is asked for, as .ci/run does.
func TestGuest(t *testing.T) {
	if os.Getenv("BORESCOPE_VMTEST") == "" {
		t.Skip(testenv.SkipPrefix + "BORESCOPE_VMTEST: not set")
	}
	testenv.Need(t, testenv.Go)
	testenv.AllowMemory(t)
	k, err := kernel.Get("6.12", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "self")
	if err := BuildTest(self, ".", "amd64"); err != nil {
		t.Fatal(err)
	}
	t.Run("jobs", func(t *testing.T) { testJobs(t, k, self) })
	t.Run("crash", func(t *testing.T) { testCrash(t, k, self) })
	t.Run("stand", func(t *testing.T) { testStand(t, k, self) })
}

func options(k *kernel.Kernel, self string, roles ...string) Options {
	o := Options{Kernel: k, Files: map[string]string{"/bin/self": self}}
	for _, role := range roles {
		o.Jobs = append(o.Jobs, wire.Job{
			Name: role, Argv: []string{"/bin/self"}, Dir: "/root", Timeout: 3 * time.Second,
			Env: append(Environment(&o), "GUEST_ROLE="+role),
		})
	}
	return o
}

func testJobs(t *testing.T, k *kernel.Kernel, self string) {
	var log strings.Builder
	roles := []string{"good", "disk", "loop", "cmdline", "fail", "panic", "hang", "leave"}
	o := options(k, self, roles...)
	o.Log, o.Out, o.SMP, o.Append, o.Modules = &log, t.TempDir(), "3,maxcpus=8", "nothing=else", []string{"loop"}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, []byte("on the disk"+strings.Repeat("\x00", 1<<20-11)), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Disks = []string{disk}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trouble != "" || r.Release != k.Release || r.OK() {
		t.Errorf("release %q, trouble %q", r.Release, r.Trouble)
	}
	want := map[string]string{"fail": "exit:3", "panic": "exit:2", "hang": "timeout"}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		status := want[j.Name]
		if status == "" {
			status = "0"
		}
		if j.Status != status || j.OK() != (status == "0" && j.Name != "leave") {
			t.Errorf("%s: %+v", j.Name, *j)
		}
		if left := slices.ContainsFunc(j.Left, func(s string) bool { return strings.Contains(s, "vfs_read") }); left != (j.Name == "leave") {
			t.Errorf("%s left %v", j.Name, j.Left)
		}
	}
	if b, err := os.ReadFile(filepath.Join(o.Out, "result.txt")); string(b) != "from the guest" {
		t.Errorf("received %q, %v", b, err)
	}
	if !strings.Contains(log.String(), "fine\n") || !strings.Contains(log.String(), "goroutine") {
		t.Error("the guest's output was not streamed")
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

func testCrash(t *testing.T, k *kernel.Kernel, self string) {
	o := options(k, self, "crash", "good")
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() || r.Trouble == "" || r.Jobs[0].Status != "unfinished" || r.Jobs[1].Status != "unfinished" {
		t.Errorf("%+v", r)
	}
	t.Logf("trouble: %s", r.Trouble)
}

// testStand: a guest that stands is ended at once.
func testStand(t *testing.T, k *kernel.Kernel, self string) {
	o := options(k, self, "stand", "good")
	o.Jobs[0].Timeout = time.Minute
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Trouble, "on cpu=1") || r.OK() || r.Jobs[0].Status != "unfinished" {
		t.Errorf("%+v", r)
	}
}
