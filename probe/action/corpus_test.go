//go:build linux

package action_test

import (
	"errors"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// tool is the action of a well-known tool.
type tool struct {
	name  string
	build func(p *action.Program)
}

type (
	execEvent struct {
		PID, PPID, UID uint32
		Comm           action.Comm
		Path           [128]byte
		Arg            [64]byte
	}
	slowEvent struct {
		PID    uint32
		Comm   action.Comm
		Nsecs  uint64
		Size   uint64
		Offset int64
		File   [64]byte
	}
	ioEvent struct {
		Dev, Sectors uint32
		Sector       uint64
		Nsecs        uint64
		PID          uint32
		Comm         action.Comm
		Rwbs         [8]byte
	}
	connEvent struct {
		PID          uint32
		Comm         action.Comm
		Saddr, Daddr uint32
		Sport, Dport uint16
		Family       uint16
		State        uint8
	}
	fileCall struct {
		File   uint64
		Pos    int64
		Count  uint64
		Start  uint64
		Member uint64
	}
)

// corpus are the actions that the issue names, each as a user would write it.
func corpus() []tool {
	// Where functions have no common program (before 5.15), each has its own.
	vfsRead := probe.Kprobe{Symbol: "vfs_read"}
	return []tool{
		{"funccount", func(p *action.Program) {
			n := action.NewCounter[uint64]("n", 0)
			p.On(vfsRead, func(c *action.Ctx) { n.Inc(c, c.Builtin("func")) })
		}},
		{"stackcount", func(p *action.Program) {
			n := action.NewCounter[[127]uint64]("n", 1024)
			p.On(vfsRead, func(c *action.Ctx) { n.Inc(c, c.Kstack(127)) })
		}},
		{"stackcount-both", func(p *action.Program) {
			type key struct {
				PID    uint32
				_      uint32
				Kernel [30]uint64
				User   [30]uint64
				Comm   action.Comm
			}
			n := action.NewCounter[key]("n", 1024)
			p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
				n.Inc(c, c.PID(), 0, c.Kstack(30), c.Ustack(30), c.Comm())
			})
		}},
		{"trace", func(p *action.Program) {
			log := action.NewLog("log", 0)
			p.On(vfsRead, func(c *action.Ctx) {
				c.ReturnUnless(c.Arg(2).Gt(100).And(c.UID().Eq(0)))
				log.Printf(c, "%s %d %d", c.Comm(), c.TID(), c.Arg(2))
			})
			p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
				c.ReturnUnless(c.Ret().Lt(0))
				log.Printf(c, "%s failed with %d", c.Comm(), c.Ret())
			})
		}},
		{"argdist", func(p *action.Program) {
			h := action.NewHist[uint32]("sizes", 4096).Sub(2)
			l := action.NewLinear[action.None]("linear", 1, 0, 65536, 1024)
			n := action.NewCounter[int64]("results", 0)
			p.On(vfsRead, func(c *action.Ctx) {
				h.Observe(c, c.Arg(2), c.PID())
				l.Observe(c, c.Arg(2))
			})
			p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) { n.Inc(c, c.Ret()) })
		}},
		{"execsnoop", execsnoop},
		{"opensnoop", opensnoop},
		{"fileslower", fileslower},
		{"biolatency", func(p *action.Program) {
			type io struct {
				Dev    uint32
				_      uint32
				Sector uint64
			}
			start := action.NewLRU[io, uint64]("start", 10240)
			h := action.NewHist[uint32]("usecs", 4096)
			p.On(probe.Tracepoint{Group: "block", Name: "block_rq_issue"}, func(c *action.Ctx) {
				start.Set(c, action.Key(c.Field("dev"), 0, c.Field("sector")), c.Nsecs())
			})
			p.On(probe.Tracepoint{Group: "block", Name: "block_rq_complete"}, func(c *action.Ctx) {
				start.Take(c, action.Key(c.Field("dev"), 0, c.Field("sector")), func(t0 action.Int) {
					h.Observe(c, c.Nsecs().Sub(t0).Div(1000), c.Field("dev"))
				})
			})
		}},
		{"biosnoop", biosnoop},
		{"cachestat", func(p *action.Program) {
			n := action.NewCounter[uint64]("n", 16)
			for _, f := range []string{"mark_page_accessed", "mark_buffer_dirty", "add_to_page_cache_lru", "filemap_add_folio", "folio_mark_accessed"} {
				p.On(probe.Kprobe{Symbol: f}, func(c *action.Ctx) { n.Inc(c, c.Builtin("func")) })
			}
		}},
		{"tcpconnect", func(p *action.Program) { tcp(p, probe.Kprobe{Symbol: "tcp_connect"}, "sk") }},
		{"tcpretrans", func(p *action.Program) { tcp(p, probe.Kprobe{Symbol: "tcp_retransmit_skb"}, "sk") }},
		{"tcpaccept", func(p *action.Program) {
			ev := action.NewEvents[connEvent]("conns", 0)
			p.On(probe.Kretprobe{Symbol: "inet_csk_accept"}, func(c *action.Ctx) {
				sk := c.Ret().Ptr()
				c.ReturnUnless(sk.Ne(0))
				conn(c, ev, sk)
			})
		}},
		{"profile", func(p *action.Program) {
			type key struct {
				PID    uint32
				_      uint32
				Kernel [31]uint64
				User   [31]uint64
			}
			n := action.NewCounter[key]("n", 4096)
			p.On(probe.Perf{Event: pmc.CPUClock(), Freq: 49}, func(c *action.Ctx) {
				n.Inc(c, c.PID(), 0, c.Kstack(31), c.Ustack(31))
			})
		}},
	}
}

