// Package symbol names addresses: functions, source lines and inlined calls, of ELF files,
// Go programs, running processes, the kernel with its modules and BPF programs, and code
// that was generated at run time. It also finds the addresses of names.
//
//	procs := symbol.NewProcesses(nil)
//	defer procs.Close()
//	p, err := procs.Process(pid)
//	if err != nil {
//		return err
//	}
//	for _, f := range p.Resolve(nil, pcs) {
//		fmt.Println(f.Name, f.Offset, f.Module, f.Reason)
//	}
//
// # Lifetime
//
// Files are mapped and read in place. Frames hold copies of names and stay valid after
// everything else is closed. ELF, Process (from OpenProcess) and Processes hold mapped
// files until Close, and so does a Kernel with the Source option; PerfMap and Recording
// hold memory only. Nothing runs in the background: the goroutine that reads the kernel's
// symbols ahead ends before the call does.
//
// # Privileges
//
// ELF files need read permission. Another user's process needs what ptrace reading needs
// (PTRACE_MODE_READ: CAP_SYS_PTRACE), its deleted files CAP_CHECKPOINT_RESTORE or
// CAP_SYS_ADMIN. Kernel addresses need CAP_SYSLOG if kernel.kptr_restrict is 1, or
// kernel.perf_event_paranoid above 1. Processes are inspected on Linux (5.6 and later) only;
// everything else, recorded trees included, works on any system.
//
// # Overhead
//
// Opening costs nothing: tables are made when the first address is named. On
// the development machine that is 10 ms for the 150,000 symbols of node and 45 ms
// for the kernel's 120,000, of which the kernel takes 40 to print them; a named
// address then costs some 100 ns and no allocation. Tables take 15 bytes for each
// symbol and names are kept within a bound: Options.Budget.
package symbol
