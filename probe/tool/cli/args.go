package cli

import (
	"flag"
	"strings"
)

// Letters takes apart what getopt(3) takes apart and package flag does not: -lv becomes -l -v,
// and -p181 becomes -p 181. A value is only cut off at its first digit: what else stands behind
// a letter is more likely a mistake. Arguments behind "--" stay.
func Letters(fs *flag.FlagSet, args []string) []string {
	var out []string
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		out = append(out, letters(fs, a)...)
	}
	return out
}

func letters(fs *flag.FlagSet, arg string) []string {
	if len(arg) < 3 || arg[0] != '-' || fs.Lookup(arg[1:]) != nil {
		return []string{arg}
	}
	var out []string
	for i, r := range arg[1:] {
		f := fs.Lookup(string(r))
		if f == nil {
			return []string{arg}
		}
		out = append(out, "-"+string(r))
		value := arg[1+i+len(string(r)):]
		switch {
		case !takesValue(f):
		case value == "": // it is the next argument
			return out
		case value[0] < '0' || value[0] > '9':
			return []string{arg}
		default:
			return append(out, value)
		}
	}
	return out
}

// Permute splits a command line, as getopt_long(3) permutes it, into flags with their values,
// for fs, the operands between and behind them, and what stands behind "--". long are other names of
// flags, with the names that fs has.
func Permute(fs *flag.FlagSet, long map[string]string, args []string) (flags, operands, rest []string) {
	args = Letters(fs, args)
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return flags, operands, args[i+1:]
		case len(a) < 2 || a[0] != '-':
			operands = append(operands, a)
			continue
		}
		name, value, valued := strings.Cut(strings.TrimPrefix(a[1:], "-"), "=")
		if short, ok := long[name]; ok {
			if name, a = short, "-"+short; valued {
				a += "=" + value
			}
		}
		flags = append(flags, a)
		if valued {
			continue
		}
		f := fs.Lookup(name)
		if f != nil && takesValue(f) && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	return flags, operands, nil
}

func takesValue(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
