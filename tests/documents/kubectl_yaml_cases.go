//go:build ignore

// Reads a JSON list of texts from stdin and writes the result of kubectl for each text. The program uses the
// decoder of k8s.io/cli-runtime's StreamVisitor, and writes the JSON that kubectl sends to the API server.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type result struct {
	Text      string            `json:"text"`
	Documents []json.RawMessage `json:"documents,omitempty"`
	Error     string            `json:"error,omitempty"`
}

func read(text string) result {
	out := result{Text: text, Documents: []json.RawMessage{}}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		ext := runtime.RawExtension{}
		if err := decoder.Decode(&ext); err == io.EOF {
			return out
		} else if err != nil {
			return result{Text: text, Error: err.Error()}
		}
		raw := bytes.TrimSpace(ext.Raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		var value any
		if err := kjson.Unmarshal(raw, &value); err != nil {
			return result{Text: text, Error: err.Error()}
		}
		var wire bytes.Buffer
		encoder := json.NewEncoder(&wire)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return result{Text: text, Error: err.Error()}
		}
		out.Documents = append(out.Documents, bytes.TrimSpace(wire.Bytes()))
	}
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	// Each case is on one line.
	separator := "[\n "
	for _, text := range texts {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(read(text)); err != nil {
			panic(err)
		}
		fmt.Print(separator, strings.TrimSpace(line.String()))
		separator = ",\n "
	}
	fmt.Print("\n]\n")
}
