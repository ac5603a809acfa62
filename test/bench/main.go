// Command bench measures how long it takes from an archive to the Kubernetes objects that are made of it, and how much
// memory. It compares with the least that anybody must do, which is to decompress the archive and hash the result, and
// with what ansible-galaxy takes to verify the installed collection. All of it runs in turn, so that what else the machine
// does hits everything alike.
//
//	go run ./test/bench [-runs N]
//
// With scale or figures and a folder, it writes what was measured of many collections, or on a node, into docs/benchmarks.md.
//
//	go run ./test/bench scale docs/benchmarks/scale
//	go run ./test/bench figures docs/benchmarks/node
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "measure" {
		exit(measure(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "scale" {
		exit(writeScale(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "figures" {
		exit(writeFigures(os.Args[2]))
	}
	runs := flag.Int("runs", 9, "how often each thing is measured")
	flag.Parse()
	exit(bench(max(*runs, 1)))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func bench(runs int) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Printf("median of %d runs\n\n", runs)
	fmt.Println("| collection | files | archive | floor | ours | ours / floor | without the start of the process | ansible-galaxy verify | peak memory |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, s := range shapes {
		archive, size, err := s.build(dir)
		if err != nil {
			return err
		}
		galaxy, err := install(archive)
		if err != nil {
			return err
		}
		m, err := compare(archive, galaxy, runs)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %.2f | %s | %s | %s |\n", s.name, s.files, kibibytes(size), milliseconds(m.floor),
			milliseconds(m.process), float64(m.process)/float64(m.floor), milliseconds(m.inside), milliseconds(m.galaxy), mebibytes(m.memory))
	}
	return nil
}

func kibibytes(n int64) string { return fmt.Sprintf("%d KiB", n>>10) }

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func milliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}

// build writes the shape's archive into dir.
func (s shape) build(dir string) (path string, size int64, err error) {
	var content bytes.Buffer
	if err := galaxy.Build(s.folder(), &content); err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, "acme-bench-"+s.name+".tar.gz")
	return path, int64(content.Len()), os.WriteFile(path, content.Bytes(), 0o644)
}

// install installs the archive where `ansible-galaxy collection verify` finds it, and returns that command. Without
// ansible-galaxy it returns nil.
func install(archive string) ([]string, error) {
	galaxy, err := exec.LookPath("ansible-galaxy")
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintln(os.Stderr, "ansible-galaxy is not installed and not compared with")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	target := archive + ".installed"
	out, err := exec.Command(galaxy, "collection", "install", "--no-deps", "-p", target, archive).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ansible-galaxy: %w\n%s", err, out)
	}
	return []string{galaxy, "collection", "verify", "--offline", "-p", target, "acme.bench"}, nil
}

// measurement is the median of each time, and the most memory that our process took.
type measurement struct {
	floor, process, inside, galaxy time.Duration
	memory                         int64
}

func compare(archive string, galaxy []string, runs int) (measurement, error) {
	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	var floors, processes, insides, galaxies []time.Duration
	var memory int64
	for range runs {
		took, _, err := run("sh", "-c", `gunzip -c "$0" | sha256sum`, archive)
		if err != nil {
			return measurement{}, err
		}
		floors = append(floors, took)

		took, stdout, err := run(self, "measure", archive)
		if err != nil {
			return measurement{}, err
		}
		var ours result
		if err := json.Unmarshal(stdout, &ours); err != nil {
			return measurement{}, err
		}
		processes = append(processes, took)
		insides = append(insides, ours.Took)
		memory = max(memory, ours.Memory)

		if galaxy == nil {
			continue
		}
		took, _, err = run(galaxy[0], galaxy[1:]...)
		if err != nil {
			return measurement{}, err
		}
		galaxies = append(galaxies, took)
	}
	return measurement{
		floor: median(floors), process: median(processes), inside: median(insides), galaxy: median(galaxies), memory: memory,
	}, nil
}

// median is 0 without values.
func median(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// run runs a command and says how long it took and what it printed.
func run(name string, args ...string) (time.Duration, []byte, error) {
	var stdout, stderr bytes.Buffer
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	start := time.Now()
	err := command.Run()
	took := time.Since(start)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	return took, stdout.Bytes(), nil
}
