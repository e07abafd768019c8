// Package otlp sends what a prometheus.Gatherer has to an OpenTelemetry Collector, as metrics by OTLP over
// HTTP.
//
//	c := otlp.New("http://localhost:4318", map[string]string{"service.name": "ledger"})
//	if err := c.Send(ctx, prometheus.DefaultGatherer); err != nil {
//		return err
//	}
//
// Counters are monotonic sums, native histograms are exponential ones of the same buckets, and classic
// histograms are those with explicit bounds. All are cumulative: what a call of Send could not deliver is
// in the next one. The package starts no goroutine; the caller calls Send as often as it wants points.
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/probe/tool/cli"
)

// Client sends metrics to one Collector. It is safe for concurrent use, and has nothing to close.
type Client struct {
	url      string
	resource map[string]string
	start    time.Time
	http     *http.Client
}

// timeout is how long a Collector may take to answer.
const timeout = 10 * time.Second

// New returns a client for the Collector at a URL, to which it adds /v1/metrics. resource are the attributes
// of what the metrics are about, such as service.name. Counts began when the client was made: make it
// before what it sends, or together with it.
func New(url string, resource map[string]string) *Client {
	return &Client{
		url: strings.TrimSuffix(url, "/") + "/v1/metrics", resource: resource, start: time.Now(),
		http: &http.Client{Timeout: timeout},
	}
}

// Send sends all metrics once. The error says what the Collector refused.
func (c *Client) Send(ctx context.Context, from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	body, err := json.Marshal(request(families, c.resource, c.start, time.Now()))
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	defer answer.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("send metrics: %s: %.200s", answer.Status, cli.Escape(string(text)))
	}
	var said struct {
		PartialSuccess struct {
			RejectedDataPoints json.Number // a text in what Collectors answer
			ErrorMessage       string
		}
	}
	if err := json.Unmarshal(text, &said); err != nil && len(text) > 0 {
		return fmt.Errorf("send metrics: answer: %w", err)
	}
	if n := said.PartialSuccess.RejectedDataPoints; n != "" && n != "0" {
		return fmt.Errorf("send metrics: %s points are refused: %.200s", n, cli.Escape(said.PartialSuccess.ErrorMessage))
	}
	return nil
}
