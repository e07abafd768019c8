package cpus

import "golang.org/x/sys/cpu"

// AVX2 reports whether this CPU and its kernel have it.
func AVX2() bool { return cpu.X86.HasAVX2 }
