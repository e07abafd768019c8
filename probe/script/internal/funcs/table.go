package funcs

// What several rows have in common.
const (
	registers = "kprobe kretprobe uprobe uretprobe usdt profile interval software hardware " +
		"watchpoint"
	tracing   = "fentry fexit iter rawtracepoint" // programs of the kernel's type tracing
	signalled = "kprobe kretprobe uprobe uretprobe usdt tracepoint profile fentry fexit " +
		"rawtracepoint"
)

// table has a row for each name, sorted.
var table = []Row{
	{Name: "arch", Bare: true, Library: true},
	{Name: "args", Bare: true, Probes: "fentry fexit uprobe rawtracepoint tracepoint", Own: true},
	{Name: "assert_str", Library: true, Macro: true, Least: 1, Most: 1, Result: Void()},
	{Name: "assert_userspace_probe", Result: Void()},
	{Name: "avg", Least: 3, Most: 3, Aggregation: "avg_t"},
	{Name: "bswap", Least: 1, Most: 1},
	{Name: "buf", Least: 1, Most: 2, Args: []Arg{{}, {Kind: Integer}}},
	{
		Name: "cat", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}}, Result: Void(),
		Format: true,
	},
	{Name: "cgroup", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "cgroup_path", Least: 1, Most: 2, Args: []Arg{{Kind: Integer}, {Kind: String}},
		Result: Value{Kind: "cgroup_path_t", Size: 16},
	},
	{
		Name: "cgroupid", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Uint(8),
	},
	{Name: "check_key", Result: Void()},
	{Name: "clear", Least: 1, Most: 1, Result: Void(), Map: true},
	{Name: "comm", Bare: true, Library: true, Macro: true, Least: 1, Most: 1, Result: Text(64)},
	{Name: "count", Least: 2, Most: 2, Aggregation: "count_t"},
	{Name: "cpid", Bare: true, Library: true, Value: Uint(8)},
	{Name: "cpu", Bare: true, Library: true, Value: Uint(8)},
	{Name: "ctx", Bare: true, Probes: registers + " iter", Own: true},
	{Name: "curtask", Bare: true, Library: true},
	{
		Name: "debugf", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "default_str_length", Bare: true, Library: true},
	{Name: "delete", Library: true, Macro: true, Least: 1, Most: 2, Result: Bool(), Map: true},
	{Name: "dw_ustack", Bare: true, Library: true, Most: 2},
	{Name: "elapsed", Bare: true, Library: true, Value: Uint(8)},
	{Name: "elf_info", Bare: true, Library: true, Value: Uint(8)},
	{Name: "elf_is_exe", Bare: true, Library: true, Value: Bool()},
	{
		Name: "errorf", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "exit", Most: 1, Args: []Arg{{Kind: Integer}}},
	{
		Name: "fail", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(),
	},
	{Name: "find", Library: true, Macro: true, Least: 3, Most: 3, Result: Bool(), Map: true},
	{
		Name: "func", Bare: true, Library: true,
		Probes: "kprobe uprobe kretprobe uretprobe fentry fexit", Own: true,
	},
	{Name: "getopt"},
	{Name: "gid", Bare: true, Library: true, Value: Uint(8)},
	{Name: "has_cpid", Bare: true, Library: true, Value: Bool()},
	{Name: "has_key", Library: true, Macro: true, Least: 2, Most: 2, Result: Bool(), Map: true},
	{
		Name: "hist", Least: 3, Most: 4,
		Args: []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}}, Aggregation: "hist_t",
	},
	{Name: "is_array", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_integer", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_literal", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_ptr", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_scalar", Map: true},
	{Name: "is_str", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_unsigned_integer", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "jiffies", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "join", Least: 1, Most: 2, Args: []Arg{{}, {Kind: String, Literal: true}},
		Result: Void(),
	},
	{
		Name: "kaddr", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Value{Kind: Integer, Size: 8, Kernel: true},
	},
	{Name: "kfunc_allowed"},
	{Name: "kfunc_exist"},
	{Name: "kptr", Least: 1, Most: 1},
	{Name: "kstack", Bare: true, Most: 2},
	{Name: "ksym", Least: 1, Most: 1, Result: Value{Kind: "ksym_t", Size: 8}},
	{
		Name: "leader_comm", Bare: true, Library: true, Macro: true, Least: 1, Most: 1,
		Value: Text(16), Result: Text(16),
	},
	{
		Name: "leader_tid", Bare: true, Library: true, Macro: true, Least: 1, Most: 1, Value: Int(4),
		Result: Int(4),
	},
	{Name: "len", Library: true, Macro: true, Least: 1, Most: 1, Result: Int(8), Map: true},
	{
		Name: "lhist", Least: 6, Most: 6,
		Args:        []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}},
		Aggregation: "lhist_t",
	},
	{
		Name: "macaddr", Least: 1, Most: 1,
		Result: Value{Kind: "mac_address", Size: 6, Internal: true},
	},
	{Name: "max", Least: 3, Most: 3, Aggregation: "max_t"},
	{Name: "memcmp", Library: true, Macro: true, Least: 3, Most: 3, Result: Int(4)},
	{Name: "min", Least: 3, Most: 3, Aggregation: "min_t"},
	{Name: "ncpus", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "nsecs", Bare: true, Most: 1, Args: []Arg{{Kind: Clock}},
		Value: Value{Kind: Integer, Size: 8, Mode: "boot"},
	},
	{Name: "ntop", Least: 1, Most: 2, Result: Value{Kind: "inet", Size: 24, Internal: true}},
	{Name: "numaid", Bare: true, Library: true, Value: Uint(8)},
	{Name: "offsetof", Least: 2, Most: 2},
	{
		Name: "override", Library: true, Macro: true, Least: 1, Most: 1, Result: Void(),
		Unsafe: true, Probes: "kprobe", Own: true,
	},
	{
		Name: "path", Least: 1, Most: 2, Args: []Arg{{}, {Kind: Integer, Literal: true}},
		Probes: "fentry fexit iter", Own: true,
	},
	{
		Name: "pcomm", Bare: true, Library: true, Macro: true, Least: 1, Most: 1, Value: Text(16),
		Result: Text(16),
	},
	{
		Name: "percpu_kaddr", Least: 1, Most: 2,
		Args:   []Arg{{Kind: String, Literal: true}, {Kind: Integer}},
		Result: Value{Kind: Integer, Size: 8, Kernel: true},
	},
	{Name: "pid", Bare: true, Most: 1, Value: Uint(4)},
	{
		Name: "ppid", Bare: true, Library: true, Macro: true, Least: 1, Most: 1, Value: Int(4),
		Result: Int(4),
	},
	{
		Name: "print", Least: 1, Most: 3,
		Args:   []Arg{{}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}},
		Result: Void(), Map: true,
	},
	{
		Name: "printf", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "probe", Bare: true, Library: true},
	{Name: "probetype", Bare: true, Library: true},
	{Name: "pton", Least: 1, Most: 1},
	{Name: "rand", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "reg", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}}, Result: Uint(8),
		Probes: registers,
	},
	{
		Name: "retval", Bare: true, Library: true, Probes: "kretprobe uretprobe fentry fexit",
		Own: true,
	},
	{Name: "safe_mode", Bare: true, Library: true},
	{
		Name: "signal", Library: true, Macro: true, Least: 1, Most: 1, Result: Void(), Unsafe: true,
		Probes: signalled, Own: true,
	},
	{Name: "signal_name", Library: true, Macro: true, Least: 1, Most: 1, Result: Text(64)},
	{Name: "signal_num"},
	{
		Name: "signal_thread", Library: true, Macro: true, Least: 1, Most: 1, Result: Void(),
		Unsafe: true, Probes: signalled, Own: true,
	},
	{Name: "sizeof", Least: 1, Most: 1},
	{
		Name: "skboutput", Least: 4, Most: 4,
		Args:   []Arg{{Kind: String, Literal: true}, {Kind: Pointer}, {Kind: Integer}, {Kind: Integer}},
		Result: Uint(4), Probes: tracing,
	},
	{
		Name: "socket_cookie", Least: 1, Most: 1, Args: []Arg{{Kind: Pointer}}, Result: Uint(8),
		Probes: tracing,
	},
	{Name: "stack_len", Least: 1, Most: 1, Result: Int(8)},
	{Name: "stats", Least: 3, Most: 3, Aggregation: "stats_t"},
	{Name: "str", Least: 1, Most: 2, Args: []Arg{{}, {Kind: Integer}}},
	{Name: "strcap", Library: true, Macro: true, Least: 1, Most: 1, Result: Uint(8)},
	{Name: "strerror", Library: true, Macro: true, Least: 1, Most: 1, Result: Text(64)},
	{
		Name: "strftime", Least: 2, Most: 2,
		Args: []Arg{{Kind: String, Literal: true}, {Kind: Integer}},
	},
	{Name: "strlen", Library: true, Macro: true, Least: 1, Most: 1, Result: Uint(8)},
	{
		Name: "strncmp", Least: 3, Most: 3,
		Args: []Arg{{Kind: String}, {Kind: String}, {Kind: Integer, Literal: true}}, Result: Uint(8),
	},
	{Name: "strstr", Library: true, Macro: true, Least: 2, Most: 2, Result: Int(8)},
	{Name: "sum", Least: 3, Most: 3, Aggregation: "sum_t"},
	{Name: "syscall_name", Library: true, Macro: true, Least: 1, Most: 1, Result: Text(64)},
	{
		Name: "system", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true, Unsafe: true,
	},
	{Name: "tid", Bare: true, Most: 1, Value: Uint(4)},
	{Name: "time", Most: 1, Args: []Arg{{Kind: String, Literal: true}}, Result: Void()},
	{
		Name: "tseries", Least: 5, Most: 6,
		Args:        []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}, {Kind: String, Literal: true}},
		Aggregation: "tseries_t",
	},
	{
		Name: "uaddr", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Uint(8), Probes: "usdt uprobe uretprobe",
	},
	{Name: "uid", Bare: true, Library: true, Value: Uint(8)},
	{Name: "unwatch", Least: 1, Most: 1, Args: []Arg{{Kind: Integer}}, Result: Void()},
	{Name: "uptr", Least: 1, Most: 1},
	{Name: "usdt_arg", Library: true, Macro: true, Least: 1, Most: 1, Result: Uint(8)},
	{Name: "usermode", Bare: true, Library: true, Value: Uint(1)},
	{Name: "username", Bare: true, Library: true, Value: Value{Kind: "username", Size: 8}},
	{Name: "ustack", Bare: true, Most: 2},
	{Name: "usym", Least: 1, Most: 1, Result: Value{Kind: "usym_t", Size: 16}},
	{
		Name: "warnf", Least: 1, Most: 128, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{
		Name: "write_user", Library: true, Macro: true, Least: 3, Most: 3, Result: Bool(),
		Unsafe: true,
	},
	{Name: "zero", Least: 1, Most: 1, Result: Void(), Map: true},
}
