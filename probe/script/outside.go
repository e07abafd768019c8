package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/output"
)

// cat prints the beginning of a file, or says why not, or at the end that there was more. A file whose reading waits, such as a pipe,
// is waited for until ctx ends.
func (s *run) cat(ctx context.Context, name string) error {
	if s.replay {
		return nil
	}
	type result struct {
		data []byte
		more bool
		err  error
	}
	done := make(chan result, 1)
	most := int64(min(s.conf.MaxCatBytes, 1<<30))
	go func() {
		data, more, err := readBeginning(name, most)
		done <- result{data, more, err}
	}()
	select {
	case <-ctx.Done():
		return s.failed("failed to read file '" + name + "' (" + context.Cause(ctx).Error() + ")")
	case r := <-done:
		var open *fs.PathError
		if errors.As(r.err, &open) && open.Op == "open" {
			return s.failed("failed to open file '" + name + "' (" + output.Reason(open.Err) + ")")
		}
		if r.more {
			s.gaps.cats++
		}
		if err := s.out.Cat(s.foreign(r.data)); err != nil || r.err == nil {
			return err
		}
		return s.failed("failed to read file '" + name + "' (" + output.Reason(r.err) + ")")
	}
}

// readBeginning returns the first bytes of a file, and whether it has more.
func readBeginning(name string, most int64) (data []byte, more bool, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(data)) > most {
		return data[:most], true, err
	}
	return data, false, err
}

// foreign returns text that the script did not write, which a terminal is not to act on.
func (s *run) foreign(b []byte) string {
	if s.Raw || s.JSON {
		return string(b)
	}
	return escape.Lines(string(b))
}

// failed says on standard error that something outside of the kernel failed. The script goes on.
func (s *run) failed(what string) error {
	s.gaps.failed++
	_, err := fmt.Fprintf(s.Stderr, "ERROR: %s\n", escape.Terminal(what))
	return err
}

// shellSafe returns the values of a command, in whose texts '_' stands for what a shell acts on: a
// process that names itself "$(reboot)" must not have that run.
func shellSafe(args []any) []any {
	out := slices.Clone(args)
	for i, a := range out {
		switch a := a.(type) {
		case int64, uint64, bool:
		case output.Symbol:
			out[i] = output.Symbol{Text: shellText(a.Text), Number: a.Number}
		default:
			out[i] = shellText(printf.Text(a))
		}
	}
	return out
}

// shellText returns text with '_' for each character but letters, digits and some that no shell acts
// on. A '-' at the beginning, which would make an option of it, is one of them.
func shellText(s string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,+@%", r) {
			return r
		}
		return '_'
	}, s)
	if strings.HasPrefix(safe, "-") {
		return "_" + safe[1:]
	}
	return safe
}

// mostPrinted bounds the text that a command may print.
const mostPrinted = 16 << 20

// commandsAfter is how long commands are begun after the end of a run's context for events before it: records that
// wait may ask for thousands.
const commandsAfter = time.Second

// system runs a command of the shell and prints what it prints. The records that come meanwhile
// wait. The command ends with ctx, and with this program.
func (s *run) system(ctx context.Context, command string) error {
	if s.replay {
		return nil
	}
	runtime.LockOSThread() // whose end would be taken for this program's
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = 100 * time.Millisecond
	endWithThread(cmd)
	printed := bounded{most: mostPrinted}
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	if err := s.out.System(s.foreign(printed.Bytes())); err != nil {
		return err
	}
	var exit *exec.ExitError
	switch {
	case printed.lost > 0:
		return s.failed(fmt.Sprintf("%d bytes that a command printed were left out", printed.lost))
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return s.failed(fmt.Sprintf("command exited with code %d", exit.ExitCode()))
	case errors.As(err, &exit):
		return s.failed("child process did not exit normally: " + exit.String())
	}
	return s.failed(err.Error())
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	most, lost int
}

// Write keeps b as far as there is room.
func (w *bounded) Write(b []byte) (int, error) {
	n := min(len(b), w.most-w.Len())
	w.lost += len(b) - n
	w.Buffer.Write(b[:n])
	return len(b), nil
}
