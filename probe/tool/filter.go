package tool

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/borescope/borescope/probe/action"
)

// TID declares a flag for a thread's id, 0 if it is not given. See FilterTID.
func (t *Tool) TID(name string) *int {
	tid := t.Int(name, "TID", 0, "only this thread")
	t.tasks = append(t.tasks, func() []int { return []int{*tid} })
	return tid
}

// findTasks returns an error if a process or thread of the command line does not exist.
func (t *Tool) findTasks() error {
	for _, id := range t.chosen() {
		p, err := os.FindProcess(id)
		if err != nil {
			return err
		}
		err = p.Signal(syscall.Signal(0))
		p.Release()
		if errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("no process or thread has the number %d", id)
		}
	}
	return nil
}

// UID declares a flag for a user, by number or name, -1 if it is not given. See FilterUID.
func (t *Tool) UID(name string) *int {
	uid := -1
	t.Func(name, "USER", "only this user, by number or name", func(s string) (err error) {
		if uid, err = strconv.Atoi(s); err != nil {
			uid, err = userID(s)
		} else if uid < 0 {
			err = fmt.Errorf("%q is not a user", s)
		}
		return err
	})
	return &uid
}

// userID looks up a user in /etc/passwd. Package os/user would need cgo for other sources.
func userID(name string) (int, error) {
	b, err := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[0] == name {
			return strconv.Atoi(f[2])
		}
	}
	if err == nil {
		err = fmt.Errorf("%q is not a user", name)
	}
	return -1, err
}

// CPU declares a flag for the number of a CPU, -1 if it is not given. See FilterCPU.
func (t *Tool) CPU(name string) *int { return t.Int(name, "CPU", -1, "only on this CPU") }

// Regexp declares a flag for a regular expression, which matches everything if it is not
// given.
func (t *Tool) Regexp(name, value, usage string) *regexp.Regexp {
	re := regexp.MustCompile("")
	t.Func(name, value, usage, func(s string) error {
		given, err := regexp.Compile(s)
		if err == nil {
			*re = *given
		}
		return err
	})
	return re
}

// FilterPID ends an action unless it runs in process pid; 0 means any process.
func FilterPID(c *action.Ctx, pid int) {
	if pid != 0 {
		c.ReturnUnless(c.PID().Eq(pid))
	}
}

// FilterComm ends an action unless the thread's name contains name; "" means any thread.
func FilterComm(c *action.Ctx, name string) {
	if name != "" {
		c.ReturnUnless(c.Comm().Contains(name))
	}
}

// FilterTID ends an action unless it runs in thread tid; 0 means any thread.
func FilterTID(c *action.Ctx, tid int) {
	if tid != 0 {
		c.ReturnUnless(c.TID().Eq(tid))
	}
}

// FilterUID ends an action unless it runs as user uid; a negative uid means any user.
func FilterUID(c *action.Ctx, uid int) {
	if uid >= 0 {
		c.ReturnUnless(c.UID().Eq(uid))
	}
}

// FilterCPU ends an action unless it runs on CPU cpu; a negative number means any CPU.
func FilterCPU(c *action.Ctx, cpu int) {
	if cpu >= 0 {
		c.ReturnUnless(c.CPU().Eq(cpu))
	}
}
