package mapx

import "runtime"

// sysBPF is the number of bpf(2), which package syscall lacks on the older
// architectures (arch/*/syscalls/syscall.tbl; 280 is asm-generic's).
var sysBPF = map[string]uintptr{
	"amd64": 321, "386": 357, "arm": 386,
	"mips": 4355, "mipsle": 4355, "mips64": 5315, "mips64le": 5315,
	"ppc64": 361, "ppc64le": 361, "s390x": 351,
	"arm64": 280, "riscv64": 280, "loong64": 280,
}[runtime.GOARCH]
