package profile

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/escape"
)

// WritePerfScript writes the profile in the form in which "perf script" prints samples, for
// FlameScope, speedscope, stackcollapse-perf.pl and others. The event is named event
// ("cpu-clock" if empty), and its period is the value of index value. Times are those of
// the samples (FlameScope needs samples that were not merged).
func (p *Profile) WritePerfScript(w io.Writer, event string, value int) error {
	if err := p.check(); err != nil {
		return err
	}
	if value < 0 || value >= len(p.types()) {
		return fmt.Errorf("perf script: no value %d", value)
	}
	if event == "" {
		event = "cpu-clock"
	}
	event = strings.ReplaceAll(escape.Terminal(event), " ", "_")
	bw := bufio.NewWriter(w)
	for i := range p.Samples {
		s := &p.Samples[i]
		fmt.Fprintf(bw, "%s %7d/%d [%03d] %d.%06d: %10d %s: \n", escape.Terminal(s.title(&FoldOptions{})),
			s.PID, s.TID, s.CPU,
			s.Time/time.Second, s.Time%time.Second/time.Microsecond, s.Values[value], event)
		for _, fr := range s.Frames {
			fr.perfScript(bw)
		}
		_ = bw.WriteByte('\n')
	}
	return bw.Flush()
}

func (fr *NamedFrame) perfScript(w io.Writer) {
	module := fr.module()
	switch {
	case module == "":
		module = "[unknown]"
	case fr.Kind == FrameKernel && module == "[kernel]":
		module = "[kernel.kallsyms]" // what the readers of this format look for
	}
	for i, fn := range fr.Functions {
		if fn.Name == "" {
			fn.Name = unknownFrame
		}
		if i < len(fr.Functions)-1 {
			fmt.Fprintf(w, "\t%16x %s (inlined)\n", fr.PC, escape.Terminal(fn.Name))
		} else {
			fmt.Fprintf(w, "\t%16x %s+0x%x (%s)\n", fr.PC, escape.Terminal(fn.Name), fn.Offset,
				escape.Terminal(module))
		}
	}
	if len(fr.Functions) == 0 {
		fmt.Fprintf(w, "\t%16x [unknown] (%s)\n", fr.PC, escape.Terminal(module))
	}
}
