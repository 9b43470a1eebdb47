package coreutils

import (
	"context"
	"fmt"
	"path"
	"strings"
)

func (f *finder) remove(v *visit) bool {
	if v.name == "." {
		return true
	}
	op := f.c.FS.Unlink
	if v.info.IsDir() {
		op = f.c.FS.Rmdir
	}
	if err := op(f.c.path(v.name)); err != nil {
		f.c.errorf("cannot delete %s: %s", quoted(v.name), reason(err))
		f.code = 1
		return false
	}
	return true
}

func (f *finder) exec(name string) (predicate, error) {
	f.acts = true
	end := -1
	for i, a := range f.args {
		if a == ";" || a == "+" && i > 0 && f.args[i-1] == "{}" {
			end = i
			break
		}
	}
	if end < 1 {
		return nil, fmt.Errorf("missing argument to `%s'", name)
	}
	argv, many := f.args[:end], f.args[end] == "+"
	f.args = f.args[end+1:]
	inDir := strings.HasSuffix(name, "dir")
	if many && !inDir {
		b := &batch{argv: argv[:len(argv)-1]}
		f.batches = append(f.batches, b)
		return func(ctx context.Context, v *visit) bool {
			if b.names, b.bytes = append(b.names, v.name), b.bytes+len(v.name); b.bytes > maxArguments {
				f.runBatch(ctx, b)
			}
			return true
		}, nil
	}
	return func(ctx context.Context, v *visit) bool {
		_ = f.w.Flush() // what was printed before comes before
		name, dir := v.name, f.c.Dir
		if inDir {
			name, dir = "./"+path.Base(v.name), path.Dir(f.c.path(v.name))
		}
		out := make([]string, len(argv))
		for i, a := range argv {
			out[i] = strings.ReplaceAll(a, "{}", name)
		}
		d := f.c.with(out)
		d.Dir = dir
		return f.c.Run(ctx, d) == 0
	}, nil
}

func (f *finder) runBatch(ctx context.Context, b *batch) {
	_ = f.w.Flush()
	if f.c.Run(ctx, f.c.with(append(append([]string{}, b.argv...), b.names...))) != 0 {
		f.code = 1
	}
	b.names, b.bytes = nil, 0
}

// format fills in a -printf.
func (f *finder) format(form string, v *visit) string {
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		c := form[i]
		if i+1 == len(form) || c != '%' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		i++
		if c == '\\' {
			if at := strings.IndexByte("abfnrtv", form[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v"[at])
			} else if form[i] == '0' {
				b.WriteByte(0)
			} else {
				b.WriteByte(form[i])
			}
			continue
		}
		switch form[i] {
		case 'p':
			b.WriteString(v.name)
		case 'f':
			b.WriteString(path.Base(v.name))
		case 'h':
			b.WriteString(path.Dir(v.name))
		case 'P':
			b.WriteString(strings.TrimPrefix(strings.TrimPrefix(v.name, v.base), "/"))
		case 's':
			fmt.Fprint(&b, v.info.Size())
		case 'd':
			fmt.Fprint(&b, v.depth)
		case 'y':
			b.WriteByte(strings.Replace(modeString(v.info.Mode())[:1], "-", "f", 1)[0])
		case 'm':
			fmt.Fprintf(&b, "%o", v.info.Mode().Perm())
		case 'M':
			b.WriteString(modeString(v.info.Mode()))
		case 'u', 'g':
			b.WriteString("sandbox")
		case 'U', 'G':
			b.WriteString("1000")
		case 'i':
			fmt.Fprint(&b, inodeOf(v.info))
		case 'n':
			fmt.Fprint(&b, linksOf(v.info))
		case 'l':
			target, _ := f.c.FS.Readlink(f.c.path(v.name))
			b.WriteString(target)
		case 't':
			b.WriteString(v.info.ModTime().Format("Mon Jan _2 15:04:05.0000000000 2006"))
		case 'T':
			if i++; i < len(form) {
				if form[i] == '@' {
					fmt.Fprintf(&b, "%d.%010d", v.info.ModTime().Unix(), v.info.ModTime().Nanosecond()*10)
				} else {
					b.WriteString(strftime("%"+form[i:i+1], v.info.ModTime()))
				}
			}
		default:
			b.WriteByte(form[i])
		}
	}
	return b.String()
}
