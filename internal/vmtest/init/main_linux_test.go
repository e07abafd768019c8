package main

import "testing"

// TestRefusesElsewhere: here it would mount over the host's /dev, /tmp and /run. That
// main asks is not tried: it would be tried for real.
func TestRefusesElsewhere(t *testing.T) {
	if inGuest() {
		t.Error("this machine is taken for a guest")
	}
}
