package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

const (
	// outputFD is the environment variable with the number of the file descriptor of the container's standard output.
	outputFD = "ZOSCB_OUTPUT_FD"
	// maxLineBytes is the length of a line. Longer ones are split.
	maxLineBytes = 16 << 10
	// lastLines is how many lines are kept for a run that ends without a report.
	lastLines = 5
)

// Output writes lines to the container's standard output, each with the resource and the run that it belongs to.
type Output struct {
	mutex sync.Mutex
	// File is nil if there is no such descriptor. Lines are then discarded.
	File *os.File
	// lock keeps the lines of several runs apart: long ones are not written at once.
	lock *os.File
	line outputLine
	// Quiet is true during a drift check: lines of a run are neither written nor kept.
	Quiet bool
	// Last are the last lines of the run.
	Last []string
}

type outputLine struct {
	Time      string `json:"time"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Run       string `json:"run"`
	Line      string `json:"line"`
}

// OpenOutput returns the output for the lines of a run. What it is about is not known yet.
func OpenOutput(run string) *Output {
	o := &Output{line: outputLine{Run: run}}
	fd, err := strconv.Atoi(os.Getenv(outputFD))
	if err != nil || fd < 3 {
		return o
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return o
	}
	unix.CloseOnExec(fd)
	o.File = os.NewFile(uintptr(fd), "output")
	if dir := os.Getenv("ZOSCB_STATE_DIR"); dir != "" && os.MkdirAll(dir, 0o770) == nil {
		o.lock, _ = os.OpenFile(filepath.Join(dir, "output.lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o660)
	}
	return o
}

// SetResource is called once the files of the call are read.
func (o *Output) SetResource(kind, namespace, name string) {
	o.line.Kind, o.line.Namespace, o.line.Name = kind, namespace, name
}

// Note writes a line of the gate itself.
func (o *Output) Note(format string, args ...any) { o.write("gate: " + fmt.Sprintf(format, args...)) }

func (o *Output) write(line string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.File == nil {
		return
	}
	entry := o.line
	entry.Time, entry.Line = time.Now().UTC().Format(time.RFC3339Nano), line
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(entry); err != nil {
		return
	}
	if o.lock != nil {
		_ = unix.Flock(int(o.lock.Fd()), unix.LOCK_EX)
		defer func() { _ = unix.Flock(int(o.lock.Fd()), unix.LOCK_UN) }()
	}
	_, _ = o.File.Write(content.Bytes())
}

// copyLines writes each line of a run, until its end.
func (o *Output) copyLines(from io.Reader) {
	reader := bufio.NewReaderSize(from, maxLineBytes)
	for {
		content, _, err := reader.ReadLine()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				o.Note("output of the run: %v", err)
			}
			return
		}
		if o.Quiet {
			continue
		}
		for line := range strings.SplitSeq(printable.Lines(string(content)), "\n") {
			if strings.TrimSpace(line) != "" {
				o.Last = append(o.Last, line)
				o.Last = o.Last[max(0, len(o.Last)-lastLines):]
			}
			o.write(line)
		}
	}
}
