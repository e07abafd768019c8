package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// typed are scripts that reach the kernel's types in all the ways there are.
var typed = []string{
	`begin { print(curtask->fs->pwd.dentry->d_name.len); print(((struct task_struct *)1)->real_parent->pid); }`,
	`begin { print(sizeof(task_struct)); print(sizeof(struct dentry)); print(offsetof(struct file, f_op)); }`,
	`begin { $p = (struct dentry *)1; $q = $p->d_parent; $p = $q->d_parent->d_parent; print($p->d_sb->s_dev); }`,
	`struct mine { struct path p; struct list_head *h; int n; } begin { print(((struct mine *)1)->p.mnt->mnt_flags); print(sizeof(struct mine)); }`,
	`begin { print((uint64)curtask->mm->arg_start); print(TCP_CLOSE); print((u32)1); print((pid_t)2); }`,
	`tracepoint:syscalls:sys_enter_connect { print(args.uservaddr->sa_family); }`,
	`tracepoint:sched:sched_switch { @[args.prev_comm, args.prev_state] = count(); print(args.next_pid); }`,
	`interval:s:1 { print(ctx); print(kfunc_exist("vfs_read")); }`,
}

// TestNamedTypes: a script for which only the types are read that it names is the same program as
// one for which all were. The kernel's types are not read as a whole for it, which takes longer
// than all else.
func TestNamedTypes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.BTF)
	all := probe.NewEnv(nil)
	if _, err := all.BTF(); err != nil {
		t.Fatal(err)
	}
	texts := slices.Clone(typed)
	for _, file := range []string{"testdata/begin.txt", "testdata/work.txt"} {
		for _, c := range Cases(t, file) {
			texts = append(texts, c.Text)
		}
	}
	for _, text := range texts {
		few := probe.NewEnv(nil)
		got, err := becomes(text, few)
		want, wrong := becomes(text, all)
		if got != want || (err == nil) != (wrong == nil) {
			t.Errorf("%s\nbecomes\n%s%v\nand with all types\n%s%v", text, got, err, want, wrong)
		}
		raw := strings.HasPrefix(text, "rawtracepoint") // whose arguments are found among all types
		if err == nil && !raw && few.KnownBTF() != nil {
			t.Errorf("for %s all types were read", text)
		}
	}
}

// becomes returns a script's program and the types of its output.
func becomes(text string, e *probe.Env) (string, error) {
	p, err := Compile("stdin", text, &Options{Env: e, Params: []string{"1", "83", "ax", "ip"}})
	if err != nil {
		return "", err
	}
	spec, err := bpf.Compile(p.IR(), p.Plan())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, p.IR(), p.Warnings)
	for _, site := range p.low.Sites {
		fmt.Fprintln(&b, site.Kind, site.Severity, site.Format, site.Args, site.Record, site.Top, site.Div)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		fmt.Fprintln(&b, name, spec.Programs[name].Instructions)
	}
	return b.String(), nil
}
