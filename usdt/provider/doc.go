// Package provider defines USDT probes in a running Go program: probes that
// bpftrace, BCC, perf, SystemTap, gdb and this module can attach to, without
// cgo, a compiler, or files beside the program.
//
//	p, err := provider.New("myapp")
//	if err != nil {
//		return err
//	}
//	request := p.Probe("request", arg.Int64, arg.String)
//	if err := p.Load(); err != nil {
//		return err
//	}
//	defer p.Unload()
//	…
//	if request.Enabled() {
//		request.Fire(id, path)
//	}
//
// and, while it runs,
//
//	bpftrace -p PID -e 'usdt::myapp:request { printf("%d %s\n", arg0, str(arg1, arg2)) }'
//
// Load writes a small shared object with the probes' notes, symbols, nops and semaphores to an
// anonymous file (memfd) and maps it, as libstapsdt does for C. A tracer finds it in
// /proc/PID/maps and /proc/PID/fd. Tracers that can't follow an anonymous file need LoadFile.
// The mapping is never writable and executable at once, so it works under systemd's
// MemoryDenyWriteExecute.
//
// Enabled costs less than a nanosecond while no tracer is attached. Firing a traced probe costs
// the kernel's trap, about half a microsecond, of which this package's part is a small
// fraction. Neither allocates, except for a CString's copy. See the benchmarks.
//
// Probes are safe for concurrent use, and Unload is safe while they fire and while they are
// traced. Several providers may be loaded in a process. Loading needs no privileges. Linux on
// amd64 and arm64 is supported. Elsewhere Load returns an *UnsupportedError and Enabled stays
// false, so that instrumented code is the same everywhere.
//
// Probes loaded by one process are visible in that process only (the semaphore and the file are
// its own). For probes in a program's file see package static.
package provider
