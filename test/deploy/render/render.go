// Renders a Helm chart with what Helm itself uses: Go's text/template, the sprig functions, and sigs.k8s.io/yaml. Functions and the coalescing
// of values behave as those of Helm 4 (pkg/engine, pkg/chart/common/util): a chart that fails closed here has to do so there. Usage:
//
//	render CHART
//
// It reads requests from stdin, and prints a response for each in a line: the coalesced values, which Helm validates against the schema; the
// objects; or the error of a template. Requests share nothing but the process.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// Values has a type of its own, as in Helm.
type Values map[string]interface{}

type table = map[string]interface{}

type request struct {
	// "values" or "manifests".
	Mode string `json:"mode"`
	// The given values as YAML.
	Values    string `json:"values"`
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
}

type response struct {
	Result interface{} `json:"result,omitempty"`
	Error  string      `json:"error,omitempty"`
}

func read(path string) table {
	text, err := os.ReadFile(path)
	failOn(err)
	return parseTable(text)
}

func parseTable(text []byte) table {
	parsed := table{}
	failOn(yaml.Unmarshal(text, &parsed))
	return parsed
}

// Completes given values with the defaults of the chart. A null removes a default: its key is absent then, and Helm validates and renders the
// values without it. A null for a key without a default stays.
func coalesceValues(given, defaults table) table {
	for key, fallback := range defaults {
		value, isGiven := given[key]
		below, isTable := value.(table)
		fallbackTable, hasTable := fallback.(table)
		switch {
		case isGiven && value == nil:
			delete(given, key)
		case isGiven && isTable && hasTable:
			cleanNulls(fallbackTable)
			coalesceTables(below, fallbackTable)
		case !isGiven && fallback != nil:
			if hasTable {
				cleanNulls(fallbackTable)
			}
			given[key] = fallback
		}
	}
	return given
}

func coalesceTables(given, defaults table) {
	for key, fallback := range defaults {
		value, isGiven := given[key]
		below, isTable := value.(table)
		fallbackTable, hasTable := fallback.(table)
		switch {
		case isGiven && value == nil && fallback != nil:
			delete(given, key)
		case !isGiven:
			given[key] = fallback
		case isTable && hasTable:
			coalesceTables(below, fallbackTable)
		}
	}
}

func cleanNulls(values table) {
	for key, value := range values {
		if below, isTable := value.(table); isTable {
			cleanNulls(below)
		} else if value == nil {
			delete(values, key)
		}
	}
}

const (
	messageStart = "HELM_ERR_START"
	messageEnd   = "HELM_ERR_END"
)

var messagePattern = regexp.MustCompile("(?s)" + messageStart + "(.*)" + messageEnd)

func toError(message string) error {
	return errors.New(messageStart + message + messageEnd)
}

func include(root *template.Template) func(string, interface{}) (string, error) {
	return func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
}

func tpl(parent *template.Template) func(string, interface{}) (string, error) {
	return func(text string, data interface{}) (string, error) {
		root, err := parent.Clone()
		if err != nil {
			return "", err
		}
		root.Option("missingkey=zero")
		root.Funcs(template.FuncMap{"include": include(root), "tpl": tpl(root)})
		parsed, err := root.New(parent.Name()).Parse(text)
		if err != nil {
			return "", err
		}
		var rendered strings.Builder
		err = parsed.Execute(&rendered, data)
		return strings.ReplaceAll(rendered.String(), "<no value>", ""), err
	}
}

// The functions of Helm's engine without a cluster, as `helm template` has them. Those for TOML and durations are left out.
func functionsOf(root *template.Template) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["include"] = include(root)
	functions["tpl"] = tpl(root)
	// Only nothing and the empty text are missing: an empty list or map is a value.
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, toError(message)
		}
		return value, nil
	}
	functions["fail"] = func(message string) (string, error) { return "", toError(message) }
	functions["lookup"] = func(string, string, string, string) (table, error) { return table{}, nil }
	functions["getHostByName"] = func(string) string { return "" }
	// An error of the encoder is an empty text.
	functions["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	functions["fromYaml"] = func(text string) table {
		parsed := table{}
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			parsed["Error"] = err.Error()
		}
		return parsed
	}
	functions["toJson"] = func(value interface{}) string {
		text, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		return string(text)
	}
	functions["fromJson"] = func(text string) table {
		parsed := table{}
		if err := json.Unmarshal([]byte(text), &parsed); err != nil {
			parsed["Error"] = err.Error()
		}
		return parsed
	}
	return functions
}

