package probe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/internal/spelling"
)

// String is "kprobe:[MODULE:]SYMBOL[+OFFSET]" or "kprobe:0xADDRESS".
func (t Kprobe) String() string {
	if t.Symbol == "" {
		return fmt.Sprintf("kprobe:%#x", t.Address)
	}
	return "kprobe:" + spelling.ModuleSymbol(t.Module, t.Symbol) + spelling.PlusOffset(t.Offset)
}

// String is "kretprobe:[MODULE:]SYMBOL[ maxactive=N]".
func (t Kretprobe) String() string {
	s := "kretprobe:" + spelling.ModuleSymbol(t.Module, t.Symbol)
	if t.MaxActive != 0 {
		s += " maxactive=" + strconv.Itoa(t.MaxActive)
	}
	return s
}

// String is "fentry:[MODULE:]SYMBOL" or "fentry:bpf:ID:NAME".
func (t Fentry) String() string { return "fentry:" + trampolineTarget(t.Module, t.Symbol, t.BPF) }

// String is "fexit:[MODULE:]SYMBOL" or "fexit:bpf:ID:NAME".
func (t Fexit) String() string { return "fexit:" + trampolineTarget(t.Module, t.Symbol, t.BPF) }

// String is "fmod_ret:[MODULE:]SYMBOL".
func (t FmodRet) String() string { return "fmod_ret:" + spelling.ModuleSymbol(t.Module, t.Symbol) }

// String is "lsm:HOOK".
func (t LSM) String() string { return "lsm:" + spelling.Quote(t.Hook) }

// String is "tracepoint:GROUP:NAME[ sleepable]".
func (t Tracepoint) String() string {
	return "tracepoint:" + spelling.Quote(t.Group) + ":" + spelling.Quote(t.Name) + sleepable(t.Sleepable)
}

// String is "rawtracepoint:[MODULE:]NAME[ sleepable]".
func (t RawTracepoint) String() string {
	return "rawtracepoint:" + spelling.ModuleSymbol(t.Module, t.Name) + sleepable(t.Sleepable)
}

// String is "uprobe:PATH:SYMBOL[+OFFSET]", "uprobe:PATH:LANG:SYMBOL",
// "uprobe:PATH:FILE:LINE[:COLUMN]" or "uprobe:PATH:0xADDRESS", with " pid=N".
func (t Uprobe) String() string {
	s := "uprobe:" + spelling.Quote(t.Path) + ":"
	switch {
	case t.Symbol != "":
		s += userSymbol(t.Lang, t.Symbol) + spelling.PlusOffset(t.Offset)
	case t.File != "":
		s += quoteFile(t.File) + ":" + strconv.Itoa(t.Line)
		if t.Column != 0 {
			s += ":" + strconv.Itoa(t.Column)
		}
	default:
		s += fmt.Sprintf("0x%x", t.Address)
	}
	return s + pid(t.PID)
}

// String is "uretprobe:PATH:SYMBOL" or "uretprobe:PATH:LANG:SYMBOL", with " pid=N".
func (t Uretprobe) String() string {
	return "uretprobe:" + spelling.Quote(t.Path) + ":" + userSymbol(t.Lang, t.Symbol) + pid(t.PID)
}

// String is "usdt:PATH:PROVIDER:NAME" or "usdt:PATH:NAME", with " pid=N".
func (t USDT) String() string {
	s := "usdt:" + spelling.Quote(t.Path) + ":"
	if t.Provider != "" {
		s += spelling.Quote(t.Provider) + ":"
	}
	return s + spelling.Quote(t.Name) + pid(t.PID)
}

// String is "watchpoint:ADDRESS:LENGTH:MODE", with " pid=N".
func (t Watchpoint) String() string {
	where := fmt.Sprintf("0x%x", t.Address)
	if t.Symbol != "" {
		where = spelling.QuoteName(t.Symbol)
	}
	return fmt.Sprintf("watchpoint:%s:%d:%s%s", where, t.Length, t.Mode, pid(t.PID))
}

// String is "iter:NAME", with " pid=N".
func (t Iter) String() string { return "iter:" + spelling.Quote(t.Name) + pid(t.PID) }

// String is "socket:INTERFACE".
func (t SocketFilter) String() string { return "socket:" + spelling.Quote(t.Interface) }

// String is "begin".
func (Begin) String() string { return "begin" }

// String is "end".
func (End) String() string { return "end" }

// String is the targets, separated by commas.
func (t Set) String() string {
	names := make([]string, len(t))
	for i, m := range t {
		names[i] = m.String()
	}
	return strings.Join(names, ",")
}

func trampolineTarget(module, symbol string, id uint32) string {
	if id != 0 {
		return fmt.Sprintf("bpf:%d:%s", id, spelling.QuoteName(symbol))
	}
	return spelling.ModuleSymbol(module, symbol)
}

// quoteFile quotes a file name that would be read as a language.
func quoteFile(t string) string {
	if langs[t] {
		return strconv.Quote(t)
	}
	return spelling.Quote(t)
}

func userSymbol(lang, symbol string) string {
	if lang == "" {
		return spelling.QuoteName(symbol)
	}
	// A colon at the end would be read as an empty part.
	if spelling.Plain(symbol, true) && !strings.HasSuffix(symbol, ":") {
		return lang + ":" + symbol
	}
	return lang + ":" + strconv.Quote(symbol)
}

func sleepable(on bool) string {
	if on {
		return " sleepable"
	}
	return ""
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return " pid=" + strconv.Itoa(n)
}
