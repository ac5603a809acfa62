package main

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// validBytecode returns an error if Python would compile sources again whose bytecode is in the image.
func (i image) validBytecode() error {
	stale := 0
	for _, l := range i.layers {
		count, err := staleBytecode(l.File)
		if err != nil {
			return fmt.Errorf("%s: %w", l.File, err)
		}
		stale += count
	}
	if stale > 0 {
		return fmt.Errorf("%d .pyc files are not valid for the times of their sources: export SOURCE_DATE_EPOCH=0 PYTHONDONTWRITEBYTECODE=1 where packages are installed, in hack/devcluster/files/standins", stale)
	}
	return nil
}

// staleBytecode counts the .pyc files of a layer that record a time of their source. All sources have the times of 1970. The
// header of these files is specified by PEP 552: a magic number, flags, and either time and size of the source, or, with a
// flag, its hash.
func staleBytecode(file string) (stale int, err error) {
	content, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	layer := tar.NewReader(content)
	for {
		entry, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return stale, nil
		}
		if err != nil {
			return 0, err
		}
		if entry.Typeflag != tar.TypeReg || path.Ext(entry.Name) != ".pyc" {
			continue
		}
		var header struct{ Magic, Flags, Time, Size uint32 }
		if err := binary.Read(layer, binary.LittleEndian, &header); err != nil {
			return 0, fmt.Errorf("%s: %w", entry.Name, err)
		}
		if header.Flags == 0 && header.Time != 0 {
			stale++
		}
	}
}
