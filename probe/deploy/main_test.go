package deploy

import (
	"testing"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) {
	if err := kernel.RaiseMemlock(); err != nil {
		panic(err)
	}
	testenv.Main(m)
}
