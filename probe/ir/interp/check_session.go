package interp

import (
	"encoding/binary"

	"github.com/borescope/borescope/probe/ir"
)

// owner is the key by which the interpreter keeps a storage's values: the
// current thread or cgroup.
func (r *run) owner(m *ir.Map) string {
	name := "tid"
	if m.Kind == ir.MapCgroupStorage {
		name = "cgroup"
	}
	id := uint64(0)
	if r.Builtin != nil {
		id = r.Builtin(name)
	}
	return string(binary.LittleEndian.AppendUint64(nil, id))
}
