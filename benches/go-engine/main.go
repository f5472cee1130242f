// Command go-engine times Helm's own engine as a library, for the comparison of `make bench`.
//
// usage: go-engine CHART VALUES|- RUNS [FILE]
//
// The chart is loaded once; each run changes one value, coalesces and renders everything. It prints
// one line: nanoseconds of the median run, and the bytes that one run renders. With FILE, what the
// templates printed goes there as a JSON object by their paths.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	log.SetOutput(io.Discard)
	if len(os.Args) < 4 || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: go-engine CHART VALUES|- RUNS [FILE]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "go-engine:", err)
		os.Exit(1)
	}
}

func run(path, valuesPath, count string, printed []string) error {
	runs, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	values := map[string]any{}
	if valuesPath != "-" {
		file, err := os.Open(valuesPath)
		if err != nil {
			return err
		}
		defer file.Close()
		if values, err = loader.LoadValues(file); err != nil {
			return err
		}
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	options := common.ReleaseOptions{Name: "demo", Namespace: "apps", Revision: 1, IsInstall: true}
	times := make([]time.Duration, 0, runs)
	size := 0
	var last map[string]string
	for i := range runs {
		values["benchRun"] = float64(i)
		start := time.Now()
		input, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
		if err != nil {
			return err
		}
		files, err := engine.Render(chart, input)
		if err != nil {
			return err
		}
		times = append(times, time.Since(start))
		last = files
		size = 0
		for _, text := range files {
			size += len(text)
		}
	}
	if len(printed) == 1 {
		text, err := json.Marshal(last)
		if err != nil {
			return err
		}
		if err := os.WriteFile(printed[0], text, 0o600); err != nil {
			return err
		}
	}
	slices.Sort(times)
	fmt.Println(times[len(times)/2].Nanoseconds(), size)
	return nil
}
