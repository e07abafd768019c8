package cdecl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/internal/testenv"
)

const systemHeaders = "/usr/include/linux"

// includes reads the machine's headers, of the kernel's alone: those of the C library
// need macros with parameters.
func includes(i *cdecl.Include) ([]byte, error) {
	switch dir, _, _ := strings.Cut(i.Name, "/"); dir {
	case "linux", "asm", "asm-generic":
	default:
		return nil, nil
	}
	for _, dir := range []string{"/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu"} {
		b, err := os.ReadFile(filepath.Join(dir, filepath.Clean("/"+i.Name)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, nil
}

// libc has the structs of the C library that the kernel's headers use.
func libc(kind cdecl.Kind, name string) (btf.Type, error) {
	long := &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	short := &btf.Int{Name: "short unsigned int", Size: 2}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	switch tag := kind.String() + " " + name; tag {
	case "struct timespec":
		return &btf.Struct{Name: name, Size: 16, Members: []btf.Member{{Name: "tv_sec", Type: long}, {Name: "tv_nsec", Type: long, Offset: 64}}}, nil
	case "struct timeval":
		return &btf.Struct{Name: name, Size: 16, Members: []btf.Member{{Name: "tv_sec", Type: long}, {Name: "tv_usec", Type: long, Offset: 64}}}, nil
	case "struct sockaddr":
		data := &btf.Array{Index: long, Type: char, Nelems: 14}
		return &btf.Struct{Name: name, Size: 16, Members: []btf.Member{{Name: "sa_family", Type: short}, {Name: "sa_data", Type: data, Offset: 16}}}, nil
	}
	return nil, nil
}

// TestHeaders reads what this machine has of the kernel's headers.
func TestHeaders(t *testing.T) {
	testenv.Need(t, testenv.File(systemHeaders+"/types.h"))
	files, err := filepath.Glob(systemHeaders + "/*.h")
	if err != nil {
		t.Fatal(err)
	}
	var types, constants, defines, integers int
	var bad []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := cdecl.Parse(file, text, &cdecl.Options{Include: includes, SkipCode: true, Resolve: libc})
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		types += len(d.Types)
		constants += len(d.Constants)
		defines += len(d.Defines)
		for _, d := range d.Defines {
			if d.Integer {
				integers++
			}
		}
	}
	t.Logf("%d of %d headers, %d types, %d enumerators, %d macros, %d of them integers; not:\n%s",
		len(files)-len(bad), len(files), types, constants, defines, integers, strings.Join(bad, "\n"))
	if len(bad)*5 > len(files) {
		t.Errorf("%d of %d headers can't be read", len(bad), len(files))
	}
}

// typical are headers whose structs scripts read: with unions without names, bit
// fields, packed and aligned members.
var typical = []string{
	"bpf_common", "perf_event", "if_packet", "inet_diag", "fuse", "taskstats", "stat", "sched", "seccomp", "netlink",
	"rtnetlink", "vfio", "fiemap", "udp", "icmp",
}

// TestHeaderLayouts compares what typical headers declare with GCC.
func TestHeaderLayouts(t *testing.T) {
	const compiler = "x86_64-linux-gnu-gcc"
	testenv.Need(t, testenv.File(systemHeaders+"/types.h"), testenv.Tool(compiler), testenv.Long)
	text := "#include <sys/socket.h>\n#include <sys/time.h>\n"
	for _, name := range typical {
		text += "#include <linux/" + name + ".h>\n"
	}
	have, err := cdecl.Parse("x.c", []byte(text), &cdecl.Options{Arch: "amd64", Include: includes, SkipCode: true, Resolve: libc})
	if err != nil {
		t.Fatal(err)
	}
	n := compareTypes(t, have, compiled(t, compiler, text), "")
	t.Logf("%d types are alike", n)
	if n < 200 {
		t.Errorf("%d types were compared", n)
	}
}