var separator = regexp.MustCompile(`(?:^|\s*\n)---\s*`)

// Parses the objects of a rendered template as Kubernetes does, with the types of YAML 1.1. A key that is there twice is an error.
func parse(name, text string) []json.RawMessage {
	objects := []json.RawMessage{}
	for _, document := range separator.Split(text, -1) {
		object, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			failOn(fmt.Errorf("YAML parse error on %s: %w", name, err))
		}
		if string(object) != "null" {
			objects = append(objects, object)
		}
	}
	return objects
}

// Compiles the patterns of a schema: Helm's validator has the regular expressions of Go, which lack lookaround.
func checkPatterns(schema interface{}) {
	switch schema := schema.(type) {
	case table:
		if pattern, isText := schema["pattern"].(string); isText {
			_, err := regexp.Compile(pattern)
			failOn(err)
		}
		for _, below := range schema {
			checkPatterns(below)
		}
	case []interface{}:
		for _, below := range schema {
			checkPatterns(below)
		}
	}
}

// What answer recovers from.
type failure struct{ message string }

// Ends the answer to a request with an error.
func failOn(err error) {
	if err == nil {
		return
	}
	if found := messagePattern.FindStringSubmatch(err.Error()); found != nil {
		err = fmt.Errorf("execution error: %s", found[1])
	}
	panic(failure{err.Error()})
}

func render(chart string, values table, release, namespace string) []json.RawMessage {
	root := template.New("gotpl").Option("missingkey=zero")
	root.Funcs(functionsOf(root))
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	failOn(err)
	sort.Sort(sort.Reverse(sort.StringSlice(paths)))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		failOn(err)
		_, err = root.New(filepath.Base(path)).Parse(string(text))
		failOn(err)
	}
	about := table{}
	for name, value := range read(filepath.Join(chart, "Chart.yaml")) {
		about[strings.ToUpper(name[:1])+name[1:]] = value
	}
	objects := []json.RawMessage{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		data := Values{
			"Values":   Values(values),
			"Chart":    about,
			"Release":  table{"Name": release, "Namespace": namespace, "Service": "Helm", "IsInstall": true, "Revision": 1},
			"Template": Values{"Name": name, "BasePath": "templates"},
		}
		var text strings.Builder
		failOn(root.ExecuteTemplate(&text, name, data))
		if name != "NOTES.txt" {
			objects = append(objects, parse(name, strings.ReplaceAll(text.String(), "<no value>", ""))...)
		}
	}
	return objects
}

// Schemas whose patterns have been checked.
var checked = map[string]bool{}

func answer(chart string, asked request) (answered response) {
	defer func() {
		switch recovered := recover().(type) {
		case nil:
		case failure:
			answered = response{Error: recovered.message}
		default:
			panic(recovered)
		}
	}()
	values := coalesceValues(parseTable([]byte(asked.Values)), read(filepath.Join(chart, "values.yaml")))
	if asked.Mode == "manifests" {
		return response{Result: render(chart, values, asked.Release, asked.Namespace)}
	}
	// Reading the schema takes longer than all else.
	if schema := filepath.Join(chart, "values.schema.json"); !checked[schema] {
		checkPatterns(read(schema))
		checked[schema] = true
	}
	return response{Result: values}
}

func main() {
	requests := json.NewDecoder(os.Stdin)
	responses := bufio.NewWriter(os.Stdout)
	defer responses.Flush()
	encoder := json.NewEncoder(responses)
	for {
		asked := request{}
		err := requests.Decode(&asked)
		if err == io.EOF {
			return
		}
		if err == nil {
			err = encoder.Encode(answer(os.Args[1], asked))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
