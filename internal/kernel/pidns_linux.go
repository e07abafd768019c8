package kernel

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// OwnPIDNamespace returns the pid namespace of this process, nil if it is the initial one or
// unknown. A process never leaves its own.
func OwnPIDNamespace() *PIDNamespace {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO, include/linux/proc_ns.h
	dev, ino := PIDNamespaceID()
	if ino == 0 || ino == initial {
		return nil
	}
	ns := &PIDNamespace{Device: dev, Inode: ino}
	if nested, err := nestedIDs(); err == nil {
		ns.Nested = nested // otherwise tasks of namespaces below are strangers
	}
	return ns
}

// PIDNamespaceID returns the device, in the kernel's own encoding, and the inode of this
// process's pid namespace, or 0 if they are unknown.
func PIDNamespaceID() (dev, ino uint64) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, 0
	}
	return kernelDevice(uint64(st.Dev)), st.Ino
}

// kernelDevice converts a device's number from stat's encoding (new_encode_dev) to the
// kernel's internal one (MKDEV, include/linux/kdev_t.h).
func kernelDevice(dev uint64) uint64 {
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	return major<<20 | minor
}

// nestedIDs finds this process's namespace in the kernel.
func nestedIDs() (*NestedIDs, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	n := new(NestedIDs)
	for _, m := range []struct {
		typ, member string
		to          *int32
	}{
		{"task_struct", "thread_pid", &n.ThreadPID},
		{"task_struct", "signal", &n.Signal},
		{"signal_struct", "pids", &n.Groups},
		{"pid", "level", &n.PIDLevel},
		{"pid", "numbers", &n.Numbers},
		{"upid", "nr", &n.NR},
		{"upid", "ns", &n.NS},
	} {
		if *m.to, err = memberAt(spec, m.typ, m.member); err != nil {
			return nil, err
		}
	}
	const threadGroup = 1 // PIDTYPE_TGID, include/linux/pid_types.h
	n.Groups += 8 * threadGroup
	var upid *btf.Struct
	if err := spec.TypeByName("upid", &upid); err != nil {
		return nil, err
	}
	n.Size = int32(upid.Size)
	n.Level, n.Address, err = n.ownNamespace()
	return n, err
}

func memberAt(spec *btf.Spec, typ, member string) (int32, error) {
	var t *btf.Struct
	if err := spec.TypeByName(typ, &t); err != nil {
		return 0, err
	}
	for _, m := range t.Members {
		if m.Name == member {
			return int32(m.Offset.Bytes()), nil
		}
	}
	return 0, fmt.Errorf("struct %s has no %s", typ, member)
}

// ownNamespace finds the namespace by running a program in this process: it is the last in the
// process's struct pid (ns_of_pid, include/linux/pid.h).
func (n *NestedIDs) ownNamespace() (level uint32, address uint64, err error) {
	read := func(fd int, off, to, size int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R3, asm.R6),
			asm.Add.Imm(asm.R3, off),
			asm.LoadMapValue(asm.R1, fd, uint32(to)),
			asm.Mov.Imm(asm.R2, size),
			asm.FnProbeReadKernel.Call(),
			asm.LoadMapValue(asm.R1, fd, uint32(to)),
		}
	}
	v, err := runHere(func(fd int) asm.Instructions {
		ins := asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R6, asm.R0)}
		ins = append(ins, read(fd, n.ThreadPID, 8, 8)...)
		ins = append(ins, asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord))
		ins = append(ins, read(fd, n.PIDLevel, 0, 4)...)
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
			asm.Mul.Imm(asm.R1, n.Size),
			asm.Add.Reg(asm.R6, asm.R1),
		)
		return append(ins, read(fd, n.Numbers+n.NS, 8, 8)...)
	})
	if err != nil {
		return 0, 0, err
	}
	level, address = uint32(v[0]), v[1]
	if address == 0 || level == 0 || level > 32 { // MAX_PID_NS_LEVEL
		return 0, 0, errors.New("the kernel keeps process numbers otherwise")
	}
	return level, address, nil
}

// InitialIDs returns the ids of this process and the calling thread in the initial namespace,
// which the kernel's own records contain. The caller must have locked the thread
// (runtime.LockOSThread).
func InitialIDs() (pid, tid int, err error) {
	v, err := runHere(func(fd int) asm.Instructions {
		return asm.Instructions{
			asm.FnGetCurrentPidTgid.Call(),
			asm.LoadMapValue(asm.R1, fd, 0),
			asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord),
		}
	})
	return int(v[0] >> 32), int(uint32(v[0])), err
}

// runHere runs a program once in the calling thread. It returns the only value of a map.
// program gets the map's descriptor.
func runHere(program func(fd int) asm.Instructions) (v [2]uint64, err error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		return v, err
	}
	defer m.Close()
	ins := append(program(m.FD()), asm.Mov.Imm(asm.R0, 0), asm.Return())
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "Dual MIT/GPL",
		Instructions: ins,
	})
	if err != nil {
		return v, err
	}
	defer p.Close()
	if _, err := p.Run(&ebpf.RunOptions{}); err != nil {
		return v, err
	}
	return v, m.Lookup(uint32(0), &v)
}
