package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the zones: no file of the host is read

	"github.com/itchyny/timefmt-go"
)

// strftime formats a time as strftime(3) does.
func strftime(form string, t time.Time) string { return timefmt.Format(t, form) }

func date(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("d:uI::Rr:f:s:", "date=d", "utc=u", "universal=u", "iso-8601=I", "rfc-email=R", "reference=r", "file=f", "set=s")
	if err != nil {
		return c.usage(err, 1)
	}
	zone := time.UTC
	if tz := c.Env["TZ"]; tz != "" {
		if zone, err = time.LoadLocation(strings.TrimPrefix(tz, ":")); err != nil {
			zone = time.UTC
		}
	}
	var given *string
	form, file := "", ""
	now := time.Now()
	for _, o := range opts {
		switch o.name {
		case 'd':
			given = &o.arg
		case 'u':
			zone = time.UTC
		case 'R':
			form = "%a, %d %b %Y %H:%M:%S %z"
		case 'I':
			ok := false
			if form, ok = map[string]string{
				"": "%Y-%m-%d", "date": "%Y-%m-%d", "hours": "%Y-%m-%dT%H%:z", "minutes": "%Y-%m-%dT%H:%M%:z",
				"seconds": "%Y-%m-%dT%H:%M:%S%:z", "ns": "%Y-%m-%dT%H:%M:%S,%N%:z",
			}[o.arg]; !ok {
				return c.usage(fmt.Errorf("invalid argument %s for '--iso-8601'", quoted(o.arg)), 1)
			}
		case 'r':
			info, err := c.FS.Stat(c.path(o.arg))
			if err != nil {
				c.errorf("%s: %s", o.arg, reason(err))
				return 1
			}
			now = info.ModTime()
		case 'f':
			file = o.arg
		case 's':
			c.errorf("cannot set date: Operation not permitted")
			return 1
		}
	}
	for _, o := range operands {
		rest, ok := strings.CutPrefix(o, "+")
		if !ok {
			return c.usage(fmt.Errorf("invalid date %s", quoted(o)), 1)
		}
		form = rest
		if rest == "" {
			fmt.Fprintln(c.Stdout)
			return 0
		}
	}
	if form == "" {
		form = "%a %b %e %H:%M:%S %Z %Y"
	}
	if file != "" {
		code := 0
		n := c.filter(ctx, []string{file}, func(w *bufio.Writer, line []byte) {
			t, err := parseDate(string(line), now, zone)
			if err != nil {
				c.errorf("invalid date %s", quoted(string(line)))
				code = 1
				return
			}
			w.WriteString(dateFormat(form, t.In(zone)))
		})
		return max(n, code)
	}
	t := now
	if given != nil {
		if t, err = parseDate(*given, now, zone); err != nil {
			return c.usage(fmt.Errorf("invalid date %s", quoted(*given)), 1)
		}
	}
	fmt.Fprintln(c.Stdout, dateFormat(form, t.In(zone)))
	return 0
}

// dateFormat is strftime with the directives that only date has.
func dateFormat(form string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		if form[i] != '%' || i+1 == len(form) {
			b.WriteByte(form[i])
			continue
		}
		switch rest := form[i+1:]; {
		case rest[0] == 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		case len(rest) > 1 && rest[1] == 'N' && rest[0] >= '1' && rest[0] <= '9':
			b.WriteString(fmt.Sprintf("%09d", t.Nanosecond())[:rest[0]-'0'])
			i++
		case strings.HasPrefix(rest, ":z"):
			b.WriteString(t.Format("-07:00"))
			i++
		case rest[0] == 'q':
			b.WriteString(strconv.Itoa((int(t.Month())-1)/3 + 1))
		case rest[0] == 'P':
			b.WriteString(strings.ToLower(t.Format("PM")))
		case rest[0] == 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		default:
			// Flags belong to the directive.
			n := 1
			for n < len(rest) && strings.IndexByte("_-0^#123456789", rest[n-1]) >= 0 {
				n++
			}
			b.WriteString(strftime(form[i:i+1+n], t))
			i += n - 1
		}
		i++
	}
	return b.String()
}

// dateLayouts are the absolute dates that are understood.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05", "2006-01-02 15:04 MST", "2006-01-02 15:04", "2006-01-02 MST", "2006-01-02",
	"2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02", "20060102 15:04:05", "20060102 15:04", "20060102", "01/02/2006 15:04:05", "01/02/2006", "1/2/2006",
	time.RFC1123Z, time.RFC1123, time.RFC850, time.UnixDate, time.ANSIC, "Mon Jan _2 15:04:05 2006", "02 Jan 2006 15:04:05", "02 Jan 2006", "2 Jan 2006 15:04:05",
	"2 Jan 2006 15:04", "2 Jan 2006", "2 January 2006", "Jan 2 2006", "Jan 2, 2006", "January 2 2006", "January 2, 2006", "Jan 2 2006 15:04:05", "Jan 2, 2006 15:04:05",
	"15:04:05", "15:04", "3:04pm", "3pm",
}

