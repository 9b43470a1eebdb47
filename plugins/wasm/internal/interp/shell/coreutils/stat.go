package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

func stat(_ context.Context, c *Call) int {
	opts, operands, err := c.options("c:Lft", "format=c", "dereference=L", "file-system=f", "terse=t")
	if err != nil {
		return c.usage(err, 1)
	}
	form, follow := "", false
	for _, o := range opts {
		switch o.name {
		case 'c':
			form = o.arg + "\n"
		case 'L':
			follow = true
		default:
			return c.usage(fmt.Errorf("option -%c is not available", o.name), 1)
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if form == "" {
		form = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\nDevice: 0,1\tInode: %-11i Links: %h\nAccess: (%04a/%A)  Uid: ( 1000/ sandbox)   Gid: ( 1000/ sandbox)\nAccess: %x\nModify: %y\nChange: %z\n Birth: -\n"
	}
	code := 0
	for _, name := range operands {
		op := c.FS.Lstat
		if follow {
			op = c.FS.Stat
		}
		info, err := op(c.path(name))
		if err != nil {
			c.errorf("cannot statx %s: %s", quoted(name), reason(err))
			code = 1
			continue
		}
		fmt.Fprint(c.Stdout, c.statFormat(form, name, info))
	}
	return code
}

// statFormat fills in a format of stat.
func (c *Call) statFormat(form, name string, info fs.FileInfo) string {
	var b strings.Builder
	stamp := func(ns int64) string { return time.Unix(0, ns).Format("2006-01-02 15:04:05.000000000 -0700") }
	details := detailsOf(info)
	for i := 0; i < len(form); i++ {
		if form[i] != '%' || i+1 == len(form) {
			b.WriteByte(form[i])
			continue
		}
		j := i + 1
		for j < len(form) && strings.IndexByte("-+ #.0123456789", form[j]) >= 0 {
			j++
		}
		if j == len(form) {
			b.WriteString(form[i:])
			break
		}
		flags := form[i+1 : j]
		var v any
		switch form[j] {
		case '%':
			b.WriteByte('%')
			i = j
			continue
		case 'n':
			v = name
		case 'N':
			v = name
			if info.Mode()&fs.ModeSymlink != 0 {
				target, _ := c.FS.Readlink(c.path(name))
				v = name + " -> " + target
			}
		case 's':
			v = info.Size()
		case 'b':
			v = (info.Size() + 4095) / 4096 * 8
		case 'B':
			v = 512
		case 'o':
			v = 4096
		case 'a':
			v = strconv.FormatUint(uint64(info.Mode().Perm()), 8)
			if flags == "04" {
				flags, v = "", fmt.Sprintf("%04o", info.Mode().Perm())
			}
		case 'A':
			v = modeString(info.Mode())
		case 'f':
			v = strconv.FormatUint(uint64(rawMode(info.Mode())), 16)
		case 'F':
			v = kindOf(info)
		case 'i':
			v = inodeOf(info)
		case 'h':
			v = linksOf(info)
		case 'u', 'g':
			v = 1000
		case 'U', 'G':
			v = "sandbox"
		case 'd':
			v = 1
		case 'x':
			v = stamp(details.Accessed.UnixNano())
		case 'X':
			v = details.Accessed.Unix()
		case 'y':
			v = stamp(info.ModTime().UnixNano())
		case 'Y':
			v = info.ModTime().Unix()
		case 'z':
			v = stamp(details.Changed.UnixNano())
		case 'Z':
			v = details.Changed.Unix()
		case 'w', 'W':
			v = "-"
		default:
			v = "?"
		}
		fmt.Fprintf(&b, "%"+limitWidth(flags)+"v", v)
		i = j
	}
	return b.String()
}

// limitWidth drops flags that would make a field of millions of characters.
func limitWidth(flags string) string {
	if len(flags) > 4 {
		return ""
	}
	return flags
}

func rawMode(m fs.FileMode) uint32 {
	kind := uint32(0o100000)
	switch {
	case m.IsDir():
		kind = 0o040000
	case m&fs.ModeSymlink != 0:
		kind = 0o120000
	case m&fs.ModeCharDevice != 0:
		kind = 0o020000
	case m&fs.ModeNamedPipe != 0:
		kind = 0o010000
	}
	return kind | uint32(m.Perm())
}

func kindOf(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeCharDevice != 0:
		return "character special file"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case info.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}
