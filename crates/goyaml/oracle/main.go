// The oracle answers what Go makes of a YAML or JSON text, so that the crate can be compared with it.
//
// It reads one JSON object a line, {"op": …, "text": base64}, and answers with one a line,
// {"out": base64, "err": …}. See operations below.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type request struct {
	Op   string `json:"op"`
	Text []byte `json:"text"`
}

type answer struct {
	Out []byte `json:"out"`
	Err string `json:"err"`
}

// SimpleHead is what Helm reads of a manifest.
type SimpleHead struct {
	Version  string `json:"apiVersion"`
	Kind     string `json:"kind,omitempty"`
	Metadata *struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata,omitempty"`
}

// readers turn a text into something that is then shown as JSON.
var readers = map[string]func([]byte) (any, error){
	"read":     into(lenient[any], zero[any]),
	"strict":   into(strict[any], zero[any]),
	"map":      into(lenient[map[string]any], newMap),
	"list":     into(lenient[[]any], newList),
	"values":   readValues,
	"head":     into(lenient[SimpleHead], zero[SimpleHead]),
	"json":     into(asJSON[any], zero[any]),
	"jsonmap":  into(asJSON[map[string]any], newMap),
	"jsonlist": into(asJSON[[]any], newList),
	"jsonprefix": func(text []byte) (any, error) {
		var v any
		decoder := json.NewDecoder(bytes.NewReader(text))
		err := decoder.Decode(&v)
		return []any{v, decoder.InputOffset()}, err
	},
}

func into[T any](unmarshal func([]byte, *T) error, start func() T) func([]byte) (any, error) {
	return func(text []byte) (any, error) {
		v := start()
		err := unmarshal(text, &v)
		return v, err
	}
}

func zero[T any]() (v T)                  { return }
func newMap() map[string]any              { return map[string]any{} }
func newList() []any                      { return []any{} }
func lenient[T any](b []byte, v *T) error { return yaml.Unmarshal(b, v) }
func strict[T any](b []byte, v *T) error  { return yaml.UnmarshalStrict(b, v) }
func asJSON[T any](b []byte, v *T) error  { return json.Unmarshal(b, v) }

// readValues reads a values file as Helm does: document by document, merged.
func readValues(text []byte) (any, error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	values := newMap()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("error reading yaml document: %w", err)
		}
		more := newMap()
		if err := yaml.Unmarshal(document, &more); err != nil {
			return nil, fmt.Errorf("cannot unmarshal yaml document: %w", err)
		}
		values = merge(values, more)
	}
}

func merge(a, b map[string]any) map[string]any {
	for key, value := range b {
		if more, ok := value.(map[string]any); ok {
			if known, ok := a[key].(map[string]any); ok {
				a[key] = merge(known, more)
				continue
			}
		}
		a[key] = value
	}
	return a
}

// writers write a value, which is given as JSON; see plain.
var writers = map[string]func(any) ([]byte, error){
	"toyaml": func(v any) ([]byte, error) { return yaml.Marshal(v) },
	"topretty": func(v any) ([]byte, error) {
		var out bytes.Buffer
		encoder := yamlv3.NewEncoder(&out)
		encoder.SetIndent(2)
		err := encoder.Encode(v)
		return out.Bytes(), err
	},
	"tojson":       json.Marshal,
	"tojsonpretty": func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") },
	"tojsonraw": func(v any) ([]byte, error) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(v)
		return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
	},
}

// plain turns what JSON cannot say into what it stands for: {"$int": "1"}, {"$uint": "1"},
// {"$float": "NaN"}, {"$string": base64}, {"$bytes": base64}, and keys such as "$string:" + base64.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		for index := range v {
			v[index] = plain(v[index])
		}
		return v
	case map[string]any:
		if len(v) == 1 {
			for kind, text := range v {
				if text, ok := text.(string); ok && strings.HasPrefix(kind, "$") {
					if value, ok := special(kind, text); ok {
						return value
					}
				}
			}
		}
		entries := newMap()
		for key, value := range v {
			if text, ok := strings.CutPrefix(key, "$string:"); ok {
				key = string(decode(text))
			}
			entries[key] = plain(value)
		}
		return entries
	}
	return v
}

func special(kind, text string) (any, bool) {
	switch kind {
	case "$int":
		v, err := strconv.ParseInt(text, 10, 64)
		return v, err == nil
	case "$uint":
		v, err := strconv.ParseUint(text, 10, 64)
		return v, err == nil
	case "$float":
		v, err := strconv.ParseFloat(text, 64)
		return v, err == nil
	case "$string":
		return string(decode(text)), true
	case "$bytes":
		return decode(text), true
	}
	return nil, false
}

func decode(text string) []byte {
	bytes, _ := base64.StdEncoding.DecodeString(text)
	return bytes
}

func handle(r request) (a answer) {
	defer func() {
		if trouble := recover(); trouble != nil {
			a = answer{Err: fmt.Sprint("panic: ", trouble)}
		}
	}()
	var out []byte
	var err error
	if read, ok := readers[r.Op]; ok {
		var v any
		if v, err = read(r.Text); err == nil {
			out, err = json.Marshal(v)
		}
	} else {
		var v any
		if err = json.Unmarshal(r.Text, &v); err == nil {
			out, err = writers[r.Op](plain(v))
		}
	}
	if err != nil {
		// Helm's type of this name lives in its package util.
		return answer{Err: strings.ReplaceAll(err.Error(), "main.SimpleHead", "util.SimpleHead")}
	}
	return answer{Out: out}
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			text, _ := json.Marshal(handle(r))
			out.Write(append(text, '\n'))
			if in.Buffered() == 0 {
				out.Flush()
			}
		}
		if err != nil {
			return
		}
	}
}