var errDate = errors.New("invalid date")

// parseDate reads a date as "date -d" takes it: absolute, relative to now, or
// both, as in "2024-01-31 +2 days" or "next monday".
func parseDate(s string, now time.Time, zone *time.Location) (time.Time, error) {
	s = strings.NewReplacer("+ ", "+", " - ", " -").Replace(strings.TrimSpace(s))
	now = now.In(zone)
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		f, err := strconv.ParseFloat(rest, 64)
		if err != nil || f > 1<<45 || f < -(1<<45) {
			return now, errDate
		}
		whole := math.Floor(f)
		return time.Unix(int64(whole), int64((f-whole)*1e9)).In(zone), nil
	}
	words := strings.Fields(strings.ReplaceAll(s, ",", " "))
	for n := len(words); n >= 0; n-- {
		t, ok := absoluteDate(strings.Join(words[:n], " "), now, zone)
		if !ok {
			continue
		}
		if t, ok = relativeDate(words[n:], t); ok {
			return t, nil
		}
	}
	return now, errDate
}

func absoluteDate(s string, now time.Time, zone *time.Location) (time.Time, bool) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, zone)
	switch strings.ToLower(s) {
	case "", "now":
		return now, true
	case "today":
		return now, true
	case "midnight":
		return midnight, true
	case "noon":
		return midnight.Add(12 * time.Hour), true
	case "tomorrow":
		return now.AddDate(0, 0, 1), true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	}
	if rest, ok := strings.CutSuffix(s, " UTC"); ok {
		s, zone = rest, time.UTC
	} else if rest, ok := strings.CutSuffix(s, "Z"); ok && strings.Contains(rest, ":") && !strings.Contains(rest, "T") {
		s, zone = rest, time.UTC
	}
	for _, layout := range dateLayouts {
		t, err := time.ParseInLocation(layout, s, zone)
		if err != nil {
			continue
		}
		if t.Year() == 0 { // a time of day
			t = midnight.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second)
		}
		return t, true
	}
	return now, false
}

// relativeDate applies words such as "+2 days ago" or "next friday".
func relativeDate(words []string, t time.Time) (time.Time, bool) {
	for i := 0; i < len(words); {
		w := strings.ToLower(words[i])
		n, numbered := 1, false
		switch w {
		case "next":
			numbered = true
		case "last":
			n, numbered = -1, true
		case "this":
			n, numbered = 0, true
		default:
			digits := strings.TrimLeft(w, "+-0123456789")
			if len(digits) < len(w) {
				v, err := strconv.Atoi(w[:len(w)-len(digits)])
				if err != nil {
					return t, false
				}
				n, numbered = v, true
				if digits != "" { // "3days"
					words = append(append(append([]string{}, words[:i+1]...), digits), words[i+1:]...)
				}
			}
		}
		if numbered {
			i++
			if i == len(words) {
				return t, false
			}
			w = strings.ToLower(words[i])
		}
		i++
		if i < len(words) && strings.EqualFold(words[i], "ago") {
			n = -n
			i++
		}
		if day, ok := weekday(w); ok {
			t = time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
			ahead := (int(day) - int(t.Weekday()) + 7) % 7
			if numbered && n > 0 && ahead == 0 {
				ahead = 7
			} else if n < 0 {
				ahead -= 7
			}
			t = t.AddDate(0, 0, ahead)
			continue
		}
		switch strings.TrimSuffix(w, "s") {
		case "sec", "second":
			t = t.Add(time.Duration(n) * time.Second)
		case "min", "minute":
			t = t.Add(time.Duration(n) * time.Minute)
		case "hour":
			t = t.Add(time.Duration(n) * time.Hour)
		case "day":
			t = t.AddDate(0, 0, n)
		case "week":
			t = t.AddDate(0, 0, 7*n)
		case "fortnight":
			t = t.AddDate(0, 0, 14*n)
		case "month":
			t = t.AddDate(0, n, 0)
		case "year":
			t = t.AddDate(n, 0, 0)
		case "tomorrow":
			t = t.AddDate(0, 0, 1)
		case "yesterday":
			t = t.AddDate(0, 0, -1)
		case "today", "now":
		default:
			return t, false
		}
	}
	return t, true
}

func weekday(s string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if s == name || len(s) >= 3 && strings.HasPrefix(name, s) {
			return d, true
		}
	}
	return 0, false
}
