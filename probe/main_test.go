package probe

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) {
	if err := raiseMemlock(); err != nil {
		panic(err)
	}
	testenv.Main(m)
}
