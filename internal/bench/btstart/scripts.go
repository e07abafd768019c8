package main

// script is what is compared: one that both languages have.
type script struct {
	name, text string
	stacks     bool   // whose cost is measured with both walking by frame pointers
	work       string // what the command does that the script sees: a key of works
	n          int    // how often it does it
}

// scripts returns what is compared; self is the file whose function leaf runs.
func scripts(self string) []script {
	uprobe := "uprobe:" + self + `:"main.leaf"`
	return []script{
		{
			name: "count by comm", work: "getppid", n: 200_000,
			text: "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }",
		},
		{
			name: "opens", work: "open", n: 30_000,
			text: `tracepoint:syscalls:sys_enter_openat { @name[tid] = args->filename; }
tracepoint:syscalls:sys_exit_openat /@name[tid]/ { printf("%d %s %d %s\n", pid, comm, args->ret, str(@name[tid])); delete(@name[tid]); }`,
		},
		{
			name: "texts as keys", work: "open", n: 50_000,
			text: "tracepoint:syscalls:sys_enter_openat { @[comm, str(args->filename, 64)] = count(); }",
		},
		{
			name: "sizes", work: "read", n: 100_000,
			text: "tracepoint:syscalls:sys_exit_read /args->ret > 0/ { @[comm] = hist(args->ret); @all = stats(args->ret); }",
		},
		{
			name: "latency", work: "read", n: 100_000,
			text: `tracepoint:syscalls:sys_enter_read { @start[tid] = nsecs; }
tracepoint:syscalls:sys_exit_read /@start[tid]/ { @ns = lhist(nsecs - @start[tid], 0, 10000, 500); delete(@start[tid]); }`,
		},
		{
			name: "tuples", work: "read", n: 100_000,
			text: "tracepoint:syscalls:sys_exit_read { @last[tid] = (pid, comm, args->ret, nsecs); @n[pid, args->ret & 7] = count(); }",
		},
		{
			name: "the parent", work: "getppid", n: 100_000,
			text: "tracepoint:syscalls:sys_enter_getppid { @[curtask->real_parent->tgid, comm] = count(); }",
		},
		{
			name: "a loop", work: "getppid", n: 100_000,
			text: "tracepoint:syscalls:sys_enter_getppid { $i = 0; while ($i < 8) { @[$i & 3] = sum($i); $i++; } }",
		},
		{
			name: "join", work: "exec", n: 200,
			text: "tracepoint:syscalls:sys_enter_execve { join(args->argv); }",
		},
		{
			name: "a function", work: "call", n: 30_000,
			text: uprobe + ` { @[usym(reg("ip")), arg0 & 7] = count(); }`,
		},
		{
			name: "a table a second", work: "getppid", n: 200_000,
			text: "tracepoint:raw_syscalls:sys_enter { @[args->id] = count(); } interval:s:1 { print(@); clear(@); }",
		},
		{
			name: "a timer", work: "sleep", n: 1000,
			text: `interval:ms:1 { printf("%d\n", nsecs); }`,
		},
		{
			name: "profile of stacks", work: "spin", n: 1000, stacks: true,
			text: `profile:hz:999 /comm == "btstart"/ { @[kstack, ustack] = count(); }`,
		},
		{
			name: "user stacks", work: "call", n: 30_000, stacks: true,
			text: uprobe + " { @[ustack] = count(); }",
		},
		{
			name: "kernel stacks", work: "getppid", n: 100_000, stacks: true,
			text: "tracepoint:syscalls:sys_enter_getppid { @[kstack] = count(); }",
		},
	}
}
