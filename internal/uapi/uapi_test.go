package uapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/uapi"
)

func ExampleLookup() {
	for _, arch := range []string{"amd64", "arm64"} {
		v, ok := uapi.Lookup(arch, "O_DIRECT")
		fmt.Println(arch, v, ok)
	}
	_, ok := uapi.Lookup("amd64", "EAGIAN")
	fmt.Println(ok, uapi.Near("EAGIAN"))
	// Output:
	// amd64 16384 true
	// arm64 65536 true
	// false ; did you mean "EAGAIN"?
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		arch, name string
		want       int64
	}{
		{"amd64", "AF_INET", 2},
		{"amd64", "AF_INET6", 10},
		{"amd64", "TASK_RUNNING", 0},
		{"amd64", "ENOENT", 2},
		{"amd64", "EDEADLOCK", 35},
		{"ppc64le", "EDEADLOCK", 58},
		{"amd64", "O_DIRECTORY", 0o200000},
		{"arm64", "O_DIRECTORY", 0o40000},
		{"riscv64", "O_DIRECTORY", 0o200000},
		{"loong64", "O_LARGEFILE", 0o100000},
		{"amd64", "O_LARGEFILE", 0o100000}, // the C library says 0
		{"amd64", "S_IFREG", 0o100000},
		{"amd64", "DT_REG", 8},
		{"arm64", "ICMPV6_ECHO_REQUEST", 128},
		{"arm64", "ICMP_ECHO", 8},
		{"amd64", "IPPROTO_ICMPV6", 58},
		{"amd64", "TCP_CLOSE", 7},
		{"amd64", "AT_FDCWD", -100},
		{"amd64", "RLIM_INFINITY", -1},
		{"amd64", "EPOLLET", 1 << 31},
		{"amd64", "SIGKILL", 9},
		{"amd64", "SIGRTMIN", 32},
		{"amd64", "MAP_FIXED_NOREPLACE", 0x100000},
		{"amd64", "BPF_JMP32", 6},
		{"amd64", "PROC_SUPER_MAGIC", 0x9fa0},
	} {
		got, ok := uapi.Lookup(c.arch, c.name)
		if !ok || got != c.want {
			t.Errorf("%s on %s is %d, %v, want %d", c.name, c.arch, got, ok, c.want)
		}
	}
	for _, c := range [][2]string{
		{"arm64", "MAP_32BIT"},
		{"amd64", "PROT_BTI"},
		{"amd64", ""},
		{"amd64", "="},
		{"amd64", "ENOENT=2"},
		{"amd64", "ENO"},
		{"s390x", "ENOENT"},
		{"", "ENOENT"},
		{"amd64", "A"},
		{"amd64", "~"},
		{"amd64", "CAP_LAST_CAP"},
		{"amd64", "\n"},
	} {
		if v, ok := uapi.Lookup(c[0], c[1]); ok {
			t.Errorf("%s on %s is %d", c[1], c[0], v)
		}
	}
}

// TestScripts: what the scripts that people have take from headers.
func TestScripts(t *testing.T) {
	for name := range strings.FieldsSeq(`AF_UNSPEC AF_UNIX AF_INET AF_INET6 DT_FIFO DT_REG O_DSYNC TASK_RUNNING IPPROTO_ICMPV6
		ICMP_ECHO ICMP_ECHOREPLY ICMPV6_ECHO_REQUEST ICMPV6_ECHO_REPLY EPERM EINTR EAGAIN ENOMEM EACCES EFAULT EINVAL ENFILE
		EMFILE EBADF EPROTO ENOTSOCK EPROTOTYPE EOPNOTSUPP EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETUNREACH ECONNABORTED
		ENOBUFS EISCONN ETIMEDOUT ECONNREFUSED EALREADY EINPROGRESS TCP_ESTABLISHED TCP_SYN_SENT TCP_SYN_RECV TCP_FIN_WAIT1
		TCP_LAST_ACK IPPROTO_IP IPPROTO_ICMP IPPROTO_TCP IPPROTO_UDP`) {
		for _, arch := range uapi.Arches() {
			if _, ok := uapi.Lookup(arch, name); !ok {
				t.Errorf("there is no %s on %s", name, arch)
			}
		}
	}
}

// TestNames: sorted, each once, each with a value somewhere.
func TestNames(t *testing.T) {
	names := slices.Collect(uapi.Names())
	if len(names) < 2500 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%d names", len(names))
	}
	for _, name := range names {
		if !slices.ContainsFunc(uapi.Arches(), func(arch string) bool { _, ok := uapi.Lookup(arch, name); return ok }) {
			t.Errorf("%s has no value", name)
		}
	}
	for range uapi.Names() {
		break
	}
}

// TestAllocations: a look-up needs no memory.
func TestAllocations(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { uapi.Lookup("arm64", "O_DIRECT"); uapi.Lookup("arm64", "NOTHING") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzLookup: what is found is among the names, and what is among them is found.
func FuzzLookup(f *testing.F) {
	f.Add("amd64", "ENOENT")
	f.Add("arm64", "O_DIRECT")
	f.Add("riscv64", "ENOENT=2\n")
	names := map[string]bool{}
	for name := range uapi.Names() {
		names[name] = true
	}
	f.Fuzz(func(t *testing.T, arch, name string) {
		_, ok := uapi.Lookup(arch, name)
		if ok && !names[name] {
			t.Errorf("%q was found", name)
		}
		if !ok && names[name] && arch == "amd64" && !strings.HasPrefix(name, "AT_") && !strings.HasPrefix(name, "PTRACE_") &&
			!strings.HasPrefix(name, "PROT_") && !strings.HasPrefix(name, "MAP_") {
			t.Errorf("%q was not found", name)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		uapi.Lookup("arm64", "O_DIRECT")
	}
}
