package deploy

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lockDir prevents other processes from deploying to the directory meanwhile. No other user
// may write to the directory, because the programs pinned there are run.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("stat: %w", err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		f.Close()
		return nil, fmt.Errorf("the directory is of user %d and has mode %04o: it must be this user's (%d), and nobody else may write to it: %w",
			st.Uid, st.Mode&0o7777, os.Geteuid(), fs.ErrPermission)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() { f.Close() }, nil
}
