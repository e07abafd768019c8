package script

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Refusal returns what bpftrace says of an error of Compile or Run, with what is known of the cause
// as a hint: of a script that is wrong, and of a probe that cannot be where the script has it. It is
// nil for other errors.
func Refusal(err error) syntax.Errors {
	if wrong, ok := errors.AsType[syntax.Errors](err); ok {
		return wrong
	}
	refused, ok := errors.AsType[*probe.TargetError](err)
	if !ok || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	name := refused.Target.String()
	if k, ok := refused.Target.(probe.Kprobe); ok && k.Symbol == "" {
		name = "kprobe:" + strconv.FormatUint(k.Address, 10)
	}
	last := &syntax.Error{Msg: "Unable to attach probe: " + name + ". If this is expected, set the " +
		"'missing_probes' config variable to 'warn'."}
	said := syntax.Errors{last}
	if why := misplaced(refused); why != "" {
		said = syntax.Errors{{Msg: why}, last}
	}
	last.Hints = []string{refused.Err.Error()}
	return said
}

// misplaced returns what bpftrace says of a place that no probe can be at, "" if it is none.
func misplaced(refused *probe.TargetError) string {
	const unsafe = "\nUse --unsafe to force attachment. WARNING: This option could lead to data corruption " +
		"in the target process."
	beyond, _ := errors.AsType[*usercode.BeyondError](refused.Err)
	_, inside := errors.AsType[*usercode.InsideError](refused.Err)
	if beyond != nil {
		return fmt.Sprintf("Offset outside the function bounds ('%s' size is %d)", beyond.Function, beyond.Size)
	}
	switch t := refused.Target.(type) {
	case probe.Kprobe:
		if inside || errors.Is(refused.Err, syscall.EILSEQ) {
			return "Possible attachment attempt in the middle of an instruction, try a different offset."
		}
	case probe.Uprobe:
		switch {
		case inside:
			return fmt.Sprintf("Could not add uprobe into middle of instruction: %s:%s+%d", t.Path, t.Symbol, t.Offset) + unsafe
		case t.Symbol == "" && t.File == "":
			return fmt.Sprintf("Could not resolve address: %s:%#x", t.Path, t.Address)
		}
	}
	return ""
}

// absentSymbols returns the errors for kernel symbols whose addresses a script takes and that the
// machine does not have.
func absentSymbols(f *syntax.File, env *probe.Env) (absent syntax.Errors) {
	calls := map[string][]*syntax.Call{}
	var names []string
	for n := range syntax.All(f) {
		c, ok := n.(*syntax.Call)
		if !ok || c.Name != "kaddr" || len(c.Args) != 1 {
			continue
		}
		if s, ok := c.Args[0].(*syntax.String); ok {
			calls[s.Value] = append(calls[s.Value], c)
			names = append(names, s.Value)
		}
	}
	if len(names) == 0 {
		return nil
	}
	have, err := env.KernelAddresses(names...)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if _, ok := have[name]; ok || calls[name] == nil {
			continue
		}
		hint := env.MissingSymbol(name)
		for _, c := range calls[name] {
			absent = append(absent, &syntax.Error{
				Loc: c.Loc, Msg: "Failed to resolve kernel symbol: " + name, Hints: []string{hint.Error()},
			})
		}
		delete(calls, name)
	}
	return absent
}

// misusedPath returns bpftrace's error for a path() in a probe where the kernel does not let programs
// ask for one, nil if err is another one.
func misusedPath(f *syntax.File, err error) *syntax.Error {
	at, ok := errors.AsType[*ir.Error](err)
	lacks, unsupported := errors.AsType[*probe.UnsupportedError](err)
	if !ok || !unsupported || lacks.Feature != "path" {
		return nil
	}
	for n := range syntax.All(f) {
		c, ok := n.(*syntax.Call)
		if !ok || c.Name != "path" || c.Loc.In == nil {
			continue
		}
		if line, column := c.Loc.In.Position(int(c.Loc.Start)); line == at.Pos.Line && column == at.Pos.Col {
			return &syntax.Error{Loc: c.Loc, Msg: "helper bpf_d_path not allowed in probe", Hints: []string{lacks.Hint}}
		}
	}
	return nil
}
