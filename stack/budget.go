package stack

import (
	"errors"
	"sync"

	"github.com/borescope/borescope/internal/stranger"
)

// ErrBudget is the error for memory that is not read because reading it would exceed a Budget.
var ErrBudget = errors.New("the budget for reading the process's memory is used up")

// Budget bounds the work of reading structures in the memory of processes, which decide how
// many there are and how long: the calls of ReadMemory, and the bytes. A process may take Calls
// and Bytes, and all together eight times as much. What the others have taken makes a process's
// part smaller, down to nothing when all is taken, so the processes that ask for much are cut
// off before those that ask for little. It counts work, so it ends at the same place on any
// machine.
//
// The zero value is ready for use. The fields must be set before. It is safe for concurrent
// use.
type Budget struct {
	// Calls is the number of calls; 0 means 65,536, which take about 50 ms of a live process.
	Calls int64
	// Bytes is the number of bytes; 0 means 16 MiB.
	Bytes int64

	mu    sync.Mutex
	calls stranger.Pool[int]
	bytes stranger.Pool[int]
}

// budgetParts is how much larger the budget of all processes is than that of one.
const budgetParts = 8

// Memory returns mem within the budget: the memory of a process, or of anything else that id
// tells from the rest. What exceeds the budget is not read: ErrBudget. Once a read was refused,
// those that fit may still be allowed.
func (b *Budget) Memory(id int, mem Memory) Memory { return &budgeted{b, id, mem} }

// Renew starts the budget anew, for all processes: for the next time that names are asked for.
func (b *Budget) Renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls.Renew()
	b.bytes.Renew()
}

// take takes one call and n bytes.
func (b *Budget) take(id, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls.Parts == 0 {
		b.calls = stranger.Pool[int]{Total: budgetParts * orElse(b.Calls, 64<<10), Parts: budgetParts}
		b.bytes = stranger.Pool[int]{Total: budgetParts * orElse(b.Bytes, 16<<20), Parts: budgetParts}
	}
	return b.bytes.Has(id, int64(n)) && b.calls.Take(id, 1) && b.bytes.Take(id, int64(n))
}

func orElse(n, otherwise int64) int64 {
	if n > 0 {
		return n
	}
	return otherwise
}

// budgeted is memory within a budget.
type budgeted struct {
	budget *Budget
	id     int
	mem    Memory
}

// ReadMemory implements Memory.
func (m *budgeted) ReadMemory(dst []byte, addr uint64) error {
	if !m.budget.take(m.id, len(dst)) {
		return ErrBudget
	}
	return m.mem.ReadMemory(dst, addr)
}

var _ Memory = (*budgeted)(nil)
