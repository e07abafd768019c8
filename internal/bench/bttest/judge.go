package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/feature"
)

// These are the outcomes of a case.
const (
	passes  = "passes"
	fails   = "fails"
	notHere = "not here"     // the kernel or the machine lacks something
	notYet  = "needs a form" // that programs of scripts do not have
)

// verdict is what came of a case, and why.
type verdict struct{ outcome, cause string }

// place is where cases run.
type place struct {
	guest   bool // of internal/vmtest, which may be harmed
	missing map[string]string
	tested  map[string]error // features
}

func newPlace(dir string) (*place, error) {
	p := &place{guest: os.Getenv("BORESCOPE_GUEST") != "", tested: map[string]error{}}
	b, err := os.ReadFile(path.Join(dir, unbuilt))
	if err != nil {
		return nil, err
	}
	return p, json.Unmarshal(b, &p.missing)
}

// features are the library's names of what the suite requires. Nil is what all kernels have, or what bt
// does itself.
var features = map[string]func() error{
	"loop": nil, "probe_read_kernel": nil, "signal": nil, "jiffies64": nil,
	"dwarf": nil, "libpath_resolv": nil, "dwunwind": nil,
	"btf":                of(feature.BTF),
	"fentry":             of(feature.Fentry),
	"dpath":              of(feature.Fentry), // in which the suite uses it
	"skboutput":          of(feature.Fentry),
	"iter":               of(feature.Iter),
	"kprobe_multi":       of(feature.KprobeMulti),
	"kprobe_session":     of(feature.KprobeSession),
	"uprobe_multi":       of(feature.UprobeMulti),
	"get_tai_ns":         of(feature.KtimeTAI),
	"get_func_ip":        of(feature.GetFuncIP),
	"lookup_percpu_elem": of(feature.PerCPUMapLookup),
	"aot":                func() error { return errors.New("bt makes no programs ahead of time") },
}

func of(f feature.Feature) func() error { return func() error { return feature.Test(f) } }

// lacks returns why a case cannot run in this place, or "".
func (p *place) lacks(r *runner, c *testCase) string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if len(c.arch) > 0 && !slices.Contains(c.arch, machine) {
		return "it is for " + strings.Join(c.arch, ", ")
	}
	if c.kernelMin != "" && !feature.KernelAtLeast(c.kernelMin) {
		return "it is for kernels since " + c.kernelMin
	}
	if c.kernelMax != "" && feature.KernelAtLeast(c.kernelMax) {
		return "it is for kernels up to " + c.kernelMax
	}
	if name, value, _ := strings.Cut(c.skipEnv, "="); name != "" && os.Getenv(name) == value {
		return "the environment has " + c.skipEnv
	}
	text := r.text(c)
	if why := harmful(c, text); why != "" && !p.guest {
		return "only in a guest: " + why
	}
	for _, name := range mentioned.FindAllString(text, -1) {
		if why, ok := p.missing[name]; ok {
			return name + " was not built: " + why
		}
	}
	for _, name := range c.features {
		wanted := strings.TrimPrefix(name, "!")
		test, known := features[wanted]
		if !known {
			return "no feature is called " + wanted
		}
		err := p.test(wanted, test)
		switch {
		case wanted != name && err == nil:
			return "it is for kernels without " + wanted
		case wanted == name && err != nil:
			return wanted + ": " + feature.Reason(err)
		}
	}
	for _, line := range c.requires {
		if err := r.shell(line); err != nil {
			return "it requires: " + line
		}
	}
	return ""
}

// test tests a feature once.
func (p *place) test(name string, test func() error) error {
	err, ok := p.tested[name]
	if !ok && test != nil {
		err = test()
	}
	p.tested[name] = err
	return err
}

// confirms reports whether the library finds, too, that a feature is not here which bt says is not
// supported. bt also says so of what no kernel supports, and that is no excuse.
func (p *place) confirms(name string) bool {
	f, err := feature.Parse(name)
	return err == nil && p.test(name, of(f)) != nil
}

// kinds are the probes that not every kernel has.
var kinds = []struct {
	spelled *regexp.Regexp
	name    string
	test    func() error
}{
	{spelled("kprobes?|kretprobe", "k|kr"), "kprobe", of(feature.Kprobe)},
	{spelled("fentry|fexit|kfunc|kretfunc", "f|fr"), "fentry", of(feature.Fentry)},
	{spelled("iter", "it"), "iter", of(feature.Iter)},
	{spelled("hardware", "h"), "hardware", of(feature.HardwarePMU)},
	{watchpoint, "watchpoint", of(feature.Watchpoint)},
}

// spelled finds kinds of probes, which have to stand where a probe begins, and a target after them; a
// member of a struct has a number there. They are also looked for in lists.
func spelled(long, short string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\s'"},;])(?:(?:` + long + `):[^\s\d]|(?:` + short + `):[*\pL]|(?:` + long + `)\*)|grep (?:` + long + `)\b`)
}

