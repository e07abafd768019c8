// Neighbours measures what a profile of the whole machine costs beside twenty processes of a
// stranger whose files ask for gigabytes and minutes, and beside twenty honest ones.
//
//	go -C internal/bench run ./neighbours [-rounds 5] [-d 10s] [-n 20] [-tool FILE]  (as root)
//
// Rounds are interleaved; the result is the median of the CPU time and of the most memory.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/bench/peer"
	"github.com/borescope/borescope/internal/elfbuild"
)

// stranger is the user that they belong to.
const stranger = 65534

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	d := flag.Duration("d", 10*time.Second, "`duration` of each profile")
	n := flag.Int("n", 20, "neighbours of each kind")
	tool := flag.String("tool", "", "a `file` that is examples/profile, built already")
	flag.Parse()
	if *rounds < 1 || *n < 1 {
		fmt.Fprintln(os.Stderr, "bench neighbours: at least one round, and one neighbour")
		os.Exit(2)
	}
	if err := run(*tool, *rounds, *n, *d); err != nil {
		fmt.Fprintln(os.Stderr, "bench neighbours:", err)
		os.Exit(1)
	}
}

// contender is a kind of neighbours.
type contender struct {
	name   string
	images [][]byte
	holes  []int64

	cpu    []time.Duration
	memory []int64 // KiB
}

func run(tool string, rounds, n int, d time.Duration) error {
	dir, err := os.MkdirTemp("", "bench-neighbours")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if tool == "" {
		if tool, err = peer.BuildProfile(dir); err != nil {
			return err
		}
	}
	images, holes := elfbuild.Hostile()
	all := []*contender{
		{name: "honest", images: [][]byte{elfbuild.Program().Bytes()}, holes: []int64{0}},
		{name: "hostile", images: images, holes: holes},
	}
	for range rounds {
		for _, c := range all {
			if err := c.round(dir, tool, n, d); err != nil {
				return err
			}
		}
	}
	for _, c := range all {
		slices.Sort(c.cpu)
		slices.Sort(c.memory)
		fmt.Printf("%-8s %8v of a CPU, %6d KiB, medians of %d\n", c.name,
			c.cpu[rounds/2].Round(time.Millisecond), c.memory[rounds/2], rounds)
	}
	fmt.Printf("hostile to honest: %.2f of CPU time, %.2f of memory\n",
		float64(all[1].cpu[rounds/2])/float64(all[0].cpu[rounds/2]),
		float64(all[1].memory[rounds/2])/float64(all[0].memory[rounds/2]))
	return nil
}

// round profiles the machine once beside these neighbours.
func (c *contender) round(dir, tool string, n int, d time.Duration) (err error) {
	var started []*exec.Cmd
	defer func() {
		for _, cmd := range started {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	for i := range n {
		k := i % len(c.images)
		path := filepath.Join(dir, fmt.Sprintf("%s%d", c.name, i))
		if err := c.write(path, k); err != nil {
			return err
		}
		defer os.Remove(path)
		cmd := exec.Command(path)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: stranger, Gid: stranger}, Pdeathsig: syscall.SIGKILL,
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		started = append(started, cmd)
	}
	cmd := exec.Command(tool, "-d", d.String(), "-f")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("this system has no account of a process")
	}
	c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	c.memory = append(c.memory, usage.Maxrss)
	return nil
}

// write writes image k, as the stranger's.
func (c *contender) write(path string, k int) error {
	return errors.Join(
		os.WriteFile(path, c.images[k], 0o755),
		os.Truncate(path, int64(len(c.images[k]))+c.holes[k]),
		os.Chown(path, stranger, stranger),
	)
}
