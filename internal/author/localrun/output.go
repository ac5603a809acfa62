package localrun

import (
	"io"
	"sync"
)

// output is where the lines of a run go. Several goroutines write to it. If it is closed, as by head, the run goes on: otherwise
// the gate would be killed, and leave the playbook alone.
type output struct {
	mutex sync.Mutex
	to    io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	_, _ = o.to.Write(p)
	return len(p), nil
}
