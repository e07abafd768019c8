// Filetop prints the files with the most reads and writes, and their threads, once a
// second.
//
//	# filetop
//	Tracing reads and writes of files... Hit Ctrl-C to end.
//	19:31:56 loadavg: 18.89 17.93 13.81 15/216 5007
//
//	TID     COMM             READS  WRITES R_Kb    W_Kb    T FILE
//	5003    filetop.test     46     23     46      92      R borescope-filetop
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("filetop", run)) }

// file is the key of a sum: a file, a thread that uses it, and which of their sums it is.
type file struct {
	Inode     uint64
	Dev, TID  uint32
	Type, Sum uint32 // S_IFMT of its mode; reads to wbytes
	Comm      action.Comm
	Name      [40]byte
}

// The sums of a file.
const (
	reads = iota
	rbytes
	writes
	wbytes
	sumsOfFile
)

// S_IFMT, S_IFREG and S_IFSOCK of include/uapi/linux/stat.h.
const format, regular, socket = 0o170000, 0o100000, 0o140000

// orders are the sort keys of -s.
var orders = map[string]func(u []int64) int64{
	"all": func(u []int64) int64 { return u[reads] + u[writes] + u[rbytes] + u[wbytes] },
	"reads": func(u []int64) int64 {
		return u[reads]
	}, "writes": func(u []int64) int64 { return u[writes] },
	"rbytes": func(u []int64) int64 {
		return u[rbytes]
	}, "wbytes": func(u []int64) int64 { return u[wbytes] },
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, most *int
	all       *bool
	order     func(u []int64) int64
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	sums := action.NewSum[file]("sums", 1<<14)
	sums.Flip()
	return o.Run(ctx, stdout, "Tracing reads and writes of files", func(r *tool.Run) error {
		return o.show(r, sums)
	}, o.programs(sums)...)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("filetop", "Show which files are read and written, by thread, the most used first.",
		"filetop -C 5 12", "every five seconds for a minute, one below the other",
		"filetop -s reads -r 5", "the five files that are read most often")
	o := &options{
		Tool:  t,
		pid:   t.PID(),
		all:   t.Bool("a,all-files", "with sockets, pipes and other files that are not regular"),
		most:  t.Int("r,maxrows", "ROWS", 20, "print up to ROWS rows"),
		order: orders["all"],
	}
	t.Func("s,sort", "COLUMN", "sort by all, reads, writes, rbytes or wbytes", func(s string) error {
		if o.order = orders[s]; o.order == nil {
			return fmt.Errorf("%q is not a column", s)
		}
		return nil
	})
	t.Redraw()
	t.Interval(time.Second)
	return o, t.Parse(args, stdout)
}

// programs returns programs that add up at the kernel's functions or, if these cannot
// be traced, at the system calls.
func (o *options) programs(sums *action.Aggregate[file]) []*action.Program {
	functions, calls := action.NewProgram("filetop"), action.NewProgram("filetop")
	for i, does := range []string{"read", "write"} {
		functions.On(probe.Fentry{Symbol: "vfs_" + does}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			o.add(c, sums, c.Arg(0).Ptr(), 2*i, c.Arg(2))
		})
		calls.On(tool.Tracepoints("syscalls", "sys_enter_"+does, "sys_enter_p"+does+"64"),
			func(c *action.Ctx) {
				tool.FilterPID(c, *o.pid)
				table, fd := c.CurTask().Member("files->fdt").Ptr(), c.Let(c.Field("fd"))
				c.ReturnUnless(fd.Ge(0).And(fd.Lt(table.Member("max_fds"))))
				f := table.Member("fd").Ptr().Index(fd).Ptr()
				c.ReturnUnless(f.Ne(0)) // the descriptor is not open
				o.add(c, sums, f, 2*i, c.Field("count"))
			})
	}
	return []*action.Program{functions, calls}
}

// add makes an action add 1 to the sum of a file with number sum, and bytes to the next one.
func (o *options) add(c *action.Ctx, sums *action.Aggregate[file], f action.Ptr, sum int,
	bytes action.Int,
) {
	kind := c.Let(f.Member("f_inode->i_mode").And(format))
	if !*o.all {
		c.ReturnUnless(kind.Eq(regular))
	}
	inode, dev, name := f.Member("f_inode->i_ino"), f.Member("f_inode->i_sb->s_dev"),
		f.Member("f_path.dentry->d_name.name").Str(40)
	for i, n := range []action.Int{c.Const(1), bytes} {
		sums.Observe(c, n, inode, dev, c.TID(), kind, sum+i, c.Comm(), name)
	}
}

// show prints the files of every interval.
func (o *options) show(r *tool.Run, sums *action.Aggregate[file]) error {
	tab := r.Table("TID %-7d", "COMM %-16s", "READS %-6d", "WRITES %-6d", "R_Kb %-7d", "W_Kb %-7d",
		"T %-1s", "FILE %s")
	return tool.EachSums(r, sums, func(now map[file]int64) error {
		err := r.Loadavg()
		tab.Header()
		rows := tool.Rows(now, sumsOfFile, func(f *file) *uint32 { return &f.Sum })
		files := tool.Largest(rows, o.order)
		for _, f := range files[:min(*o.most, len(files))] {
			u, kind := rows[f], map[uint32]string{regular: "R", socket: "S"}[f.Type]
			tab.Row(f.TID, f.Comm, u[reads], u[writes], u[rbytes]/1024, u[wbytes]/1024, cmp.Or(kind, "O"),
				action.Text(f.Name[:]))
		}
		r.Printf("\n")
		return err
	})
}
