package main

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// exporter is a MeterProvider for stacks and chains, and the handler that
// Prometheus scrapes.
type exporter struct {
	*sdkmetric.MeterProvider
	http.Handler
}

// newExporter spells the names that dashboard.json and alerts.yaml use:
// gen_ai.client.inference.duration is gen_ai_client_inference_duration_seconds.
func newExporter() (*exporter, error) {
	reg := prometheus.NewRegistry()
	reader, err := otelprom.New(
		otelprom.WithRegisterer(reg),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, err
	}
	return &exporter{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Handler:       promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}),
	}, nil
}

func (e *exporter) close() error { return e.Shutdown(context.Background()) }
