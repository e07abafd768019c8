package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestInPlace: what verifiers know nothing of is replaced in an attach point, and nothing in actions.
func TestInPlace(t *testing.T) {
	for _, c := range []struct{ piece, want string }{
		{"kprobe:blk_start_request", "kprobe:vfs_read"},
		{"kretprobe:nfs:nfs_*", "kretprobe:vfs_read"},
		{"kprobe:a,\nkprobe:b+0x4 /@kprobe:x/ { kprobe:c }", "kprobe:vfs_read,\nkprobe:vfs_read /@kprobe:vfs_read/ { kprobe:c }"},
		{`uprobe:/opt/x-1/bin/y:"A::b(int)"`, "uprobe:libc:malloc"},
		{"uretprobe:./bash:readline { 1 }", "uretprobe:libc:malloc { 1 }"},
		{`kaddr("avenrun")`, `kaddr("vfs_read")`},
		{"tracepoint:scsi:done", "tracepoint:scsi:done"},
		{"usdt:/usr/bin/x:p:n", "usdt:/usr/bin/x:p:n"},
	} {
		if got := inPlace(c.piece); got != c.want {
			t.Errorf("inPlace(%q) = %q, want %q", c.piece, got, c.want)
		}
	}
}

// TestTable: a script has a place among those of each kernel, and a cause stands once.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, text := range []string{
		"kernel 5.10\ntools\ta.bt\tprograms\t\ntools\tb.bt\tnot here\tNo matches for kprobe x.\nother output\n",
		"kernel 6.12\ntools\ta.bt\trefused\tR1 !read_ok\ntools\tb.bt\tnot here\tNo matches for kprobe x.\n",
	} {
		file := filepath.Join(dir, strconv.Itoa(len(files)))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	var b strings.Builder
	if err := table(&b, files); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | 5.10 | 6.12 |\n", "| programs | 1 | 0 |\n", "| refused | 0 | 1 |\n", "| not here | 1 | 1 |\n",
		"* refused on 6.12: `R1 !read_ok`: a.bt\n", "* not here on all: `No matches for kprobe x.`: b.bt\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &b)
		}
	}
}
