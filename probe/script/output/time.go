package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Strftime formats a time as C's strftime does in the C locale, with bpftrace's additions: %k is
// the nanoseconds of the second, %f the microseconds, %l the milliseconds. The time's location is
// used. What is no conversion is printed as it is.
func Strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' || i+1 == len(format) {
			b.WriteByte(c)
			continue
		}
		i++
		for (format[i] == 'E' || format[i] == 'O') && i+1 < len(format) {
			i++ // the locale's alternatives, which C's has none of
		}
		if text, ok := conversion(format[i], t); ok {
			b.WriteString(text)
		} else {
			b.WriteString("%" + format[i:i+1])
		}
	}
	return b.String()
}

// layouts are the conversions that package time has.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006",
	'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'H': "15", 'I': "03", 'm': "01",
	'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05",
	'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

func conversion(c byte, t time.Time) (string, bool) {
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	year, week := t.ISOWeek()
	two := func(n int) string { return fmt.Sprintf("%02d", n) }
	switch c {
	case 'k':
		return fmt.Sprintf("%09d", t.Nanosecond()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'l':
		return fmt.Sprintf("%03d", t.Nanosecond()/1_000_000), true
	case 'C':
		return two(t.Year() / 100), true
	case 'g':
		return two(year % 100), true
	case 'G':
		return strconv.Itoa(year), true
	case 'V':
		return two(week), true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'U':
		return two((t.YearDay() + 6 - int(t.Weekday())) / 7), true
	case 'W':
		return two((t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'P':
		return strings.ToLower(t.Format("PM")), true
	case '%':
		return "%", true
	}
	return "", false
}
