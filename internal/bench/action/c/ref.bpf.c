// The reference programs in C, for clang -O2 -target bpf. They do what hand.go
// and ours.go do. Self-contained: no kernel headers.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) val *name

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buf, u32 size) = (void *)16;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static void *(*bpf_get_current_task)(void) = (void *)35;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;

struct comm { char name[16]; };

/* Found in the kernel's BTF by name when the program is loaded (CO-RE). */
struct task_struct { struct task_struct *real_parent; int tgid; } __attribute__((preserve_access_index));

struct { __uint(type, 5); __uint(max_entries, 4096); __type(key, struct comm); __type(value, u64); } by_comm SEC(".maps");
struct { __uint(type, 1); __uint(max_entries, 4096); __type(key, u32); __type(value, u64); } start SEC(".maps");
struct { __uint(type, 6); __uint(max_entries, 65); __type(key, u32); __type(value, u64); } hist SEC(".maps");
struct { __uint(type, 7); __uint(max_entries, 4096); __uint(key_size, 4); __uint(value_size, 1016); } stacks SEC(".maps");
struct { __uint(type, 5); __uint(max_entries, 4096); __type(key, u32); __type(value, u64); } by_stack SEC(".maps");

struct { __uint(type, 5); __uint(max_entries, 4096); __type(key, u32); __type(value, u64); } by_parent SEC(".maps");

static __attribute__((always_inline)) void add(void *map, void *key)
{
	u64 *v = bpf_map_lookup_elem(map, key), one = 1;
	if (v)
		__sync_fetch_and_add(v, 1);
	else
		bpf_map_update_elem(map, key, &one, 1);
}

SEC("raw_tp/sys_enter") int empty(void *ctx) { return 0; }

SEC("raw_tp/sys_enter") int comm(void *ctx)
{
	struct comm key = {};
	bpf_get_current_comm(&key, sizeof(key));
	add(&by_comm, &key);
	return 0;
}

SEC("raw_tp/sys_enter") int fields(void *ctx)
{
	struct task_struct *task = bpf_get_current_task(), *parent = 0;
	u32 pid = 0;
	bpf_probe_read_kernel(&parent, sizeof(parent), &task->real_parent);
	bpf_probe_read_kernel(&pid, sizeof(pid), &parent->tgid);
	add(&by_parent, &pid);
	return 0;
}

SEC("raw_tp/sys_enter") int enter(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	bpf_map_update_elem(&start, &tid, &now, 0);
	return 0;
}

SEC("raw_tp/sys_exit") int leave(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), b = 0;
	u64 *t0 = bpf_map_lookup_elem(&start, &tid);
	if (!t0)
		return 0;
	u64 d = bpf_ktime_get_ns() - *t0, t;
	bpf_map_delete_elem(&start, &tid);
	if ((s64)d < 0)
		d = 0;
	if (d) {
		t = (d > 0xffffffff) << 5; d >>= t; b = t;
		t = (d > 0xffff) << 4; d >>= t; b |= t;
		t = (d > 0xff) << 3; d >>= t; b |= t;
		t = (d > 0xf) << 2; d >>= t; b |= t;
		t = (d > 0x3) << 1; d >>= t; b |= t;
		b = (b | d >> 1) + 1;
	}
	u64 *v = bpf_map_lookup_elem(&hist, &b);
	if (v)
		__sync_fetch_and_add(v, 1);
	return 0;
}

SEC("raw_tp/sys_enter") int stack(void *ctx)
{
	u32 id = bpf_get_stackid(ctx, &stacks, 0);
	add(&by_stack, &id);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
