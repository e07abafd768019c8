package recording

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

// TestFullDisk: a disk that fills up is an error of the read that found it, of
// those after it, and of Close; what was written before replays.
func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, 0)
	rec, err := Create(dir+"/rec", nil)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := stackSnapshot(2000)
	for i := range snapshot.Entries {
		for j := range snapshot.Entries[i].Key.PCs {
			snapshot.Entries[i].Key.PCs[j] = uint64(i*7919+j*104729) * 0x9e3779b97f4a7c15 // doesn't compress
		}
	}
	table := RecordTable(rec, "t", mapx.Table[stackKey, uint64](&staticTable[stackKey, uint64]{snapshot}))
	if _, err := table.Snapshot(); !errors.Is(err, syscall.ENOSPC) {
		t.Error("the first snapshot that doesn't fit:", err)
	}
	if _, err := table.Snapshot(); !errors.Is(err, syscall.ENOSPC) {
		t.Error("the one after:", err)
	}
	src := rec.Stream("s", &sourcetest.List{Records: sampleRecords(10)})
	if _, err := sourcetest.ReadAll(t, src); !errors.Is(err, syscall.ENOSPC) {
		t.Error("another stream:", err)
	}
	if err := rec.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Error("Close:", err)
	}
	if _, err := Create(dir+"/other", nil); !errors.Is(err, syscall.ENOSPC) {
		t.Error("a recording on the full disk:", err)
	}
	if left, err := os.ReadDir(dir + "/other"); err != nil || len(left) > 0 {
		t.Error("a recording that could not be begun left files:", left, err)
	}
}