// lacksKind returns why probes of a kind that a case has are not here, or "". Those that bt has listed
// are.
func (p *place) lacksKind(text string, res *result) string {
	for _, k := range kinds {
		listed := res.status == 0 && strings.Contains("\n"+res.output, "\n"+k.name+":") ||
			k.name == "hardware" && strings.Contains(text, "{{BPFTRACE}} -l") // that needs no PMU
		if k.spelled.MatchString(text) && !listed {
			if err := p.test(k.name, k.test); err != nil {
				return k.name + ": " + feature.Reason(err)
			}
		}
	}
	return ""
}

// mentioned are the suite's programs and libraries in a case.
var mentioned = regexp.MustCompile(`testprogs/[\w./-]*[\w-]|testlibs/[\w./-]*[\w-]`)

var scriptFile = regexp.MustCompile(`runtime/scripts/\w+\.bt`)

// text returns all that a case runs.
func (r *runner) text(c *testCase) string {
	text := strings.Join(append([]string{c.run, c.prog, c.after, c.setup, c.cleanup}, c.befores...), "\n")
	for _, name := range scriptFile.FindAllString(text, -1) {
		if b, err := os.ReadFile(path.Join(r.dir, name)); err == nil {
			text += "\n" + string(b)
		}
	}
	return text
}

var (
	userProbe  = regexp.MustCompile(`\b(?:u|ur|uprobe|uretprobe|usdt|U):"?([^\s:"{}]*):`)
	watchpoint = regexp.MustCompile(`\b(?:w|aw|watchpoint|asyncwatchpoint):`)
	writesSys  = regexp.MustCompile(`>\s*/(?:sys|proc)/`)
)

// harmful returns what a case does that a machine in use must not have done to it, or "".
func harmful(c *testCase, text string) string {
	for _, m := range userProbe.FindAllStringSubmatch(text, -1) {
		file := m[1]
		if strings.Trim(file, "*") != "" && !strings.Contains(file, programDir) && !strings.Contains(file, libraryDir) &&
			!strings.HasPrefix(file, "/tmp/") && !strings.HasPrefix(file, "/proc/") {
			return "it probes " + file + ", which other processes run"
		}
	}
	switch {
	case watchpoint.MatchString(text):
		return "it uses the processor's watchpoints"
	case writesSys.MatchString(text):
		return "it clears the kernel's trace"
	case c.setup != "":
		return "it sets the machine up: " + c.setup
	case c.cleanup != "" && !strings.HasPrefix(c.cleanup, "rm "):
		return "it changes the machine: " + c.cleanup
	}
	return ""
}

var (
	aForm       = regexp.MustCompile(`(?m)ERROR: (.*) is not supported in programs yet`)
	unsupported = regexp.MustCompile(`(?m)^bt: .*?([\w-]+(?: [\w-]+)?): not supported: (.*)$`)
	symbols     = regexp.MustCompile(`no kernel symbol (\w+)`)
	aFlag       = regexp.MustCompile(`(?m)^bt: flag provided but not defined: (\S+)`)
	anError     = regexp.MustCompile(`(?m)^(?:bt: .*|.*ERROR: .*)$`)
)

// judge says what came of a case.
func (p *place) judge(fsys fs.FS, c *testCase, text string, res *result) verdict {
	why := res.trouble
	if why == "" {
		why = c.unmet(fsys, res.output)
	}
	if why == "" && !res.timedOut {
		switch {
		case c.willFail && res.status == 0:
			why = "ends with status 0"
		case !c.willFail && res.status != c.status:
			why = fmt.Sprintf("ends with status %d", res.status)
		}
	}
	if why == "" && !c.willFail {
		return verdict{outcome: passes}
	}
	// A case that wants an error may have got another than it means.
	if m := aForm.FindStringSubmatch(res.output); m != nil {
		return verdict{notYet, m[1]}
	}
	if m := unsupported.FindStringSubmatch(res.output); m != nil && p.confirms(m[1]) {
		return verdict{notHere, m[1] + ": " + m[2]}
	}
	if why == "" {
		return verdict{outcome: passes}
	}
	if m := aFlag.FindStringSubmatch(res.output); m != nil {
		return verdict{fails, "bt has no flag " + m[1]}
	}
	for _, m := range symbols.FindAllStringSubmatch(res.output, -1) {
		if !c.willFail && !kernelHas(m[1]) {
			return verdict{notHere, "the kernel does not say where " + m[1] + " is"}
		}
	}
	for _, e := range c.expects {
		if !strings.HasSuffix(e.mode, "_NONE") {
			text += "\n" + e.text // what a list has to have
		}
	}
	if why := p.lacksKind(text, res); why != "" {
		return verdict{notHere, why}
	}
	if m := anError.FindString(res.output); m != "" && !c.willFail {
		return verdict{fails, m}
	}
	if res.timedOut {
		why += ", until its time was over"
	}
	return verdict{fails, why}
}

// kernelHas reports whether the kernel says where a symbol is.
func kernelHas(symbol string) bool {
	b, err := os.ReadFile("/proc/kallsyms")
	return err == nil && strings.Contains(string(b), " "+symbol+"\n")
}
