// Replay prints the contents of a recording: its origin, tables, streams and files. It
// needs neither root nor Linux.
//
//	replay DIR                    a summary
//	replay -tables DIR            every snapshot of every table
//	replay -stream events DIR     the records, as bytes
//	replay -stream events -speed 1 DIR      at the pace they had; -tables as well
//	replay -cat symbols DIR       a named file
//	replay -cat host/proc/version DIR       a file of a recorded tree
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("replay", run(cli.Context(), os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}

func run(ctx context.Context, args []string, stdout *cli.Output) error {
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	tables := f.Bool("tables", false, "print every snapshot of every table")
	stream := f.String("stream", "", "print the records of this `stream`")
	cat := f.String("cat", "", "print a named `file`, or TREE/PATH of a recorded tree")
	speed := f.Float64("speed", 0, "pace of -stream and -tables: 1 as recorded, 0 as fast as possible")
	if err := cli.Parse(f, args, stdout); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("want one argument: the recording's directory")
	}
	rec, err := recording.Open(hostfs.Dir(f.Arg(0)))
	if err != nil {
		return err
	}
	defer rec.Close()
	defer context.AfterFunc(ctx, func() { rec.Close() })() // ends the wait for a table's time
	if *tables || *stream != "" {
		rec.Pace(recording.ReplayOptions{Speed: *speed})
	}
	w := stdout.Buffered()
	switch {
	case *stream != "":
		err = printStream(ctx, w, rec, *stream, *speed > 0)
	case *cat != "":
		err = printFile(w, rec, *cat)
	default:
		err = summarize(ctx, w, rec, *tables)
	}
	return errors.Join(err, w.Flush())
}

// cutOff prints a note if a recording ends early, and returns no error then: the part before
// is valid.
func cutOff(w *cli.Output, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = w.Printf("  (%v)\n", err)
	}
	return err
}

func summarize(ctx context.Context, w *cli.Output, rec *recording.Recording, all bool) error {
	m := rec.Meta()
	w.Printf("%s %s, Linux %s %s, %d of %d CPUs, %s", m.Tool, strings.Join(m.Args, " "),
		m.Kernel, m.Arch, len(m.Online), len(m.Possible), m.Start.UTC().Format(time.RFC3339))
	if rec.Complete() {
		w.Printf(" for %v\n", m.End.Sub(m.Start).Round(time.Millisecond))
	} else {
		w.Println(", not closed")
	}
	for _, part := range []struct {
		list  func() ([]string, error)
		print func(name string) error
	}{
		{rec.Tables, func(name string) error { return printTable(w, rec, name, all) }},
		{rec.Streams, func(name string) error { return countStream(ctx, w, rec, name) }},
		{rec.Files, func(name string) error { return countFile(w, rec, name) }},
	} {
		names, err := part.list()
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := part.print(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func printTable(w *cli.Output, rec *recording.Recording, name string, all bool) error {
	d, err := rec.DumpTable(name)
	if err != nil {
		return err
	}
	start := rec.Meta().Start
	snapshots, total := 0, 0
	for {
		at, op, entries, err := d.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if err := cutOff(w, err); err != nil {
				return err
			}
			break
		}
		snapshots++
		total += len(entries)
		if !all {
			continue
		}
		w.Printf("%s: %s at %v, %d entries\n", name, op, at.Sub(start).Round(time.Microsecond),
			len(entries))
		for _, e := range entries {
			w.Printf("  %s: %s\n", e.Key, e.Value)
		}
		w.Flush() // at its pace; the last Flush returns the error too
	}
	w.Printf("table %s: %d snapshots, %d entries\n", name, snapshots, total)
	return nil
}

// each calls fn with the records of a stream.
func each(ctx context.Context, p *recording.Replay, fn func(*mapx.Record)) error {
	var r mapx.Record
	for {
		if err := p.ReadInto(ctx, &r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		fn(&r)
	}
}

func countStream(ctx context.Context, w *cli.Output, rec *recording.Recording, name string) error {
	p, err := rec.Stream(name, nil)
	if err != nil {
		return err
	}
	n, size := 0, 0
	err = each(ctx, p, func(r *mapx.Record) { n, size = n+1, size+len(r.Data) })
	s, _ := p.Stats() // a replay returns no error
	w.Printf("stream %s: %d records, %d bytes, %d lost\n", name, n, size, s.Lost)
	return cutOff(w, err)
}

func printStream(ctx context.Context, w *cli.Output, rec *recording.Recording, name string,
	paced bool,
) error {
	p, err := rec.Stream(name, nil)
	if err != nil {
		return err
	}
	start := rec.Meta().Start
	err = each(ctx, p, func(r *mapx.Record) {
		w.Printf("%12.6f cpu %d", p.Time().Sub(start).Seconds(), r.CPU)
		if r.Lost > 0 {
			w.Printf(" lost %d", r.Lost)
		}
		w.Printf(" %s\n", hex.EncodeToString(r.Data))
		if paced {
			w.Flush() // the last Flush returns the error too
		}
	})
	return cutOff(w, err)
}

func countFile(w *cli.Output, rec *recording.Recording, name string) error {
	f, err := rec.Open(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, f)
	w.Printf("file %s: %d bytes\n", name, n)
	return cutOff(w, err)
}

func printFile(w *cli.Output, rec *recording.Recording, name string) error {
	if tree, path, ok := strings.Cut(name, "/"); ok {
		host, err := hostfs.Open(rec, tree)
		if err != nil {
			return err
		}
		b, err := fs.ReadFile(host, path)
		if err != nil {
			return err
		}
		_, err = w.Raw().Write(b)
		return err
	}
	f, err := rec.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w.Raw(), f)
	return err
}
