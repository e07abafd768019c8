package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// progLoadAttr is the part of union bpf_attr for BPF_PROG_LOAD.
type progLoadAttr struct {
	progType, insnCnt                         uint32
	insns, license                            unsafe.Pointer
	logLevel, logSize                         uint32
	logBuf                                    unsafe.Pointer
	_, flags                                  uint32 // kern_version
	name                                      [16]byte
	_, attachType, btf, funcInfoSize          uint32 // prog_ifindex
	funcInfo                                  unsafe.Pointer
	funcInfoCnt, lineInfoSize                 uint32
	lineInfo                                  unsafe.Pointer
	lineInfoCnt, attachBTFID, attachBTFObj, _ uint32 // core_relo_cnt
}

// verifierLog is the size of the buffer for the verifier's log when it rejects a program.
const verifierLog = 1 << 20

// LoadTracing loads a tracing program for a function that the caller has found: id is the
// function's id in the BTF object, which is 0 for the kernel's own. It is for attach types for
// which cilium/ebpf cannot find functions, and is to be replaced by cilium/ebpf#2108. Maps
// must be in the instructions already. Kfuncs in object files must be the kernel's own, which
// types describes.
func LoadTracing(spec *ebpf.ProgramSpec, types *btf.Spec, id uint32, object int) (*ebpf.Program,
	error,
) {
	ins := append(asm.Instructions(nil), spec.Instructions...)
	var b btf.Builder
	if err := relocate(ins, types, &b); err != nil {
		return nil, err
	}
	funcs, lines, err := btf.MarshalExtInfos(ins, &b)
	if err != nil {
		return nil, fmt.Errorf("function and line information: %w", err)
	}
	attr := progLoadAttr{
		progType: uint32(spec.Type), license: pointer(append([]byte(spec.License), 0)), flags: spec.Flags,
		attachType: uint32(spec.AttachType), attachBTFID: id, attachBTFObj: uint32(object),
	}
	copy(attr.name[:15], strings.Map(objectName, spec.Name))
	if !b.Empty() {
		h, err := btf.NewHandle(&b)
		if err != nil {
			return nil, fmt.Errorf("load BTF: %w", err)
		}
		defer h.Close()
		attr.btf = uint32(h.FD())
		attr.funcInfo, attr.funcInfoSize, attr.funcInfoCnt = pointer(funcs), btf.FuncInfoSize,
			uint32(len(funcs))/btf.FuncInfoSize
		attr.lineInfo, attr.lineInfoSize, attr.lineInfoCnt = pointer(lines), btf.LineInfoSize,
			uint32(len(lines))/btf.LineInfoSize
	}
	var buf bytes.Buffer
	if err := ins.Marshal(&buf, byteOrder()); err != nil {
		return nil, err
	}
	attr.insns, attr.insnCnt = pointer(buf.Bytes()), uint32(buf.Len()/asm.InstructionSize)
	fd, err := load(&attr)
	if err != nil {
		return nil, err
	}
	return ebpf.NewProgramFromFD(fd) // it closes the descriptor if it fails
}

// objectName keeps only the characters that the kernel allows in the names of objects.
func objectName(c rune) rune {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.':
		return c
	}
	return -1
}

// load loads a program. If that fails, it loads it again with the verifier's log.
func load(attr *progLoadAttr) (int, error) {
	fd, err := bpf(cmdProgLoad, unsafe.Pointer(attr), unsafe.Sizeof(*attr))
	if err == nil || errors.Is(err, unix.EPERM) {
		return fd, err
	}
	log := make([]byte, verifierLog)
	attr.logLevel, attr.logSize, attr.logBuf = 1, uint32(len(log)), pointer(log)
	if fd, lerr := bpf(cmdProgLoad, unsafe.Pointer(attr), unsafe.Sizeof(*attr)); lerr == nil {
		return fd, nil // the first failure was temporary, such as EAGAIN
	}
	text, _, _ := bytes.Cut(log, []byte{0})
	if said := strings.TrimSpace(string(text)); said != "" {
		// cilium/ebpf returns this type too, and callers check for it.
		return -1, fmt.Errorf("load program%w",
			&ebpf.VerifierError{Cause: err, Log: strings.Split(said, "\n")})
	}
	return -1, err
}

// byteOrder returns the machine's byte order as one of the two values that cilium/ebpf
// accepts.
func byteOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

// relocate adapts instructions from an object file to the kernel: fields and types by CO-RE,
// and calls of kfuncs, which the object file has by name.
func relocate(ins asm.Instructions, types *btf.Spec, b *btf.Builder) error {
	var relos []*btf.CORERelocation
	var at []*asm.Instruction
	for it := ins.Iterate(); it.Next(); {
		if r := btf.CORERelocationMetadata(it.Ins); r != nil {
			relos, at = append(relos, r), append(at, it.Ins)
		}
		if it.Ins.IsKfuncCall() && it.Ins.Constant < 0 {
			var f *btf.Func
			if err := types.TypeByName(it.Ins.Reference(), &f); err != nil {
				return fmt.Errorf("kernel function %q: %w", it.Ins.Reference(), err)
			}
			id, err := types.TypeID(f)
			if err != nil {
				return err
			}
			it.Ins.Constant, it.Ins.Offset = int64(id), 0
		}
	}
	if len(relos) == 0 {
		return nil
	}
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{types}, byteOrder(), b.Add)
	if err != nil {
		return fmt.Errorf("CO-RE: %w", err)
	}
	for i := range fixups {
		if err := fixups[i].Apply(at[i]); err != nil {
			return fmt.Errorf("CO-RE: %s: %w", relos[i], err)
		}
	}
	return nil
}
