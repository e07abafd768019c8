//go:build !amd64 && !arm64

package collect

import "debug/elf"

// machine is some machine, so that the package builds; nothing attaches here.
const machine = elf.EM_X86_64
