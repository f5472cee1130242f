// Answers the rows of tests/golden with Go's text/template:
//
//	for f in ../golden/*.tsv; do go run . <"$f" >new && mv new "$f"; done
//
// Only the first two columns of a row are read: the mode of missing keys and the texts. The data and
// the functions are those of tests/common.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"
)

type Inner struct {
	A int
	B string
}
type Obj struct {
	Name  string
	Count int
	Any   any
	In    Inner
	Map   map[string]any
	List  []string
}

func (o *Obj) Hello(who string) string { return "hello " + who }
func (o *Obj) Sum(base int, more ...int) int {
	for _, m := range more {
		base += m
	}
	return base
}
func (o *Obj) Fails() (string, error) { return "", errors.New("it failed") }
func (o *Obj) Nothing() any           { return nil }
func (o *Obj) Self() *Obj             { return o }

type Version struct{ major, minor uint64 }

func (v *Version) String() string { return fmt.Sprintf("v%d.%d", v.major, v.minor) }
func (v *Version) Major() uint64  { return v.major }

type Names []string

func (n Names) Has(s string) bool {
	for _, x := range n {
		if x == s {
			return true
		}
	}
	return false
}

type Values map[string]any

func (v Values) Keys() int { return len(v) }
func (v Values) Table(name string) (Values, error) {
	t, ok := v[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%q is not a table", name)
	}
	return t, nil
}

type Dur int64

func (d Dur) String() string { return fmt.Sprintf("%dns", int64(d)) }

func data() map[string]any {
	self := map[string]any{
		"t": true, "f": false, "i": 17, "i64": int64(-3), "u64": uint64(9), "i32": int32('x'), "u8": uint8(7),
		"fl": 1.5, "big": 1e6, "neg": -2.25, "three": 3.0, "tiny": 1e-5,
		"s": "text", "es": "", "html": "<a href=\"x\">'&'</a>", "bytes": []byte("hi"), "bad": "a\xffb\xc3", "uni": "héé→世",
		"nil": nil, "l": []any{1, "two", 3.5, nil, true}, "el": []any{}, "ls": []string{"a", "b"}, "li": []int{3, 4, 5},
		"lb": []bool{true, false}, "ll": []any{[]any{1, 2}, []any{"x"}},
		"m":  map[string]any{"one": 1, "two": "zwei", "null": nil, "nested": map[string]any{"deep": map[string]any{"x": "y"}}},
		"em": map[string]any{}, "ms": map[string]string{"k": "v", "a": "b"}, "mi": map[string]int{"z": 26, "a": 1},
		"ml": map[string][]string{"p": {"q"}}, "lm": []map[string]any{{"a": 1}, {"b": nil}},
		"o":   &Obj{Name: "obj", Count: 3, In: Inner{5, "in"}, Map: map[string]any{"k": "v"}, List: []string{"x"}},
		"ver": &Version{1, 22}, "names": Names{"v1", "apps/v1"}, "vals": Values{"a": 1, "tab": map[string]any{"x": 1}, "Keys": "hidden"},
		"dur": Dur(90), "nl": "a\nb\tc", "deep": map[string]any{"a": map[string]any{"b": map[string]any{"c": "leaf"}}},
	}
	return self
}

func funcs(t *template.Template, mode string) template.FuncMap {
	return template.FuncMap{
		"str":       func(s string) string { return "<" + s + ">" },
		"add":       func(a, b int) int { return a + b },
		"any":       func(a any) any { return a },
		"count":     func(a ...any) int { return len(a) },
		"strs":      func(a string, b ...string) string { return a + "|" + strings.Join(b, ",") },
		"fl":        func(f float64) float64 { return f },
		"boolean":   func(b bool) bool { return b },
		"i64":       func(i int64) int64 { return i },
		"u64":       func(i uint64) uint64 { return i },
		"u8":        func(i uint8) uint8 { return i },
		"list":      func(a ...any) []any { return a },
		"items":     func(a []any) int { return len(a) },
		"strings":   func(a []string) int { return len(a) },
		"mapany":    func(m map[string]any) int { return len(m) },
		"mapstr":    func(m map[string]string) int { return len(m) },
		"obj":       func(o *Obj) string { return o.Name },
		"fail":      func(s string) (string, error) { return "", errors.New(s) },
		"panics":    func(s string) string { panic(s) },
		"nothing":   func() any { return nil },
		"nilmap":    func() map[string]any { return nil },
		"nillist":   func() []any { return nil },
		"isnilmap":  func(m map[string]any) bool { return m == nil },
		"isnillist": func(m []any) bool { return m == nil },
		"type":      func(a any) string { return fmt.Sprintf("%T", a) },
		"dict": func(kv ...any) (map[string]any, error) {
			m := map[string]any{}
			for i := 0; i+1 < len(kv); i += 2 {
				k, ok := kv[i].(string)
				if !ok {
					return nil, errors.New("key is no string")
				}
				m[k] = kv[i+1]
			}
			return m, nil
		},
		"set": func(m map[string]any, k string, v any) map[string]any { m[k] = v; return m },
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"tpl": tpl(t, mode),
		"wrapped": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			return b.String(), err
		},
	}
}

func tpl(parent *template.Template, mode string) func(string, any) (string, error) {
	return func(text string, vals any) (string, error) {
		t, err := parent.Clone()
		if err != nil {
			return "", err
		}
		t.Option("missingkey=" + mode)
		t.Funcs(template.FuncMap{"include": funcs(t, mode)["include"], "tpl": tpl(t, mode), "wrapped": funcs(t, mode)["wrapped"]})
		t, err = t.New(parent.Name()).Parse(text)
		if err != nil {
			return "", fmt.Errorf("cannot parse template %q: %w", text, err)
		}
		var b strings.Builder
		if err := t.Execute(&b, vals); err != nil {
			return "", fmt.Errorf("error during tpl function execution for %q: %w", text, err)
		}
		return b.String(), nil
	}
}

func run(mode string, texts []string) (status, text string, levels []string) {
	defer func() {
		if r := recover(); r != nil {
			status, text = "panic", fmt.Sprint(r)
		}
	}()
	t := template.New("gotpl")
	t.Option("missingkey=" + mode)
	t.Funcs(funcs(t, mode))
	for i, s := range texts {
		if _, err := t.New("t" + strconv.Itoa(i)).Parse(s); err != nil {
			return "parse", err.Error(), nil
		}
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "t0", data()); err != nil {
		for e := err; e != nil; e = errors.Unwrap(e) {
			if n := len(levels); n == 0 || levels[n-1] != e.Error() {
				levels = append(levels, e.Error())
			}
		}
		return "exec", err.Error(), levels
	}
	return "out", b.String(), nil
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		line := in.Text()
		if line == "" || line[0] == '#' {
			fmt.Fprintln(out, line)
			continue
		}
		cols := strings.Split(line, "\t")
		text, err := strconv.Unquote(cols[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, "bad line", line)
			os.Exit(1)
		}
		status, result, levels := run(cols[0], strings.Split(text, "\x1e"))
		fmt.Fprintf(out, "%s\t%s\t%s\t%s", cols[0], cols[1], status, strconv.QuoteToASCII(result))
		if len(levels) > 1 {
			for _, l := range levels[1:] {
				fmt.Fprintf(out, "\t%s", strconv.QuoteToASCII(l))
			}
		}
		fmt.Fprintln(out)
	}
}
