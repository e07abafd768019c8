// Ext4slower prints reads, writes, opens and syncs of files on ext4 that take longer than a
// threshold.
//
//	# ext4slower -replay testdata/writes
//	Tracing ext4 operations slower than 0 ms... Hit Ctrl-C to end.
//	TIME     COMM           PID     T BYTES   OFF_KB   LAT(ms) FILENAME
//	16:53:37 examples_ext4sl 206     O 0       0           2.68 known
//	16:53:37 examples_ext4sl 206     W 100     0           6.53 known
//	16:53:37 examples_ext4sl 206     R 50      0           1.77 known
//	16:53:37 examples_ext4sl 206     S 0       0          40.05 known
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("ext4slower", run)) }

// call is the state that is kept from a call to its return.
type call struct {
	Nsecs, File uint64
	Offset      int64
}

// slow is an operation that took long.
type slow struct {
	Nsecs, Duration uint64
	Offset, Ret     int64
	PID             uint32
	Op              uint32 // an index into operations
	Comm            action.Comm
	Name            [64]byte
}

// operations are the traced functions of ext4. file is the index of the argument with the
// file; for reads and writes (kiocb) the file is in a struct kiocb.
var operations = []struct {
	letter, function string
	file             int
	kiocb            bool
}{
	{"R", "ext4_file_read_iter", 0, true},
	{"W", "ext4_file_write_iter", 0, true},
	{"O", "ext4_file_open", 1, false},
	{"S", "ext4_sync_file", 0, false},
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid      *int
	csv      *bool
	shortest float64 // milliseconds
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, events := o.program()
	start := fmt.Sprintf("Tracing ext4 operations slower than %g ms", o.shortest)
	return o.Run(ctx, stdout, start, func(r *tool.Run) error { return o.show(r, events) }, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("ext4slower",
		"Trace ext4 reads, writes, opens and syncs that take longer than MIN_MS (10).",
		"ext4slower 1", "longer than 1 ms",
		"ext4slower -j 0", "all, as comma-separated values")
	t.Operands("[MIN_MS]", 0, 1)
	o := &options{Tool: t, pid: t.PID()}
	o.csv = t.Bool("j,csv", "comma-separated values, times in microseconds")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return nil, err
	}
	least := append(t.Args(), "10")[0]
	var err error
	if o.shortest, err = strconv.ParseFloat(least, 64); err != nil || o.shortest < 0 {
		return nil, t.Usagef("%q is not a number of milliseconds", least)
	}
	return o, nil
}

// program emits the operations that took long.
func (o *options) program() (*action.Program, *action.Events[slow]) {
	calls := action.NewPair[call]("calls", 0)
	events := action.NewEvents[slow]("slow", 1<<20)
	p := action.NewProgram("ext4slower")
	for i, op := range operations {
		p.On(probe.Fentry{Symbol: op.function}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			file, offset := c.Arg(op.file), c.Const(0)
			if op.kiocb {
				iocb := file.Ptr()
				file, offset = iocb.Member("ki_filp"), iocb.Member("ki_pos")
			}
			calls.Enter(c, action.Key(c.Nsecs(), file.As(ir.Uint64Type()), offset))
		})
		p.On(probe.Fexit{Symbol: op.function}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			calls.Leave(c, func(v action.Int) {
				took := c.Let(c.Nsecs().Sub(v.Elem("Nsecs")))
				c.ReturnUnless(took.Ge(int64(o.shortest * 1e6)))
				file := v.Elem("File").PtrTo("struct file", false)
				events.Emit(c, func(e *slow, b *action.Bind) {
					b.Set(&e.Nsecs, c.Nsecs())
					b.Set(&e.Duration, took)
					b.Set(&e.Offset, v.Elem("Offset"))
					b.Set(&e.Ret, c.Ret())
					b.Set(&e.PID, c.PID())
					b.Set(&e.Op, i)
					b.Set(&e.Comm, c.Comm())
					b.Set(&e.Name, file.Member("f_path.dentry->d_name.name").Str(64))
				})
			})
		})
	}
	return p, events
}

// show prints operations when they end.
func (o *options) show(r *tool.Run, events *action.Events[slow]) error {
	tab := r.Table("TIME %-8s", "COMM %-14s", "PID %-7d", "T %-1s", "BYTES %-7d", "OFF_KB %-8d",
		"LAT(ms) %7.2f", "FILENAME %s")
	if *o.csv {
		r.Printf("ENDTIME_us,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n")
	} else {
		tab.Header()
	}
	return tool.Each(r, events, func(e *slow) error {
		op, name, bytes := operations[e.Op], action.Text(e.Name[:]), int64(0)
		if op.kiocb {
			bytes = max(e.Ret, 0)
		}
		if *o.csv && !o.JSON() {
			r.Printf("%d,%s,%d,%s,%d,%d,%d,%s\n", e.Nsecs/1000, e.Comm, e.PID, op.letter, bytes, e.Offset,
				e.Duration/1000, name)
			return nil
		}
		return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), e.Comm, e.PID, op.letter, bytes, e.Offset/1024,
			float64(e.Duration)/1e6, name)
	})
}
