package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

// mount is where a guest's disk with an ext4 file system is.
const mount = "/tmp/ext4"

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"write": func() {
		for range 23 {
			f, err := os.Create(filepath.Join(mount, "known"))
			if err != nil {
				panic(err)
			}
			f.Write(make([]byte, 100))
			f.ReadAt(make([]byte, 50), 10)
			f.Sync()
			f.Close()
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "ext4slower", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/writes") }
