package symbol_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing/fstest"

	"github.com/borescope/borescope/symbol"
)

// host is a recorded machine: one process that runs one program.
func host() fstest.MapFS {
	prog, err := os.ReadFile("testdata/prog")
	if err != nil {
		panic(err)
	}
	return fstest.MapFS{
		"proc/7/stat": {Data: []byte("7 (prog) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0\n")},
		"proc/7/maps": {Data: []byte("00401000-00402000 r-xp 00001000 08:01 11 /bin/prog\n")},
		"bin/prog":    {Data: prog},
	}
}

func Example() {
	procs := symbol.NewProcesses(&symbol.Options{Root: host(), Source: true}) // nil: this machine
	defer procs.Close()
	p, err := procs.Process(7)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range p.Resolve(nil, []uint64{0x401010, 0x402000}) {
		if f.Name == "" {
			fmt.Println(f.Index, f.Reason)
			continue
		}
		fmt.Println(f.Index, f.Name, f.Inlined, f.File, f.Line)
	}
	// Output:
	// 0 inner true /src/prog.c 4
	// 0 middle true /src/prog.c 10
	// 0 outer false /src/prog.c 14
	// 1 no mapping
}

func ExampleELF_Lookup() {
	e, err := symbol.OpenELF("testdata/prog", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	s, err := e.Lookup("outer")
	fmt.Printf("%#x %d %#x %v\n", s.Addr, s.Size, s.Offset, err)
	_, err = e.Lookup("absent")
	fmt.Println(err)
	// Output:
	// 0x401000 41 0x1000 <nil>
	// absent in testdata/prog: no such symbol
}

func ExampleParseKallsyms() {
	k, err := symbol.ParseKallsyms(strings.NewReader(
		"ffffffff81000000 T vfs_read\nffffffff81000100 T vfs_write\nffffffffc0000000 t sync\t[ext4]\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range k.Resolve(nil, []uint64{0xffffffff81000042, 0xffffffffc0000004}) {
		fmt.Printf("%s+%#x %s\n", f.Name, f.Offset, f.Module)
	}
	// Output:
	// vfs_read+0x42 [kernel]
	// sync+0x4 [ext4]
}

func ExampleRecording() {
	m, _ := symbol.ParsePerfMap(strings.NewReader("7f00 100 jitted\n"))
	var rec symbol.Recording
	rec.RecordProcess(7, 4242, m).Resolve(nil, []uint64{0x7f10})
	var file bytes.Buffer
	if _, err := rec.WriteTo(&file); err != nil {
		fmt.Println(err)
		return
	}
	back, err := symbol.ReadRecorded(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range back.Process(7, 4242).Resolve(nil, []uint64{0x7f10}) {
		fmt.Println(f.Name, f.Offset, f.Kind)
	}
	// Output:
	// jitted 16 jit
}
