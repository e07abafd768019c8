package system_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

var flagKernels = flag.String("kernels", "",
	"make testdata/kernels anew of the kernels in this `directory`, as vmtest keeps them")

// recorded are the kernels whose types are kept, and how many functions with names of the
// language they have at least.
var recorded = map[string]int{"5.10": 0, "6.1": 3, "6.12": 3, "6.18": 3, "7.2": 3}

// namesakes are the functions of the language that kernels have, too.
var namesakes = []string{
	"cat", "clear", "join", "len", "memcmp", "path", "print", "str", "strlen", "strncmp", "strstr",
	"system", "time", "zero", "delete", "find", "count", "min", "max", "hist", "buf", "signal",
}

// realScripts use the functions that have namesakes, and types that the kernels have.
var realScripts = map[string]string{
	"execs": `tracepoint:syscalls:sys_enter_execve {
	printf("%-6d %s ", pid, comm); join(args.argv);
}
kprobe:vfs_read /strlen(comm) > 2 && strncmp(comm, "sh", 2) == 0/ { @[strcontains(comm, "h")] = count(); }
end { clear(@); time("%H"); }`,
	"tasks": `fentry:vfs_read {
	$t = curtask; @[$t.comm, $t.pid, args.count] = max(offsetof(task_struct, pid));
	if ((comm, pid) == ("a", (uint32)1)) { print(strstr(comm, "a")); }
	@len = len(@); delete(@, ("a", 1, 1)); @state = TCP_LISTEN;
}`,
	"reads": `fexit:vfs_re* { @ = retval; $n = is_err(retval); @name = args.file.f_flags; }`,
}

// TestRealKernels types scripts with parts of real kernels' BTF. A kernel of a few made types
// did not show that join, strlen and others were refused where the kernel has functions of
// these names.
func TestRealKernels(t *testing.T) {
	for version, least := range recorded {
		t.Run(version, func(t *testing.T) {
			file := filepath.Join("testdata", "kernels", version+".btf")
			if *flagKernels != "" {
				record(t, version, file)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			const format = `name: sys_enter_execve
ID: 7
format:
	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:const char * filename;	offset:16;	size:8;	signed:0;
	field:const char *const * argv;	offset:24;	size:8;	signed:0;
`
			s := system.New(probe.NewEnv(&probe.EnvOptions{
				Root: fstest.MapFS{
					"sys/kernel/btf/vmlinux": {Data: raw},
					"sys/kernel/tracing/events/syscalls/sys_enter_execve/format": {Data: []byte(format)},
				}, Release: version + ".0", Arch: "amd64",
			}), nil)
			for name, text := range realScripts {
				if _, err := check(t, s, text); err != nil {
					t.Errorf("%s: %s", name, syntax.ErrorText(err))
				}
			}
			shared := 0
			for _, name := range namesakes {
				if s.Func(name) != nil {
					shared++
				}
			}
			if shared < least {
				t.Errorf("the types have %d functions with names of the language", shared)
			}
			if _, err := check(t, s, `begin { schedule(); }`); err == nil ||
				!strings.Contains(err.Error(), "Unsupported function linkage") {
				t.Errorf("a static function: error is %v", err)
			}
		})
	}
}

// record extracts what the scripts need of a kernel's types.
func record(t *testing.T, version, file string) {
	t.Helper()
	dir := filepath.Join(*flagKernels, version+"-amd64", "root")
	var found []string
	for _, pattern := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz"} {
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list...)
	}
	if len(found) == 0 {
		t.Fatalf("%s has no kernel", dir)
	}
	image, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := kernel.BTF(image)
	if err != nil {
		t.Fatal(err)
	}
	small, err := env.MinimalBTF(raw, &env.BTFNeeds{
		Types:       []string{"task_struct", "file", "size_t"},
		Funcs:       append([]string{"vfs_read", "vfs_readv", "schedule"}, namesakes...),
		Members:     []string{"comm", "pid", "f_flags"},
		Enumerators: []string{"TCP_LISTEN"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, small, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes of %d", version, len(small), len(raw))
}
