// Command go-engine times Helm's own engine as a library, for the comparison of `make bench`.
//
// usage: go-engine CHART VALUES|- RUNS
//
// The chart is loaded once; each run changes one value, coalesces and renders everything. It prints
// one line: nanoseconds of the median run, and the bytes that one run renders.
package main

import (
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
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go-engine CHART VALUES|- RUNS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "go-engine:", err)
		os.Exit(1)
	}
}

func run(path, valuesPath, count string) error {
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
		size = 0
		for _, text := range files {
			size += len(text)
		}
	}
	slices.Sort(times)
	fmt.Println(times[len(times)/2].Nanoseconds(), size)
	return nil
}
