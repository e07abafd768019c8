package action_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// NewLRU makes a map that drops its oldest entries when it is full. This one holds the size
// of each thread's last read.
func ExampleNewLRU() {
	last := action.NewLRU[uint32, uint64]("last", 1024)
	p := action.NewProgram("reads")
	p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) { last.Set(c, c.TID(), c.Ret()) })
	fmt.Print(p)
	// Output:
	// program reads license "Dual MIT/GPL"
	// map last lru[u32] u64 entries 1024
	// kretprobe:vfs_read {
	// 	$t1 = tid
	// 	$t2 = retval
	// 	@last[$t1] = $t2
	// }
}

// NewArray makes a map whose entries always exist. This one holds the bytes read on each CPU.
func ExampleNewArray() {
	bytes := action.NewArray[uint64]("bytes", 64)
	p := action.NewProgram("reads")
	p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Ret().Gt(0))
		bytes.Add(c, c.CPU(), c.Ret())
	})
	fmt.Print(p)
	// Output:
	// program reads license "Dual MIT/GPL"
	// map bytes array[u32] u64 entries 64
	// kretprobe:vfs_read {
	// 	$t1 = retval
	// 	if !($t1 > 0) {
	// 		return
	// 	}
	// 	$t2 = cpu
	// 	$t3 = retval
	// 	@bytes[$t2] += $t3
	// }
}

// NewCell makes a single value that programs share: here the time when the last file was
// opened.
func ExampleNewCell() {
	last := action.NewCell[uint64]("last")
	p := action.NewProgram("opens")
	p.On(probe.Kprobe{Symbol: "do_sys_openat2"}, func(c *action.Ctx) {
		last.Set(c, nil, c.Nsecs())
	})
	fmt.Print(p)
	// Output:
	// program opens license "Dual MIT/GPL"
	// map last array u64 entries 1
	// kprobe:do_sys_openat2 {
	// 	$t1 = nsecs
	// 	@last = $t1
	// }
}

// NewTaskStorage keeps a value with each thread, which ends with the thread. Here it counts
// the system calls between two reads of a thread.
func ExampleNewTaskStorage() {
	calls := action.NewTaskStorage[uint64]("calls")
	between := action.NewHist[action.None]("between", 1)
	p := action.NewProgram("between")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		calls.Add(c, 1)
		c.If(c.Arg(1).Eq(0), func() { // read, on amd64
			between.Observe(c, calls.Get(c))
			calls.Set(c, 0)
		})
	})
	fmt.Print(p)
	// Output:
	// program between license "Dual MIT/GPL"
	// map calls task_storage u64
	// map between percpu_hash hist(0) entries 1
	// rawtracepoint:sys_enter {
	// 	@calls += 1
	// 	$t1 = arg1
	// 	if ($t1 == 0) {
	// 		$t2 = @calls
	// 		@between = hist($t2)
	// 		@calls = 0
	// 	}
	// }
}

// NewPair joins entries and returns of calls. This program measures how long reads take, by
// thread name.
func ExamplePair() {
	type reading struct{ Begun uint64 }
	reads := action.NewPair[reading]("reads", 0)
	usecs := action.NewHist[action.Comm]("usecs", 4096)
	p := action.NewProgram("readlat")
	p.On(probe.Kprobe{Symbol: "vfs_read"}, func(c *action.Ctx) { reads.Enter(c, action.Key(c.Nsecs())) })
	p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		reads.Leave(c, func(v action.Int) {
			usecs.Observe(c, c.Nsecs().Sub(v.Elem("Begun")).Div(1000), c.Comm())
		})
	})
	fmt.Println(usecs.Map())
	// Output: usecs percpu_hash[buf[16]] hist(0) entries 4096
}

// NewHist counts the sizes of writes by process, with four buckets for each power of two.
func ExampleHist() {
	sizes := action.NewHist[uint32]("sizes", 4096).Sub(2)
	p := action.NewProgram("writesize")
	p.On(probe.Kprobe{Symbol: "vfs_write"}, func(c *action.Ctx) { sizes.Observe(c, c.Arg(2), c.PID()) })
	fmt.Println(sizes.Map())
	// Output: sizes percpu_hash[u32] hist(2) entries 4096
}

