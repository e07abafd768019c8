package recording_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
)

// ReadInto reads all records into the same memory, one after the other.
func ExampleReplay_ReadInto() {
	rec, err := recording.Open(os.DirFS("testdata/recording-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Close()
	events, err := rec.Stream("events", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var r mapx.Record
	for {
		err := events.ReadInto(context.Background(), &r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("cpu %d: %s\n", r.CPU, r.Data)
	}
	s, _ := events.Stats()
	fmt.Println("lost", s.Lost)
	// Output:
	// cpu 0: first
	// cpu 1: second
	// cpu 0: third, after a loss
	// lost 5
}
