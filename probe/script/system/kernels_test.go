package system_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// TestKernels checks one script for kernels of several releases and machines, with the
// recorded parts of their own BTF (probe/action/testdata/kernels).
func TestKernels(t *testing.T) {
	const script = `fentry:vfs_read {
	$t = (struct task_struct *)curtask;
	@parent = $t.real_parent.tgid;
	@start = $t.start_time;
	@waits = $t.in_iowait;
	@comm = $t.comm;
	@name = args.file.f_path.dentry.d_name.name;
	@count = args.count;
	@port = ((struct sock *)args.file).__sk_common.skc_dport;
	@state = TCP_LISTEN;
}`
	files, err := filepath.Glob("../../action/testdata/kernels/*.btf")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		release, arch, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".btf"), "-")
		t.Run(release+"-"+arch, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := system.New(probe.NewEnv(&probe.EnvOptions{
				Root: fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: raw}}, Release: release + ".0", Arch: arch,
			}), nil)
			p, err := check(t, s, script)
			if err != nil {
				t.Fatal(syntax.ErrorText(err))
			}
			for name, want := range map[string]string{
				"@parent": "int32", "@start": "uint64", "@waits": "uint32", "@comm": "string[16]",
				"@name": "uint8 *", "@count": "uint64", "@port": "uint16", "@state": "uint64",
			} {
				if _, v := p.Map(name); v.String() != want {
					t.Errorf("%s is %v, want %s", name, v, want)
				}
			}
			if s.Err() != nil || s.Has("loop") != (release != "5.10") {
				t.Errorf("loop is there: %v; %v", s.Has("loop"), s.Err())
			}
		})
	}
}
