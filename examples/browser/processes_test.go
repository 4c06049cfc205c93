package browser_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// descendants are the processes below this one: the browser and its helpers,
// some of which do not name its profile. Where there is no /proc there are
// none.
func descendants() []string {
	children := map[string][]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state ppid …, where the name may hold anything.
		if fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(fields) > 1 {
			children[fields[1]] = append(children[fields[1]], filepath.Base(filepath.Dir(f)))
		}
	}
	all := slices.Clone(children[strconv.Itoa(os.Getpid())])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// leftovers waits until all of the processes have ended, and tells which have
// not.
func leftovers(pids []string) []string {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		pids = slices.DeleteFunc(pids, func(pid string) bool {
			b, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")) // empty for a zombie
			return err != nil || !bytes.Contains(b, []byte("chromium"))
		})
		if len(pids) == 0 || time.Now().After(deadline) {
			return pids
		}
	}
}
