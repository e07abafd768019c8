package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/examples/exporter/otlp"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool/cli"
)

const usage = `Usage: exporter -scripts DIR [flags]
Runs the scripts (*.bt) of a directory, in bpftrace's language, and has their maps as
metrics for Prometheus at /metrics. The page / shows what runs, what it costs and what
it loses. Scripts that change take over from their earlier version.

  exporter -scripts /etc/borescope                     on localhost:9435
  exporter -scripts DIR -cpu 1 -memory 64M             each within these bounds

Flags:
`

// options are the flags.
type options struct {
	dir, listen string
	every       time.Duration
	budget      ir.Budget
	noStats     bool
	otlp        string
	otlpEvery   time.Duration
}

func parse(args []string, stdout *cli.Output) (o options, err error) {
	flags := flag.NewFlagSet("exporter", flag.ContinueOnError)
	flags.Usage = func() {
		io.WriteString(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.dir, "scripts", "", "`directory` of scripts; nobody else may write to it")
	flags.StringVar(&o.listen, "listen", "localhost:9435", "`address` to listen at")
	flags.DurationVar(&o.every, "every", time.Second, "`time` between looks at the directory")
	flags.Func("cpu", "the most of each CPU that a script may take, in `percent`", func(s string) (err error) {
		o.budget.CPUPercent, err = percent(s)
		return err
	})
	events := flags.Uint("events", 0, "the most `events` that a script may print, per second and CPU")
	flags.Func("memory", "the most memory of a script's maps, in `bytes`: 64M", func(s string) (err error) {
		o.budget.MapBytes, err = size(s)
		return err
	})
	flags.StringVar(&o.otlp, "otlp", "", "send metrics to the OpenTelemetry Collector at this `URL`, too: http://localhost:4318, grpc://localhost:4317")
	flags.DurationVar(&o.otlpEvery, "otlp-every", 10*time.Second, "`time` between two of its points")
	flags.BoolVar(&o.noStats, "nostats", false, "leave the kernel's statistics of run times as they are")
	if err := cli.Parse(flags, args, stdout); err != nil {
		return o, err
	}
	o.budget.EventsPerSecond = uint32(min(*events, 1<<32-1))
	switch {
	case flags.NArg() > 0:
		err = errors.New("arguments are not taken")
	case o.dir == "":
		err = errors.New("-scripts is missing")
	case o.every < 10*time.Millisecond:
		err = errors.New("-every is too short")
	case o.otlpEvery < 10*time.Millisecond:
		err = errors.New("-otlp-every is too short")
	}
	if err != nil {
		return o, cli.Usage("exporter", err)
	}
	return o, nil
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout *cli.Output) (err error) {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	s, err := newService(o.dir, o.budget)
	if err != nil {
		return err
	}
	if !o.noStats {
		stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
		if err != nil {
			stdout.Println("without run times:", err) // CAP_SYS_ADMIN, Linux 5.8
		} else {
			defer stats.Close()
		}
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.reload(true); err != nil {
		if s.err != nil { // there is no such directory
			return err
		}
		stdout.Println(err)
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	stdout.Printf("listening at http://%s/\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = s.watch(ctx, &o, stdout, served)
	return errors.Join(err, server.Close())
}

// handler returns what is served.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Registry: s.registry,
	}))
	return mux
}

// watch looks at the directory again and again, and at once for a SIGHUP, and sends the metrics to whom
// the options name, until ctx or the server ends.
func (s *service) watch(ctx context.Context, o *options, stdout *cli.Output, served <-chan error) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick, send := time.NewTicker(o.every), time.NewTicker(o.otlpEvery)
	defer tick.Stop()
	defer send.Stop()
	var to *otlp.Client
	if o.otlp != "" {
		host, _ := os.Hostname() // "" is no attribute that anybody needs
		to = otlp.New(o.otlp, map[string]string{"service.name": "borescope-exporter", "host.name": host})
		defer to.Close()
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-hup:
			err = s.reload(true)
		case <-tick.C:
			err = s.reload(false)
		case <-send.C:
			if to != nil {
				err = to.Send(ctx, s.registry)
			}
		}
		if err != nil && ctx.Err() == nil {
			stdout.Println(err)
		}
	}
}
