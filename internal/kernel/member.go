package kernel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// maxAnonymous bounds the nesting of anonymous members.
const maxAnonymous = 16

// Members returns the members of a struct or union, also behind typedefs and qualifiers.
func Members(t btf.Type) []btf.Member {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

// Member finds a member by name, also in anonymous ones, and returns it with its offset, or
// nil if there is none.
func Member(members []btf.Member, name string) (*btf.Member, btf.Bits) {
	return member(members, name, 0)
}

func member(members []btf.Member, name string, depth int) (*btf.Member, btf.Bits) {
	for i := range members {
		m := &members[i]
		if m.Name == name {
			return m, m.Offset
		}
		if m.Name != "" || depth > maxAnonymous {
			continue
		}
		if f, off := member(Members(m.Type), name, depth+1); f != nil {
			return f, off + m.Offset
		}
	}
	return nil, 0
}

// MemberOffset returns the offset of a member of one of the kernel's structs, in bytes:
// "task_struct.nsproxy", "mnt_namespace.ns.inum". The error matches errors.ErrUnsupported if
// the struct has no such member.
func MemberOffset(spec *btf.Spec, path string) (uint32, error) {
	names := strings.Split(path, ".")
	var s *btf.Struct
	if err := spec.TypeByName(names[0], &s); err != nil {
		return 0, fmt.Errorf("struct %s: %w", names[0], err)
	}
	var t btf.Type = s
	var at btf.Bits
	for _, name := range names[1:] {
		m, off := Member(Members(t), name)
		if m == nil {
			return 0, fmt.Errorf("this kernel has no %s: %w", path, errors.ErrUnsupported)
		}
		t, at = m.Type, at+off
	}
	return at.Bytes(), nil
}

// MemberOffsets returns the offsets of several members, in bytes.
func MemberOffsets(spec *btf.Spec, paths ...string) ([]uint32, error) {
	out := make([]uint32, len(paths))
	for i, path := range paths {
		var err error
		if out[i], err = MemberOffset(spec, path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReturnInstances lists the members by which the kernel keeps the return addresses that
// uretprobes replaced: the list of a task, the next entry, the place on the stack, and the
// original address (include/linux/uprobes.h).
var ReturnInstances = []string{
	"task_struct.utask", "uprobe_task.return_instances", "return_instance.next",
	"return_instance.stack", "return_instance.orig_ret_vaddr",
}
