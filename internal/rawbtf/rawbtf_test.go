package rawbtf

import "testing"

func FuzzBTFFuncs(f *testing.F) {
	f.Add([]byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 12, 1, 0, 0, 0, 0, 'f', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := New(b)
		if err != nil {
			return
		}
		for id, name := range r.Funcs {
			r.Traceable(id) // within the blob, whatever it says
			if len(name) > len(b) || int(id) >= len(r.At) {
				t.Errorf("type %d is %q", id, name)
			}
		}
	})
}
