package cdecl_test

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
)

func ExampleParse() {
	const text = `
#define NAME_LEN 16
enum state { IDLE, BUSY = 4 };
struct request {
	u64 sector;
	enum state state : 4;
	unsigned int write : 1;
	char name[NAME_LEN];
	struct request *next;
};
`
	d, err := cdecl.Parse("x.bt", []byte(text), &cdecl.Options{Arch: "amd64"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := d.Type(cdecl.Struct, "request").(*btf.Struct)
	fmt.Println("bytes:", s.Size)
	for _, m := range s.Members {
		fmt.Println(m.Offset, m.Name, m.BitfieldSize)
	}
	fmt.Println(d.Defines[0].Name, d.Defines[0].Value)

	_, err = cdecl.Parse("x.bt", []byte("struct x {\n\tstruct y y;\n}"), nil)
	fmt.Println(err)
	// Output:
	// bytes: 40
	// 0 sector 0
	// 64 state 4
	// 68 write 1
	// 72 name 0
	// 256 next 0
	// NAME_LEN 16
	// x.bt:2:11: struct "y" is not defined: define it before, or have a pointer to it here
}
