package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestGroupEnds: what a step's command started ends with it, whether the command
// ends by itself or is cut short.
func TestGroupEnds(t *testing.T) {
	testenv.Need(t, testenv.Tool("sh"), testenv.Tool("sleep"))
	for name, script := range map[string]string{
		"ended":     "sleep 1000 >/dev/null 2>&1 & echo $!",
		"cut-short": "sleep 1000 >/dev/null 2>&1 & echo $!; wait",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var out, log bytes.Buffer
			err := (&check{out: &log}).execTo(ctx, &out, nil, "sh", "-c", script)
			if (err == nil) != (name == "ended") {
				t.Errorf("%v: %s", err, log.String())
			}
			stat := fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(out.String()))
			if stat == "/proc//stat" {
				t.Fatalf("no child: %s", log.String())
			}
			for range 100 {
				b, err := os.ReadFile(stat)
				if err != nil || strings.Contains(string(b), ") Z ") {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("the command's child runs on")
		})
	}
}
