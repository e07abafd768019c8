package check

import "github.com/borescope/borescope/probe/ir"

// Deletable says whether the map's entries can be removed.
func Deletable(m *ir.Map) bool {
	return Storage(m) || !m.Keyless() && m.Kind != ir.MapArray && m.Kind != ir.MapPerCPUArray
}

// Storage says whether the map's values belong to objects of the kernel.
func Storage(m *ir.Map) bool { return m.Kind == ir.MapTaskStorage || m.Kind == ir.MapCgroupStorage }
