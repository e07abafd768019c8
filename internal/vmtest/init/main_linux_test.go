package main

import "testing"

// TestRefusesElsewhere checks inGuest on this machine, where init would mount over the host's
// /dev, /tmp and /run. It does not check that main calls inGuest, because a failure would do
// that.
func TestRefusesElsewhere(t *testing.T) {
	if inGuest() {
		t.Error("this machine is taken for a guest")
	}
}
