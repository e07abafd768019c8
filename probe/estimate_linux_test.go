package probe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

func TestEstimate(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	stop := w.keepBusy()
	add := Uprobe{Path: targetPath(), Symbol: "add"}
	both := Set{Uprobe{Path: targetPath(), Symbol: "helper_one"}, Uprobe{Path: targetPath(), Symbol: "helper_two"}}
	got, err := Estimate(context.Background(), nil, []Target{add, both}, 300*time.Millisecond)
	runs := stop()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Sites != 1 || got[1].Sites != 2 {
		t.Fatalf("%+v", got)
	}
	if got[0].Events == 0 || got[0].Events > uint64(runs*times) {
		t.Errorf("%d events of at most %d", got[0].Events, runs*times)
	}
	// Each function is called as often as add.
	if r := float64(got[1].Events) / float64(got[0].Events); r < 1.5 || r > 3 {
		t.Errorf("two functions fired %v times as often as one", r)
	}
	if got[0].CPUShare <= 0 || got[0].PerSecond <= 0 || got[0].Window < 300*time.Millisecond {
		t.Errorf("%+v", got[0])
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Estimate(ctx, nil, []Target{add}, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
