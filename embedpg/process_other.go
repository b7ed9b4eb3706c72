//go:build !linux

package embedpg

import "syscall"

// dieWithParent does nothing here: a killed server leaves its PostgreSQL behind,
// and the next start waits for it or names it.
func dieWithParent(*syscall.SysProcAttr) {}
