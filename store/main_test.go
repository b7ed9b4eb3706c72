package store_test

import (
	"flag"
	"os"
	"testing"

	"tidemark/storetest"
)

// histories is how many random cases each property sees; -rapid.checks says otherwise.
const histories = "140"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", histories); err != nil {
		panic(err)
	}
	os.Exit(storetest.Run(m))
}
