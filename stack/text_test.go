package stack

import "testing"

func TestTextForms(t *testing.T) {
	for h := FrameSource(0); h < 20; h++ {
		b, _ := h.MarshalText()
		var back FrameSource
		if err := back.UnmarshalText(b); err != nil || back != h {
			t.Errorf("how %q: %v, %v", b, back, err)
		}
	}
	for e := StopReason(0); e < 20; e++ {
		b, _ := e.MarshalText()
		var back StopReason
		if err := back.UnmarshalText(b); err != nil || back != e {
			t.Errorf("end %q: %v, %v", b, back, err)
		}
	}
	var h FrameSource
	if h.UnmarshalText([]byte("nonsense")) == nil {
		t.Error("nonsense accepted")
	}
}