func execsnoop(p *action.Program) {
	ev := action.NewEvents[execEvent]("execs", 0)
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_execve"}, func(c *action.Ctx) {
		argv := c.Field("argv").Ptr()
		ev.Emit(c, func(e *execEvent, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.PPID, c.PPID())
			b.Set(&e.UID, c.UID())
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.Path, c.Field("filename").UserStr(128))
			b.Set(&e.Arg, argv.Index(1).UserStr(64))
		})
	})
}

func opensnoop(p *action.Program) {
	ev := action.NewEvents[openEvent]("opens", 0)
	args := action.NewPair[uint64]("args", 4096)
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_openat"}, func(c *action.Ctx) {
		args.Enter(c, c.Field("filename").As(ir.Uint64Type()))
	})
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_exit_openat"}, func(c *action.Ctx) {
		args.Leave(c, func(path action.Int) {
			ev.Emit(c, func(e *openEvent, b *action.Bind) {
				b.Set(&e.PID, c.PID())
				b.Set(&e.Comm, c.Comm())
				b.Set(&e.Path, path.UserStr(64))
				b.Set(&e.Ret, c.Field("ret"))
			})
		})
	})
}

// fileslower is what ext4slower does, on any file system: entry and return of a
// read, with the file's name from its dentry.
func fileslower(p *action.Program) {
	ev := action.NewEvents[slowEvent]("slow", 0)
	calls := action.NewPair[fileCall]("calls", 4096)
	p.On(probe.Kprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		file := c.Arg(0).Ptr()
		calls.Enter(c, action.Key(c.Arg(0), file.Member("f_pos"), c.Arg(2), c.Nsecs(), file.Member("f_flags")))
	})
	p.On(probe.Kretprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		calls.Leave(c, func(v action.Int) {
			d := c.Let(c.Nsecs().Sub(v.Elem("Start")))
			c.ReturnUnless(d.Ge(1))
			file := v.Elem("File").PtrTo("struct file", false)
			name := file.Member("f_path.dentry").Ptr().Member("d_name.name").Str(64)
			ev.Emit(c, func(e *slowEvent, b *action.Bind) {
				b.Set(&e.PID, c.PID())
				b.Set(&e.Comm, c.Comm())
				b.Set(&e.Nsecs, d)
				b.Set(&e.Size, v.Elem("Count"))
				b.Set(&e.Offset, v.Elem("Pos"))
				b.Set(&e.File, name)
			})
		})
	})
}

func biosnoop(p *action.Program) {
	ev := action.NewEvents[ioEvent]("ios", 0)
	p.On(probe.Tracepoint{Group: "block", Name: "block_rq_issue"}, func(c *action.Ctx) {
		ev.Emit(c, func(e *ioEvent, b *action.Bind) {
			b.Set(&e.Dev, c.Field("dev"))
			b.Set(&e.Sector, c.Field("sector"))
			b.Set(&e.Sectors, c.Field("nr_sector"))
			b.Set(&e.Nsecs, c.Nsecs())
			b.Set(&e.PID, c.PID())
			b.Set(&e.Comm, c.Field("comm").Str(16))
			b.Set(&e.Rwbs, c.Field("rwbs").Str(8))
		})
	})
}

// tcp emits the connection of the socket that a function is called with.
func tcp(p *action.Program, target probe.Target, arg string) {
	ev := action.NewEvents[connEvent]("conns", 0)
	p.On(target, func(c *action.Ctx) { conn(c, ev, c.ArgNamed(arg).Ptr()) })
}

func conn(c *action.Ctx, ev *action.Events[connEvent], sk action.Ptr) {
	ev.Emit(c, func(e *connEvent, b *action.Bind) {
		b.Set(&e.PID, c.PID())
		b.Set(&e.Comm, c.Comm())
		b.Set(&e.Saddr, sk.Member("__sk_common.skc_rcv_saddr"))
		b.Set(&e.Daddr, sk.Member("__sk_common.skc_daddr"))
		b.Set(&e.Sport, sk.Member("__sk_common.skc_num"))
		b.Set(&e.Dport, sk.Member("__sk_common.skc_dport").Bswap())
		b.Set(&e.Family, sk.Member("__sk_common.skc_family"))
		b.Set(&e.State, sk.Member("__sk_common.skc_state"))
	})
}

// TestCorpus attaches the action of every tool that this kernel can attach,
// and reads its counters.
func TestCorpus(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, tl := range corpus() {
		t.Run(tl.name, func(t *testing.T) {
			p := action.NewProgram(tl.name)
			tl.build(p)
			o := &action.Options{}
			if tl.name == "cachestat" { // some of its functions are in some kernels only
				testenv.Need(t, testenv.Feature(feature.Kprobe))
				o.Resolve = &probe.Options{Missing: probe.MissingIgnore}
				o.Attach = &probe.AttachOptions{Missing: probe.MissingIgnore}
			}
			s, err := action.Attach(p, o)
			if errors.Is(err, errors.ErrUnsupported) {
				testenv.SkipUnsupported(t, err)
			}
			if err != nil {
				t.Fatalf("%+v\n%s", err, p)
			}
			work(t)
			st, err := s.Stats()
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d programs, faults %d, cut %d, full %d; first: %d insns verified, %d instructions",
				len(st.Programs), st.Faults, st.Truncated, st.Full, st.Programs[0].Verified, st.Programs[0].Instructions)
			if st.NoScratch != 0 || st.Faults != 0 {
				t.Errorf("%+v", st)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// work makes the events that the tools look at.
func work(t *testing.T) {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4096)
	for range 23 {
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
}
