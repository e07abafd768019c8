package pmc

func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// recordCPUID returns the leaves that decodeCPUID reads, of the CPU that this goroutine runs
// on. It is nil on other architectures than amd64.
func recordCPUID() leaves {
	l := leaves{}
	for _, n := range []uint32{
		leafVendor, leafFeatures, leafIntelPMU, leafExtended, leafAMDFlags,
		leafAMDPerfV2,
	} {
		// For a leaf beyond the last one the CPU returns another leaf's values.
		if base := n & leafExtended; n != base && n > l[base].EAX {
			continue
		}
		var a leaf
		a.EAX, a.EBX, a.ECX, a.EDX = cpuid(n, 0)
		l[n] = a
	}
	return l
}
