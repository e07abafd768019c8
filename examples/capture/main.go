// Capture records the contents of a running machine's BPF maps, and files of the host, for
// tests and for later analysis. examples/replay prints a recording, and package mapx lets
// any program read it.
//
//	capture -map counts -i 1s -n 10 DIR           a map by name, ten times
//	capture -map id:42 -map pin:/sys/fs/bpf/x DIR
//	capture -ring events -d 10s DIR               a ring buffer: takes its records
//	capture -file proc/version -file proc/cpuinfo DIR
//	capture -btf task_struct.real_parent.tgid -btf vfs_read DIR
//
// -btf extracts kernel types, for programs that run on a kernel without them: a type, a
// function or an enumerator, and the members that are used, in whichever structs they are.
// DIR/btf becomes a tree in BTFHub's layout (probe.EnvOptions.BTFDir).
//
// Maps of other processes require CAP_SYS_ADMIN. Capture creates DIR, and refuses a
// directory that is not empty.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("capture", run(cli.Context(), os.Args[1:], cli.NewOutput(os.Stderr)), os.Stderr)
	}))
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

type options struct {
	maps, rings, files list
	types              list
	interval, duration time.Duration
	count              int
	dir                string
}

func parse(args []string, stderr *cli.Output) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("capture", flag.ContinueOnError)
	f.Var(&o.maps, "map", "record a `map`: its name, id:N or pin:PATH; may be repeated")
	f.Var(&o.rings, "ring",
		"record a ring `buffer`'s records, which its reader then misses; may be repeated")
	f.Var(&o.files, "file", "record a `file`, without the leading /; may be repeated")
	f.Var(&o.types, "btf", "extract a kernel `type`, a function's or an enumerator's, with the members behind it: task_struct.real_parent.tgid; may be repeated")
	f.DurationVar(&o.interval, "i", time.Second, "time between snapshots")
	f.IntVar(&o.count, "n", 1, "number of snapshots, 0 until Ctrl-C")
	f.DurationVar(&o.duration, "d", 0, "how long to read rings; 0 until the snapshots are done")
	if err := cli.Parse(f, args, stderr); err != nil {
		return nil, err
	}
	if f.NArg() != 1 {
		return nil, errors.New("want one argument: the directory to write")
	}
	if len(o.maps)+len(o.rings)+len(o.files)+len(o.types) == 0 {
		return nil, errors.New("nothing to record: give -map, -ring, -file or -btf")
	}
	o.dir = f.Arg(0)
	return o, nil
}

func run(ctx context.Context, args []string, stderr *cli.Output) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	// Open the maps first, so that a misspelt name leaves no directory behind.
	maps, err := openAll(append(append(list{}, o.maps...), o.rings...))
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	if err != nil {
		return err
	}
	rec, err := recording.Create(o.dir, &recording.Meta{Tool: "capture", Args: args})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	if err := o.recordFiles(rec); err != nil {
		return err
	}
	if err := o.recordBTF(); err != nil {
		return err
	}
	return o.record(ctx, rec, maps, stderr)
}

// recordBTF writes the requested kernel types beside the recording.
func (o *options) recordBTF() error {
	if len(o.types) == 0 {
		return nil
	}
	need := &env.BTFNeeds{}
	for _, path := range o.types {
		words := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '-' || r == '>' })
		if len(words) == 0 {
			return fmt.Errorf("-btf %q: no type", path)
		}
		need.Types, need.Funcs = append(need.Types, words[0]), append(need.Funcs, words[0])
		need.Enumerators = append(need.Enumerators, words[0])
		need.Members = append(need.Members, words[1:]...)
	}
	raw, name, err := probe.NewEnv(nil).CaptureBTF(need)
	if err != nil {
		return err
	}
	file := filepath.Join(o.dir, "btf", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return cli.WriteFile(file, 0o644, func(w io.Writer) error { _, err := w.Write(raw); return err })
}

func openAll(names []string) ([]*ebpf.Map, error) {
	var maps []*ebpf.Map
	for _, name := range names {
		m, err := openMap(name)
		if err != nil {
			return maps, fmt.Errorf("map %s: %w", name, err)
		}
		maps = append(maps, m)
	}
	return maps, nil
}

func openMap(name string) (*ebpf.Map, error) {
	if path, ok := strings.CutPrefix(name, "pin:"); ok {
		return ebpf.LoadPinnedMap(path, nil)
	}
	if text, ok := strings.CutPrefix(name, "id:"); ok {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		return ebpf.NewMapFromID(ebpf.MapID(id))
	}
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("no map has this name: %w", os.ErrNotExist)
		}
		if err != nil {
			return nil, err
		}
		id = next
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // it is gone by now
		}
		if err != nil {
			return nil, err
		}
		if info, err := m.Info(); err == nil && info.Name == name {
			return m, nil
		}
		m.Close()
	}
}

func (o *options) recordFiles(rec *recording.Recorder) error {
	if len(o.files) == 0 {
		return nil
	}
	host, err := hostfs.Record(rec, "host", hostfs.Dir("/"))
	if err != nil {
		return err
	}
	for _, name := range o.files {
		if _, err := fs.ReadFile(host, strings.TrimPrefix(name, "/")); err != nil {
			return err
		}
	}
	return nil
}

// fileName turns a map's name into a valid name in a recording.
func fileName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", r) {
			return r
		}
		return '_'
	}, name), "-._")
}

// record reads the maps until all requested readings are done.
func (o *options) record(ctx context.Context, rec *recording.Recorder, maps []*ebpf.Map,
	stderr *cli.Output,
) error {
	var tables []*recording.MapRecorder
	for i, name := range o.maps {
		t, err := rec.RecordMap(fileName(name), maps[i])
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	ctx, stop := context.WithCancel(ctx)
	errs := make(chan error, len(o.rings))
	for i, name := range o.rings {
		go func() { errs <- o.recordRing(ctx, rec, fileName(name), maps[len(o.maps)+i]) }()
	}
	err := o.snapshots(ctx, tables, stderr)
	if o.duration == 0 || err != nil {
		stop()
	}
	for range o.rings {
		err = errors.Join(err, <-errs)
	}
	stop()
	return err
}

func (o *options) snapshots(ctx context.Context, tables []*recording.MapRecorder,
	stderr *cli.Output,
) error {
	if len(tables) == 0 {
		if len(o.rings) > 0 && o.duration == 0 {
			<-ctx.Done()
		}
		return nil
	}
	tick := time.NewTicker(max(o.interval, time.Millisecond))
	defer tick.Stop()
	for n := 1; ; n++ {
		entries := 0
		for _, t := range tables {
			got, err := t.Snapshot()
			if err != nil {
				return err
			}
			entries += got
		}
		stderr.Printf("snapshot %d: %d entries\n", n, entries)
		if n == o.count {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (o *options) recordRing(ctx context.Context, rec *recording.Recorder, name string,
	m *ebpf.Map,
) error {
	r, err := mapx.OpenRing(m, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	src := rec.Stream(name, r)
	var record mapx.Record
	for {
		if err := src.ReadInto(ctx, &record); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				_, err = src.Stats() // the last counts belong to the recording
			}
			return err
		}
	}
}