// Aggregations keep the largest request of each disk, and the mean and number of all.
func ExampleAggregate() {
	largest := action.NewMax[uint32]("largest", 64)
	sizes := action.NewStats[uint32]("sizes", 64)
	p := action.NewProgram("biosize")
	p.On(probe.Tracepoint{Group: "block", Name: "block_rq_issue"}, func(c *action.Ctx) {
		largest.Observe(c, c.Field("bytes"), c.Field("dev"))
		sizes.Observe(c, c.Field("bytes"), c.Field("dev"))
	})
	fmt.Println(largest.Map())
	fmt.Println(sizes.Map())
	// Output:
	// largest percpu_hash[u32] max entries 64
	// sizes percpu_hash[u32] stats entries 64
}

// Member follows pointers, here to the name of the directory that a file is read from, and
// to that of its parent. Each step is a read of kernel memory. If one fails, Stats counts it
// and the value is 0.
func ExamplePtr() {
	dirs := action.NewCounter[[32]byte]("dirs", 4096)
	p := action.NewProgram("dirs")
	p.On(probe.Kprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		dentry := c.Arg(0).PtrTo("struct file", false).Member("f_path.dentry").Ptr()
		parent := dentry.Member("d_parent").Ptr()
		dirs.Inc(c, parent.Member("d_name.name").Str(32))
	})
	fmt.Print(p)
	// Output:
	// program dirs license "Dual MIT/GPL"
	// map dirs percpu_hash[buf[32]] count entries 4096
	// kprobe:vfs_read {
	// 	$t1 = arg0
	// 	$t2 = (ptr(void))$t1->f_path.dentry
	// 	$t3 = $t2->d_parent
	// 	$t4 = $t3->d_name.name
	// 	$t5 = str($t4, 32)
	// 	@dirs[$t5] = count()
	// }
}

// Printf takes the verbs of package fmt. The kernel emits only the values; the reader formats
// them.
func ExampleLog() {
	lines := action.NewLog("lines", 0)
	p := action.NewProgram("kills")
	p.On(probe.Tracepoint{Group: "signal", Name: "signal_generate"}, func(c *action.Ctx) {
		lines.Printf(c, "%s (%d) sends signal %d to %d", c.Comm(), c.PID(), c.Field("sig"), c.Field("pid"))
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		log.Fatal(err) // which capability, feature or name is missing
	}
	defer s.Close()
	r, err := lines.Open(s)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var line string
		lost, err := r.Read(ctx, &line)
		if err != nil {
			break // the minute is over
		}
		fmt.Println(line)
		if lost > 0 {
			fmt.Println(lost, "lines were lost before it")
		}
	}
}

// Events are Go values. Open reads them from an attached program or from its recording.
func ExampleEvents_Open() {
	type exit struct {
		PID  uint32
		Code int32
		Comm action.Comm
	}
	exits := action.NewEvents[exit]("exits", 0)
	p := action.NewProgram("exits")
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_exit"}, func(c *action.Ctx) {
		exits.Emit(c, func(e *exit, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.Code, c.CurTask().Member("exit_code").As(ir.IntType(4, true)))
			b.Set(&e.Comm, c.Comm())
		})
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	r, err := exits.Open(s)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for {
		var e exit
		lost, err := r.Read(context.Background(), &e)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.PID, e.Comm, e.Code, lost)
	}
}

// UstackWalk walks user stacks of programs without frame pointers, by call frame information.
// AddProcess fills the walker's tables for a process.
func ExampleCtx_UstackWalk() {
	stacks := action.NewCounter[[32]uint64]("stacks", 4096)
	p := action.NewProgram("mallocs")
	p.On(probe.Uprobe{Path: "libc.so.6", Symbol: "malloc"}, func(c *action.Ctx) {
		stacks.Inc(c, c.UstackWalk(32))
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.AddProcess(1234); err != nil {
		log.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	table, err := stacks.Table(s)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := table.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range counts.Entries {
		fmt.Println(e.Value, "allocations at", e.Key) // package symbol names them
	}
}
