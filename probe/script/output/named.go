package output

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/types"
	"github.com/borescope/borescope/probe/sysnames"
)

// named returns the text of a number that stands for a name.
func (o *Options) named(t types.Type, v bpf.Value) any {
	switch t.Kind {
	case types.Timestamp:
		at := time.Unix(0, v.Int())
		if o.Time != nil {
			at = o.Time(t.Mode, uint64(v.Int()))
		}
		return Strftime(t.Name, at)
	case types.Ksym:
		return o.function(uint64(v.Int()), o.kernel)
	case types.Usym:
		return o.function(uint64(v.Elem(0).Int()), o.user(Process(v.Elem(1).Int())))
	case types.Kstack:
		return o.stack(t, v.PCs(), o.kernel)
	case types.Ustack:
		p, pcs := Process(v.Elem(0).Int()), v.Elem(1).PCs()
		if t.Mode == "build_id" {
			return o.places(p, pcs)
		}
		return o.stack(t, pcs, o.user(p))
	case types.Inet:
		return inet(uint64(v.Elem(0).Int()), []byte(v.Elem(1).Raw))
	case types.MAC:
		var parts []string
		for _, b := range []byte(v.Raw) {
			parts = append(parts, fmt.Sprintf("%02X", b))
		}
		return strings.Join(parts, ":")
	case types.Username:
		if o.Names != nil {
			return o.safe(o.Names.Username(uint64(v.Int())))
		}
	case types.CgroupPath:
		if o.Names != nil {
			return o.safe(o.Names.Cgroup(uint64(v.Int())))
		}
	}
	return fmt.Sprintf("%x", v.Raw)
}

// comm returns the name of a process as comm(pid) does.
func (o *Options) comm(id int) string {
	if o.Names != nil {
		if name := o.Names.Comm(id); name != "" {
			return o.safe(name)
		}
	}
	return "N/A"
}

// numberName returns the text of a number that a function of the script names; ok reports whether
// kind is such a function.
func numberName(kind string, n int64, arch string) (name string, ok bool) {
	switch kind {
	case "strerror":
		return strerror(n), true
	case "signal_name":
		if n == 0 {
			return "Unknown signal 0", true
		}
		if n > 0 && n < 65 {
			return capital(syscall.Signal(n).String(), "N/A"), true
		}
		return "N/A", true
	case "syscall_name":
		if arch == "" {
			arch = runtime.GOARCH
		}
		if n >= 0 && n < 1<<30 {
			if name := sysnames.Syscall(arch, sysnames.Native, int(n)); !strings.HasPrefix(name, "[") {
				return name, true
			}
		}
		return "Unknown syscall", true
	}
	return "", false
}

// strerror returns the text of an error number of Linux, or of its negative, as the C library has it:
// "No such file or directory"; "Unknown error" for a number that no error has.
func strerror(n int64) string {
	n = max(n, -n)
	switch {
	case n == 0:
		return "Success"
	case n > 0 && n < 4096: // MAX_ERRNO
		return capital(syscall.Errno(n).Error(), "Unknown error")
	}
	return "Unknown error"
}

// Reason returns the text of a system call's error as the C library has it, without what failed; of
// another error it is its text.
func Reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return strerror(int64(number))
	}
	return err.Error()
}

// capital returns a text of Go's with a capital letter, as the C library has it, or other if Go has
// none for the number.
func capital(text, other string) string {
	if text == "" || strings.HasPrefix(text, "errno ") || strings.HasPrefix(text, "signal ") {
		return other
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Families of addresses, of Linux (include/linux/socket.h).
const (
	afINET  = 2
	afINET6 = 10
)

// inet returns the text of an internet address, "" for another family.
func inet(family uint64, b []byte) string {
	switch {
	case family == afINET && len(b) >= 4:
		return netip.AddrFrom4([4]byte(b)).String()
	case family == afINET6 && len(b) >= 16:
		return netip.AddrFrom16([16]byte(b)).String()
	}
	return ""
}

// safe returns text that a terminal does not act on, unless it is to be raw.
func (o *Options) safe(s string) string {
	if o.Raw {
		return s
	}
	return escape.Terminal(s)
}

func (o *Options) kernel(pc uint64) []Function {
	if o.Names == nil {
		return nil
	}
	return o.Names.Kernel(pc)
}

func (o *Options) user(p Process) func(pc uint64) []Function {
	return func(pc uint64) []Function {
		if o.Names == nil {
			return nil
		}
		return o.Names.User(p, pc)
	}
}

// function returns the name of the function at an address, or the address.
func (o *Options) function(pc uint64, names func(uint64) []Function) string {
	list := names(pc)
	if n := len(list); n > 0 && list[n-1].Name != "" {
		return o.safe(list[n-1].Name)
	}
	return address(pc)
}

// address returns an address as C++ prints pointers.
func address(pc uint64) string {
	if pc == 0 {
		return "0"
	}
	return "0x" + strconv.FormatUint(pc, 16)
}

// stack returns the lines of a stack, innermost first, in the layout of its mode.
func (o *Options) stack(t types.Type, pcs []uint64, names func(uint64) []Function) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, pc := range pcs {
		if t.Mode == "raw" {
			b.WriteString(strconv.FormatUint(pc, 16) + "\n")
			continue
		}
		list := names(pc)
		if len(list) == 0 || list[0].Name == "" {
			list = []Function{{}}
		}
		for _, f := range list {
			if t.Mode == "perf" {
				b.WriteString("\t" + strconv.FormatUint(pc, 16) + " " + o.perf(f, pc, t.Kind) + "\n")
			} else {
				b.WriteString("        " + o.frame(f, pc) + "\n")
			}
		}
	}
	return b.String()
}

// places returns a stack of a process as places in files, which name them on any machine.
func (o *Options) places(p Process, pcs []uint64) string {
	b := []byte("\n")
	for _, pc := range pcs {
		id, offset := "", uint64(0)
		if o.Names != nil {
			id, offset = o.Names.FilePlace(p, pc)
		}
		if id == "" {
			b = fmt.Appendf(b, "%x\n", pc)
		} else {
			b = fmt.Appendf(b, "%s 0x%02x\n", id, offset)
		}
	}
	return string(b)
}

// frame returns a frame as bpftrace has it, perf as perf script does.
func (o *Options) frame(f Function, pc uint64) string {
	if f.Name == "" {
		return address(pc)
	}
	text := "[inlined] " + o.safe(f.Name)
	if !f.Inlined {
		text = o.safe(f.Name) + "+" + strconv.FormatUint(f.Offset, 10)
	}
	if f.Line > 0 {
		text += "@" + o.safe(f.File) + ":" + strconv.Itoa(f.Line)
	}
	return text
}

func (o *Options) perf(f Function, pc uint64, k types.Kind) string {
	text := address(pc)
	if f.Name != "" {
		text = o.safe(f.Name) + "+" + strconv.FormatUint(f.Offset, 10)
	}
	switch {
	case f.Inlined:
		return o.safe(f.Name) + " (inlined)"
	case k == types.Kstack:
		return text
	case f.Name == "":
		return text + " ([unknown])"
	}
	return text + " (" + o.safe(f.Module) + ")"
}
