// Command generate writes table.txt, from the kernel's headers for user programs and from
// golang.org/x/sys/unix, which has those of newer kernels:
//
//	cd internal/uapi && go generate
//
// The headers are those of Debian's linux-libc-dev and
// linux-libc-dev-{arm64,riscv64,ppc64el}-cross. They are only preprocessed, so one C compiler
// is enough for all machines. internal/cdecl evaluates the macros' values.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/cdecl"
)

// machine describes an architecture: the directories of its headers, and the macros that its
// preprocessor defines.
type machine struct {
	arch    string
	dirs    []string
	defined []string
}

var machines = []machine{
	{"amd64", []string{"/usr/include/x86_64-linux-gnu", "/usr/include"}, []string{"__x86_64__"}},
	{"arm64", []string{"/usr/aarch64-linux-gnu/include"}, []string{"__aarch64__"}},
	{"riscv64", []string{"/usr/riscv64-linux-gnu/include"}, []string{"__riscv", "__riscv_xlen=64"}},
	{"ppc64le", []string{"/usr/powerpc64le-linux-gnu/include"}, []string{
		"__powerpc__",
		"__powerpc64__", "__LITTLE_ENDIAN__",
	}},
}

// arches are the architectures of the table. Debian has no headers for loong64: its values are
// those of x/sys or, failing that, those on which all other architectures agree.
var arches = []string{"amd64", "arm64", "riscv64", "ppc64le", "loong64"}

func main() {
	out := flag.String("o", "table.txt", "the file to write")
	root := flag.String("root", "", "a directory that other architectures' headers were unpacked in")
	flag.Parse()
	if err := run(*out, *root); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(out, root string) error {
	instead, err := os.MkdirTemp("", "uapi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(instead)
	if err := insteadOfLibc(instead); err != nil {
		return err
	}
	found := map[string]map[string]int64{} // by architecture
	enumerated := map[string]bool{}
	for _, m := range machines {
		if m.arch != "amd64" {
			m.dirs[0] = filepath.Join(root, m.dirs[0])
		}
		m.dirs = append([]string{instead}, m.dirs...)
		if found[m.arch], err = m.headers(kernelHeaders, enumerated); err != nil {
			return err
		}
	}
	own, err := exec.Command("gcc", "-print-file-name=include").Output()
	if err != nil {
		return fmt.Errorf("gcc: %w", err)
	}
	m := machines[0]
	m.dirs = append([]string{strings.TrimSpace(string(own))}, m.dirs...)
	libc, err := m.headers(libcHeaders, map[string]bool{})
	if err != nil {
		return err
	}
	for name, v := range inKernel {
		libc[name] = v
	}
	sys := map[string]map[string]int64{}
	for _, arch := range arches {
		if sys[arch], err = goConstants(arch); err != nil {
			return err
		}
	}
	t := merge(found, libc, sys, enumerated)
	return os.WriteFile(out, []byte(t.text()), 0o644)
}

// insteadOfLibc writes replacements for the C library's headers that the kernel's headers
// include, because the C library is not installed for other machines.
func insteadOfLibc(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "sys"), 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "sys", "socket.h"),
			[]byte("struct sockaddr { unsigned short sa_family; char sa_data[14]; };\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "stddef.h"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "unistd.h"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "sys", "time.h"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "sys", "types.h"), nil, 0o644),
	)
}

// macroLine matches a macro without parameters, as printed by -dM.
var macroLine = regexp.MustCompile(`(?m)^#define ([A-Za-z][A-Za-z0-9_]*) \S`)

// headers returns the values of the wanted macros in headers. It records the names that they
// only enumerate, which are in BTF.
func (m *machine) headers(names []string, enumerated map[string]bool) (map[string]int64, error) {
	var include strings.Builder
	for _, name := range names {
		fmt.Fprintf(&include, "#include <%s>\n", name)
	}
	macros, err := m.preprocess(include.String(), "-dM")
	if err != nil {
		return nil, err
	}
	// The declarations come first, because some macros are enumerators or sizes. Then each
	// macro appears once as its name and once expanded.
	var all strings.Builder
	all.WriteString(include.String() + begin + "\n")
	for _, match := range macroLine.FindAllStringSubmatch(macros, -1) {
		if wanted(match[1]) {
			fmt.Fprintf(&all, "@ %q %[1]s\n", match[1])
		}
	}
	expanded, err := m.preprocess(all.String(), "-P")
	if err != nil {
		return nil, err
	}
	declarations, lines, ok := strings.Cut(expanded, begin)
	if !ok {
		return nil, fmt.Errorf("%s: the preprocessor lost its place", m.arch)
	}
	var text strings.Builder
	text.WriteString(declarations)
	for entry := range strings.SplitSeq(lines, "@ \"") {
		if name, value, ok := strings.Cut(entry, "\""); ok {
			fmt.Fprintf(&text, "\n#define %s %s", name, strings.Join(strings.Fields(value), " "))
		}
	}
	return m.evaluate(text.String(), enumerated)
}

const begin = "uapi_table_begins"

func (m *machine) evaluate(text string, enumerated map[string]bool) (map[string]int64, error) {
	d, err := cdecl.Parse("headers", []byte(text), &cdecl.Options{Arch: m.arch, SkipCode: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.arch, err)
	}
	values := map[string]int64{}
	for _, define := range d.Defines {
		if define.Integer {
			values[define.Name] = int64(define.Value.Bits)
		}
	}
	for _, c := range d.Constants {
		if _, ok := values[c.Name]; !ok {
			enumerated[c.Name] = true
		}
	}
	return values, nil
}

func (m *machine) preprocess(text, mode string) (string, error) {
	args := []string{"-E", mode, "-undef", "-nostdinc", "-w"}
	for _, dir := range m.dirs {
		args = append(args, "-isystem", dir)
	}
	own := []string{
		"__LP64__", "_LP64", "__linux__", "__STDC__", "__SIZEOF_POINTER__=8", "__SIZEOF_LONG__=8",
		"__BYTE_ORDER__=1234",
		"__ORDER_LITTLE_ENDIAN__=1234", "__GNUC__=12", "__STDC_VERSION__=201112L", "_GNU_SOURCE",
	}
	for _, d := range slices.Concat(own, m.defined) {
		args = append(args, "-D"+d)
	}
	cmd := exec.Command("gcc", append(args, "-")...)
	var out, diag bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &diag
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: gcc -E: %w\n%s", m.arch, err, diag.Bytes())
	}
	return out.String(), nil
}
