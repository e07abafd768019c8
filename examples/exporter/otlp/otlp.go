// Package otlp sends metrics and profiles to an OpenTelemetry Collector: what a prometheus.Gatherer has, and
// the stacks of package stack/collect, by OTLP over gRPC or HTTP.
//
//	c := otlp.New("http://localhost:4318", map[string]string{"service.name": "ledger"})
//	defer c.Close()
//	if err := c.Send(ctx, prometheus.DefaultGatherer); err != nil {
//		return err
//	}
//
// Counters are monotonic sums, native histograms are exponential ones of the same buckets, and classic
// histograms are those with explicit bounds. All are cumulative: what a call of Send could not deliver is
// in the next one. Profiles are of OTLP's development version (v1development), which Collectors take with the
// feature gate service.profilesSupport. The package starts no goroutine but those of net/http; the caller
// calls Send as often as it wants points.
package otlp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/borescope/borescope/stack/profile"
)

// Client sends metrics and profiles to one Collector. It is safe for concurrent use.
type Client struct {
	base     string
	grpc     bool
	resource map[string]string
	start    time.Time
	http     *http.Client
}

// timeout is how long a Collector may take to answer.
const timeout = 10 * time.Second

// New returns a client for the Collector at a URL: of OTLP over HTTP for http://HOST:4318 and https, to
// which it adds /v1/metrics, or of gRPC for grpc://HOST:4317, and grpcs with TLS. resource are the attributes
// of what the metrics are about, such as service.name. Counts began when the client was made: make it
// before what it sends, or together with it. The caller closes it.
func New(url string, resource map[string]string) *Client {
	base, grpc := strings.CutPrefix(strings.TrimSuffix(url, "/"), "grpc")
	if grpc { // grpc://, grpcs://
		base = "http" + base
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if grpc {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return &Client{
		base: base, grpc: grpc, resource: resource, start: time.Now(),
		http: &http.Client{Timeout: timeout, Transport: t},
	}
}

// Close closes the connections that are not in use. It may be called again, and on nil.
func (c *Client) Close() error {
	if c != nil {
		c.http.CloseIdleConnections()
	}
	return nil
}

// signal is a kind of what OTLP sends.
type signal struct {
	name          string
	path, service string // of HTTP and of gRPC
}

var (
	metricsSignal  = signal{"metrics", "/v1/metrics", "metrics.v1.MetricsService"}
	profilesSignal = signal{"profiles", "/v1development/profiles", "profiles.v1development.ProfilesService"}
)

// Send sends all metrics once. The error says what the Collector refused.
func (c *Client) Send(ctx context.Context, from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	return c.send(ctx, &metricsSignal, request(families, c.resource, c.start, time.Now()))
}

// SendProfile sends a profile: one of OTLP for each kind of its values, with the build-ids of its files. The
// error says what the Collector refused: this profile is not sent again.
func (c *Client) SendProfile(ctx context.Context, p *profile.Profile) error {
	m, err := profiles(p, c.resource)
	if err != nil {
		return fmt.Errorf("send profiles: %w", err)
	}
	return c.send(ctx, &profilesSignal, m)
}

// send sends a message, and returns an error for what is refused of it.
func (c *Client) send(ctx context.Context, to *signal, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("send %s: %w", to.name, err)
	}
	post := c.post
	if c.grpc {
		post = c.call
	}
	answer, err := post(ctx, to, body)
	if err == nil {
		err = refused(answer)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", to.name, err)
	}
	return nil
}
