package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// metrics is what stacks and chains report to, and what Prometheus scrapes.
// examples/telemetry has a dashboard and alerts for it.
type metrics struct {
	metric.MeterProvider
	http.Handler
}

func newMetrics() (*metrics, error) {
	reg := prometheus.NewRegistry()
	reader, err := otelprom.New(
		otelprom.WithRegisterer(reg),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, err
	}
	return &metrics{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Handler:       promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}),
	}, nil
}
