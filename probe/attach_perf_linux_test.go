package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/caps"
)

// TestLoadRefused: without capabilities, behind a seccomp filter and out of
// descriptors, errors of loading said that MEMLOCK may be too low, or showed BTF.
func TestLoadRefused(t *testing.T) {
	if how := os.Getenv("PROBE_TEST_REFUSED"); how != "" {
		loadRefused(t, how)
		return
	}
	if testenv.InGuest() {
		return // a process takes a quarter of a minute there, and refusals are the same
	}
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	self := filepath.Join(dir, "self")
	copyFile(t, self, os.Args[0])
	for _, c := range []struct {
		how  string
		user uint32
		caps []uintptr
	}{
		{how: "nothing", user: 65534},
		{how: "bpf only", user: 65534, caps: []uintptr{uintptr(caps.Names["CAP_BPF"])}},
		{how: "files"},
		{how: "seccomp"},
	} {
		t.Run(c.how, func(t *testing.T) {
			cmd := testenv.Command(t, self, "-test.run=^TestLoadRefused$")
			cmd.Env = append(os.Environ(), "PROBE_TEST_REFUSED="+c.how)
			cmd.Dir = "/"
			if c.user != 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}, AmbientCaps: c.caps}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func loadRefused(t *testing.T, how string) {
	want, is := "needs CAP_BPF and CAP_PERFMON", error(syscall.EPERM)
	switch how {
	case "bpf only":
		want = "needs CAP_PERFMON"
	case "files":
		want, is = "out of file descriptors: raise RLIMIT_NOFILE", syscall.EMFILE
		if _, err := ebpf.PossibleCPU(); err != nil { // which opens a file
			t.Fatal(err)
		}
		exhaustFiles(t)
	case "seccomp":
		want = "a seccomp filter is active in this process"
		refuseBPF(t)
	}
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{"m": {Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
		Programs: map[string]*ebpf.ProgramSpec{"p": {
			Type: ebpf.TracePoint, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		}},
	}
	coll, err := LoadCollection(spec, ebpf.CollectionOptions{})
	if err == nil {
		coll.Close()
		t.Fatal("it was loaded")
	}
	var refused *feature.RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, is) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "MEMLOCK") {
		t.Errorf("%v, want %s", err, want)
	}
}

// exhaustFiles takes all descriptors that this process may have.
func exhaustFiles(t *testing.T) {
	for {
		switch fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0); {
		case err == syscall.EMFILE:
			return
		case err != nil:
			t.Fatal(err)
		case fd == 64:
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 65, Max: 65}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refuseBPF has bpf(2) fail with EPERM in this process, as container runtimes do.
func refuseBPF(t *testing.T) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // struct seccomp_data's nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_BPF, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		testenv.Need(t, testenv.Got("seccomp", errno, "invalid argument"))
	}
}
