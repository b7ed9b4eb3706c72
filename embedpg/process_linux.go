package embedpg

import "syscall"

// dieWithParent has the kernel send a fast shutdown when our thread is gone,
// however we ended.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
