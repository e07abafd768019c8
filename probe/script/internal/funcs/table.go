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
	{Name: "arch", Since: "0.25", Bare: true, Library: true},
	{
		Name: "args", Since: "0.8", Bare: true,
		Probes: "fentry fexit uprobe rawtracepoint tracepoint", Own: true,
	},
	{
		Name: "assert_str", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Void(),
	},
	{Name: "assert_userspace_probe", Since: "0.25", Result: Void()},
	{Name: "avg", Since: "0.8", Least: 3, Most: 3, Aggregation: "avg_t"},
	{Name: "bswap", Since: "0.15", Least: 1, Most: 1},
	{Name: "buf", Since: "0.11", Least: 1, Most: 2, Args: []Arg{{}, {Kind: Integer}}},
	{
		Name: "cat", Since: "0.9.1", Least: 1, Most: 128,
		Args: []Arg{{Kind: String, Literal: true}}, Result: Void(),
		Format: true,
	},
	{Name: "cgroup", Since: "0.8", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "cgroup_path", Since: "0.15", Least: 1, Most: 2,
		Args:   []Arg{{Kind: Integer}, {Kind: String}},
		Result: Value{Kind: "cgroup_path_t", Size: 16},
	},
	{
		Name: "cgroupid", Since: "0.8", Least: 1, Most: 1,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Uint(8),
	},
	{Name: "check_key", Since: "0.25", Result: Void()},
	{Name: "clear", Since: "0.8", Least: 1, Most: 1, Result: Void(), Map: true},
	{
		Name: "comm", Since: "0.8", Bare: true, Library: true, Macro: true, Least: 1, Most: 1,
		Result: Text(64),
	},
	{Name: "count", Since: "0.8", Least: 2, Most: 2, Aggregation: "count_t"},
	{Name: "cpid", Since: "0.9.4", Bare: true, Library: true, Value: Uint(8)},
	{Name: "cpu", Since: "0.8", Bare: true, Library: true, Value: Uint(8)},
	{Name: "ctx", Since: "0.8", Bare: true, Probes: registers + " iter", Own: true},
	{Name: "curtask", Since: "0.8", Bare: true, Library: true},
	{
		Name: "debugf", Since: "0.16", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "default_str_length", Since: "0.25", Bare: true, Library: true},
	{
		Name: "delete", Since: "0.8", Library: true, Macro: true, Least: 1, Most: 2,
		Result: Bool(), Map: true,
	},
	{Name: "dw_ustack", Since: "0.26", Bare: true, Library: true, Most: 2},
	{Name: "elapsed", Since: "0.9", Bare: true, Library: true, Value: Uint(8)},
	{Name: "elf_info", Since: "0.25", Bare: true, Library: true, Value: Uint(8)},
	{Name: "elf_is_exe", Since: "0.25", Bare: true, Library: true, Value: Bool()},
	{
		Name: "errorf", Since: "0.24", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "exit", Since: "0.8", Most: 1, Args: []Arg{{Kind: Integer}}},
	{
		Name: "fail", Since: "0.25", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(),
	},
	{
		Name: "find", Since: "0.25", Library: true, Macro: true, Least: 3, Most: 3, Result: Bool(),
		Map: true,
	},
	{
		Name: "func", Since: "0.8", Bare: true, Library: true,
		Probes: "kprobe uprobe kretprobe uretprobe fentry fexit", Own: true,
	},
	{Name: "getopt", Since: "0.24"},
	{Name: "gid", Since: "0.8", Bare: true, Library: true, Value: Uint(8)},
	{Name: "has_cpid", Since: "0.25", Bare: true, Library: true, Value: Bool()},
	{
		Name: "has_key", Since: "0.22", Library: true, Macro: true, Least: 2, Most: 2,
		Result: Bool(), Map: true,
	},
	{
		Name: "hist", Since: "0.8", Least: 3, Most: 4,
		Args: []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}}, Aggregation: "hist_t",
	},
	{Name: "is_array", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_integer", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_literal", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_ptr", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_scalar", Since: "0.25", Map: true},
	{Name: "is_str", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "is_unsigned_integer", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1},
	{Name: "jiffies", Since: "0.20", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "join", Since: "0.8", Least: 1, Most: 2,
		Args:   []Arg{{}, {Kind: String, Literal: true}},
		Result: Void(),
	},
	{
		Name: "kaddr", Since: "0.8", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Value{Kind: Integer, Size: 8, Kernel: true},
	},
	{Name: "kfunc_allowed", Since: "0.25"},
	{Name: "kfunc_exist", Since: "0.25"},
	{Name: "kptr", Since: "0.12", Least: 1, Most: 1},
	{Name: "kstack", Since: "0.9", Bare: true, Most: 2},
	{Name: "ksym", Since: "0.9", Least: 1, Most: 1, Result: Value{Kind: "ksym_t", Size: 8}},
	{
		Name: "leader_comm", Since: "0.26", Bare: true, Library: true, Macro: true, Least: 1,
		Most:  1,
		Value: Text(16), Result: Text(16),
	},
	{
		Name: "leader_tid", Since: "0.26", Bare: true, Library: true, Macro: true, Least: 1,
		Most: 1, Value: Int(4),
		Result: Int(4),
	},
	{
		Name: "len", Since: "0.20", Library: true, Macro: true, Least: 1, Most: 1, Result: Int(8),
		Map: true,
	},
	{
		Name: "lhist", Since: "0.8", Least: 6, Most: 6,
		Args:        []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}},
		Aggregation: "lhist_t",
	},
	{
		Name: "macaddr", Since: "0.12", Least: 1, Most: 1,
		Result: Value{Kind: "mac_address", Size: 6, Internal: true},
	},
	{Name: "max", Since: "0.8", Least: 3, Most: 3, Aggregation: "max_t"},
	{Name: "memcmp", Since: "0.25", Library: true, Macro: true, Least: 3, Most: 3, Result: Int(4)},
	{Name: "min", Since: "0.8", Least: 3, Most: 3, Aggregation: "min_t"},
	{Name: "ncpus", Since: "0.24", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "nsecs", Since: "0.8", Bare: true, Most: 1, Args: []Arg{{Kind: Clock}},
		Value: Value{Kind: Integer, Size: 8, Mode: "boot"},
	},
	{
		Name: "ntop", Since: "0.8", Least: 1, Most: 2,
		Result: Value{Kind: "inet", Size: 24, Internal: true},
	},
	{Name: "numaid", Since: "0.16", Bare: true, Library: true, Value: Uint(8)},
	{Name: "offsetof", Since: "0.18", Least: 2, Most: 2},
	{
		Name: "override", Since: "0.9.4", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Void(),
		Unsafe: true, Probes: "kprobe", Own: true,
	},
	{
		Name: "path", Since: "0.12", Least: 1, Most: 2,
		Args:   []Arg{{}, {Kind: Integer, Literal: true}},
		Probes: "fentry fexit iter", Own: true,
	},
	{
		Name: "pcomm", Since: "0.25", Bare: true, Library: true, Macro: true, Least: 1, Most: 1,
		Value:  Text(16),
		Result: Text(16),
	},
	{
		Name: "percpu_kaddr", Since: "0.22", Least: 1, Most: 2,
		Args:   []Arg{{Kind: String, Literal: true}, {Kind: Integer}},
		Result: Value{Kind: Integer, Size: 8, Kernel: true},
	},
	{Name: "pid", Since: "0.8", Bare: true, Most: 1, Value: Uint(4)},
	{
		Name: "ppid", Since: "0.24", Bare: true, Library: true, Macro: true, Least: 1, Most: 1,
		Value:  Int(4),
		Result: Int(4),
	},
	{
		Name: "print", Since: "0.8", Least: 1, Most: 3,
		Args:   []Arg{{}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}},
		Result: Void(), Map: true,
	},
	{
		Name: "printf", Since: "0.8", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{Name: "probe", Since: "0.8", Bare: true, Library: true},
	{Name: "probetype", Since: "0.25", Bare: true, Library: true},
	{Name: "pton", Since: "0.16", Least: 1, Most: 1},
	{Name: "rand", Since: "0.8", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "reg", Since: "0.8", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Uint(8),
		Probes: registers,
	},
	{
		Name: "retval", Since: "0.8", Bare: true, Library: true,
		Probes: "kretprobe uretprobe fentry fexit",
		Own:    true,
	},
	{Name: "safe_mode", Since: "0.25", Bare: true, Library: true},
	{
		Name: "signal", Since: "0.9.4", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Void(), Unsafe: true,
		Probes: signalled, Own: true,
	},
	{
		Name: "signal_name", Since: "0.26", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Text(64),
	},
	{Name: "signal_num", Since: "0.25"},
	{
		Name: "signal_thread", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Void(),
		Unsafe: true, Probes: signalled, Own: true,
	},
	{Name: "sizeof", Since: "0.11", Least: 1, Most: 1},
	{
		Name: "skboutput", Since: "0.16", Least: 4, Most: 4,
		Args:   []Arg{{Kind: String, Literal: true}, {Kind: Pointer}, {Kind: Integer}, {Kind: Integer}},
		Result: Uint(4), Probes: tracing,
	},
	{
		Name: "socket_cookie", Since: "0.24", Least: 1, Most: 1, Args: []Arg{{Kind: Pointer}},
		Result: Uint(8),
		Probes: tracing,
	},
	{Name: "stack_len", Since: "0.25", Least: 1, Most: 1, Result: Int(8)},
	{Name: "stats", Since: "0.8", Least: 3, Most: 3, Aggregation: "stats_t"},
	{Name: "str", Since: "0.8", Least: 1, Most: 2, Args: []Arg{{}, {Kind: Integer}}},
	{Name: "strcap", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1, Result: Uint(8)},
	{
		Name: "strerror", Since: "0.16", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Text(64),
	},
	{
		Name: "strftime", Since: "0.12", Least: 2, Most: 2,
		Args: []Arg{{Kind: String, Literal: true}, {Kind: Integer}},
	},
	{Name: "strlen", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1, Result: Uint(8)},
	{
		Name: "strncmp", Since: "0.9.4", Least: 3, Most: 3,
		Args: []Arg{{Kind: String}, {Kind: String}, {Kind: Integer, Literal: true}}, Result: Uint(8),
	},
	{Name: "strstr", Since: "0.25", Library: true, Macro: true, Least: 2, Most: 2, Result: Int(8)},
	{Name: "sum", Since: "0.8", Least: 3, Most: 3, Aggregation: "sum_t"},
	{
		Name: "syscall_name", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Text(64),
	},
	{
		Name: "system", Since: "0.8", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true, Unsafe: true,
	},
	{Name: "tid", Since: "0.8", Bare: true, Most: 1, Value: Uint(4)},
	{
		Name: "time", Since: "0.8", Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Void(),
	},
	{
		Name: "tseries", Since: "0.24", Least: 5, Most: 6,
		Args:        []Arg{{}, {}, {Kind: Integer}, {Kind: Integer, Literal: true}, {Kind: Integer, Literal: true}, {Kind: String, Literal: true}},
		Aggregation: "tseries_t",
	},
	{
		Name: "uaddr", Since: "0.8", Least: 1, Most: 1, Args: []Arg{{Kind: String, Literal: true}},
		Result: Uint(8), Probes: "usdt uprobe uretprobe",
	},
	{Name: "uid", Since: "0.8", Bare: true, Library: true, Value: Uint(8)},
	{
		Name: "unwatch", Since: "0.12", Least: 1, Most: 1, Args: []Arg{{Kind: Integer}},
		Result: Void(),
	},
	{Name: "uptr", Since: "0.12", Least: 1, Most: 1},
	{
		Name: "usdt_arg", Since: "0.25", Library: true, Macro: true, Least: 1, Most: 1,
		Result: Uint(8),
	},
	{Name: "usermode", Since: "0.24", Bare: true, Library: true, Value: Uint(1)},
	{
		Name: "username", Since: "0.8", Bare: true, Library: true,
		Value: Value{Kind: "username", Size: 8},
	},
	{Name: "ustack", Since: "0.8", Bare: true, Most: 2},
	{Name: "usym", Since: "0.8", Least: 1, Most: 1, Result: Value{Kind: "usym_t", Size: 16}},
	{
		Name: "warnf", Since: "0.25", Least: 1, Most: 128,
		Args:   []Arg{{Kind: String, Literal: true}},
		Result: Void(), Format: true,
	},
	{
		Name: "write_user", Since: "0.26", Library: true, Macro: true, Least: 3, Most: 3,
		Result: Bool(),
		Unsafe: true,
	},
	{Name: "zero", Since: "0.8", Least: 1, Most: 1, Result: Void(), Map: true},
}
