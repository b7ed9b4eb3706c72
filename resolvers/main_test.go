package resolvers_test

import (
	"os"
	"testing"

	"tidemark/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Run(m)) }
