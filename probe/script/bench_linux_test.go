package script_test

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

// openScript follows files that are opened: as long as scripts that people use, with types of the
// kernel.
const openScript = `begin { printf("%-8s %-16s %4s %s\n", "PID", "COMM", "FD", "PATH"); }
tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat { @path[tid] = args.filename; }
tracepoint:syscalls:sys_exit_open, tracepoint:syscalls:sys_exit_openat /@path[tid]/ {
  $fd = args.ret >= 0 ? args.ret : -1;
  if (curtask->nsproxy->pid_ns_for_children->level == 0) {
    printf("%-8d %-16s %4d %s\n", pid, comm, $fd, str(@path[tid]));
  } else {
    @inside[curtask->fs->pwd.dentry->d_name.len, comm] = count();
  }
  delete(@path[tid]);
}
end { clear(@path); }`

// BenchmarkCompile compiles a script, with a System and an Env that have read nothing.
func BenchmarkCompile(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Tracefs, testenv.BTF)
	for b.Loop() {
		if _, err := script.Compile("stdin", openScript, nil); err != nil {
			b.Fatal(err)
		}
	}
}
