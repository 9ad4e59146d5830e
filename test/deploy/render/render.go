// Renders a Helm chart with what Helm itself uses: Go's text/template, the sprig functions, and sigs.k8s.io/yaml. It has the functions and
// objects that this repository's chart uses. Usage: render CHART RELEASE NAMESPACE VALUES; prints the manifests, or the error of a template.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

func read(path string) values {
	text, err := os.ReadFile(path)
	exitOn(err)
	parsed := values{}
	exitOn(yaml.Unmarshal(text, &parsed))
	return parsed
}

// Merges values as Helm does: maps key by key, and everything else replaced. A null removes a default.
func merge(base, given values) values {
	merged := values{}
	for name, value := range base {
		merged[name] = value
	}
	for name, value := range given {
		below, isMap := value.(values)
		current, hasMap := merged[name].(values)
		switch {
		case value == nil:
			delete(merged, name)
		case isMap && hasMap:
			merged[name] = merge(current, below)
		default:
			merged[name] = value
		}
	}
	return merged
}

func toYaml(value interface{}) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func required(message string, value interface{}) (interface{}, error) {
	if value == nil || value == "" {
		return nil, fmt.Errorf("%s", message)
	}
	if list, isList := value.([]interface{}); isList && len(list) == 0 {
		return nil, fmt.Errorf("%s", message)
	}
	return value, nil
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	chart, release, namespace, given := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	root := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	functions["required"] = required
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	root.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	exitOn(err)
	sort.Strings(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		exitOn(err)
		_, err = root.New(filepath.Base(path)).Parse(string(text))
		exitOn(err)
	}
	about := values{}
	for name, value := range read(filepath.Join(chart, "Chart.yaml")) {
		about[strings.ToUpper(name[:1])+name[1:]] = value
	}
	data := values{
		"Values":  merge(read(filepath.Join(chart, "values.yaml")), read(given)),
		"Chart":   about,
		"Release": values{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text bytes.Buffer
		exitOn(root.ExecuteTemplate(&text, name, data))
		fmt.Printf("---\n# Source: %s\n%s\n", name, strings.ReplaceAll(text.String(), "<no value>", ""))
	}
}
